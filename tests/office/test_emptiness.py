"""Why a filter finds nothing: near values, each term alone, nothing of other tenants or masks."""

from __future__ import annotations

import pytest

from redrive.core.store import Store
from redrive.core.verdict import Reason
from redrive.office.beginnings import AmbiguousId, whole_id
from redrive.office.emptiness import TermAlone, explain_empty
from redrive.office.filters import parse
from redrive.office.filters.masked import masked_filter
from redrive.office.index import Index
from redrive.office.masking import Mask
from tests.office.deaths import bury, letter


async def test_near_values_and_each_term_alone_are_told(index: Index, store: Store) -> None:
    codes = ("504", "504", "550")
    await bury(store, [letter(store, tenant="acme", code=code) for code in codes])
    await bury(store, [letter(store, tenant="globex", code="504")])
    told = await explain_empty(index, parse("tenant:Acme code:550 NOT code:504"))
    assert told.terms == (
        TermAlone("tenant:Acme", 0),
        TermAlone("code:550", 1),
        TermAlone("-code:504", 1),
    )
    assert list(told.sentences) == [
        "no tenant Acme; acme has 3",
        "alone: tenant:Acme finds 0; code:550 finds 1; -code:504 finds 1",
    ]


async def test_without_anything_alike_the_most_frequent_values_are_named(index: Index, store: Store) -> None:
    await bury(store, [letter(store, tenant=name) for name in ("a", "b", "b", "c", "d")])
    (near,) = (await explain_empty(index, parse("tenant:zzzzzz"))).near
    assert (near.alike, near.values) == (False, (("b", 2), ("a", 1), ("c", 1)))


async def test_a_tenant_learns_nothing_of_another(index: Index, store: Store) -> None:
    await bury(store, [letter(store, tenant="acme", code="504"), letter(store, tenant="globex", code="550")])
    told = await explain_empty(index, parse("tenant:acme2 code:504"), scope="globex")
    assert "acme" not in str(told.near).replace("acme2", "")
    assert [one.letters for one in told.terms] == [0, 0]
    assert [value for one in told.near for value, _ in one.values] == ["globex", "550"]


async def test_a_value_that_would_be_masked_is_not_offered(index: Index, store: Store) -> None:
    await bury(store, [letter(store, code="ana@example.com"), letter(store, code="550")])
    plain = parse("code:ana@example.co")
    masked = masked_filter(plain, Mask.parse(""))
    assert "ana@example.com" in str((await explain_empty(index, plain)).near[0].values)
    assert "ana@example.com" not in str((await explain_empty(index, masked)).near[0].values)


async def test_a_letter_is_named_by_the_beginning_of_its_id_where_that_is_enough(
    index: Index, store: Store
) -> None:
    letters = [letter(store, tenant=name) for name in ("acme", "globex")]
    await bury(store, letters)
    first, second = (one.message.id for one in letters)
    common = next(size for size in range(len(first)) if first[size] != second[size])
    if common >= 4:
        with pytest.raises(AmbiguousId) as caught:
            await whole_id(index, first[:common])
        assert set(caught.value.ids) == {first, second}
        assert await whole_id(index, first[:common], scope="acme") == first
    assert await whole_id(index, first[: max(4, common + 1)].upper()) == first
    assert await whole_id(index, "0000-nothing") is None
    assert await whole_id(index, "ffffff") is None


async def test_a_reason_that_no_letter_has_is_told_with_those_near_it(index: Index, store: Store) -> None:
    await bury(store, [letter(store, reason=Reason.EXHAUSTED), letter(store, reason=Reason.PERMANENT)])
    told = await explain_empty(index, parse("reason:exhaust"))
    assert list(told.sentences) == ["no reason exhaust; exhausted has 1"]


async def test_a_word_of_a_failures_text_is_a_reason_that_letters_have(index: Index, store: Store) -> None:
    await bury(store, [letter(store, why="mailbox full", code="552")])
    told = await explain_empty(index, parse("reason:full code:999"))
    assert [one.field for one in told.near] == ["code"]
