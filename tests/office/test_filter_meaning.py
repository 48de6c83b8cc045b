"""Compiled filters against the same in plain Python, on random letters; a filter and its opposite."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.machine.statements import load_sections
from redrive.office.filters import Filter, FilterError, compile_filter, parse
from redrive.office.filters.terms import AllOf, opposite
from redrive.office.index.cursors import Cursor, LetterOrder
from redrive.office.index.find import count, find
from tests.office.filter_model import Letter, meant

NOW = 1_800_000_000_000
LEAVES = (
    *("id:aa", 'id:"0"', "id:0123*", "queue:orders", "queue:email:*", "tenant:acme", "tenant:acme,globex"),
    *("code:504", "code:5xx", "code:5.1.x", 'code:""', "code:50x,402", "kind:temporary", 'kind:""'),
    *(
        "fingerprint:6f1c",
        'fingerprint:""',
        "reason:poison",
        "reason:mailbox",
        'reason:"mailbox full",expired',
    ),
    *("attempts:3", "attempts:>=3", "attempts:1..3", "redriven:0", "redriven:<2", "age:>2h", "age:<=1w"),
    *("age:1h..2h30m", "died:>03:00", "died:<yesterday", "died:today", "enqueued:>2026-11-15", "MAILBOX"),
    *(
        "redied:>03:00",
        "redied:<today",
        "redied:2027-01-14..03:00",
        "moved:>03:00",
        "movedToDLQAt:<yesterday",
    ),
    *('"full"', "payload.order:7", 'payload.order:"7"', "payload.order:>5", "payload.order:1..8"),
    *("payload.test:true", "payload.items.0:x", "payload.none:null", "payload.order:-1.5", "jobId:aa"),
)
HOUR_MS = 3_600_000
REFUSED = ("no letter is both", "every letter is not", "text beside OR")

letters = st.lists(
    st.builds(
        Letter,
        id=st.sampled_from(("aa", "0", "0123aa", "0123bb")),
        queue=st.sampled_from(("orders", "email:send", "email:")),
        tenant=st.sampled_from(("acme", "Acme", "globex")),
        reason=st.sampled_from(("poison", "expired", "exhausted")),
        kind=st.sampled_from((None, "temporary", "permanent")),
        code=st.sampled_from((None, "504", "503", "402", "5.1.1", "5.1.10", "5.2.1", "5xx", "50")),
        failure=st.sampled_from(("Mailbox full", "poison was here", "504")),
        fingerprint=st.sampled_from(("", "6f1c", "6f1c000000000000", "6f1d")),
        attempts=st.integers(0, 5),
        redriven=st.integers(0, 3),
        enqueued=st.integers(NOW - 200 * 24 * HOUR_MS, NOW),
        died=st.integers(NOW - 60 * HOUR_MS, NOW) | st.just(NOW - 2 * HOUR_MS),
        moved=st.integers(NOW - 30 * HOUR_MS, NOW) | st.just(NOW - 2 * HOUR_MS),
        body=st.sampled_from(
            (
                '{"order": 7, "items": ["x"], "test": true}',
                '{"order": "7", "items": [], "none": null}',
                '{"order": -1.5, "test": "true", "items": {"0": "x"}}',
                "[1]",
                "7",
                '"mailbox"',
            )
        ),
    ),
    max_size=8,
    unique_by=lambda letter: letter.id,
)


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Groups of such parts, as people write them."""
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda some: f"({' '.join(some)})"),
        several.map(lambda some: f"({' AND '.join(some)})"),
        several.map(lambda some: f"({' OR '.join(some)})"),
        parts.map(lambda one: f"NOT {one}"),
        parts.map(lambda one: f"NOT NOT {one}"),
        parts.map(lambda one: f"(NOT ({one}))"),
    )


def attempt(text: str) -> Filter | None:
    """The filter; None for the combinations that are refused because nothing or everything fits them."""
    try:
        return parse(text, NOW)
    except FilterError as error:
        if not error.problem.startswith(REFUSED):
            raise
        return None


asked = st.recursive(st.sampled_from(LEAVES), joined, max_leaves=6)


@pytest.fixture(scope="module")
def index() -> Iterator[apsw.Connection]:
    db = apsw.Connection(":memory:")
    db.execute(load_sections("redrive.office", "statements/index.sql")["schema"])
    yield db
    db.close()


def fill(db: apsw.Connection, some: list[Letter]) -> None:
    statements = load_sections("redrive.office", "statements/index.sql")
    db.execute("delete from letters; delete from letter_bodies")
    for letter in some:
        db.execute(statements["add_letter"], letter.row)
        db.execute(statements["add_body"], (letter.id, letter.body.encode()))


def found(db: apsw.Connection, read: Filter) -> set[str]:
    condition = compile_filter(read, now=NOW)
    page = find(db, condition, Cursor.start(LetterOrder.OLDEST), 100, 10)
    assert count(db, condition) == len(page.letters)
    return {one.id for one in page.letters}


@given(text=asked, some=letters)
def test_what_is_found_is_what_the_filter_means(
    index: apsw.Connection, text: str, some: list[Letter]
) -> None:
    read = attempt(text)
    if read is None:
        return
    fill(index, some)
    assert found(index, read) == {one.id for one in some if meant(read, one, NOW)}
    assert parse(str(read)) == read


@given(text=asked, some=letters)
def test_a_filter_and_its_opposite_part_the_letters(
    index: apsw.Connection, text: str, some: list[Letter]
) -> None:
    read, turned = attempt(text), attempt(f"NOT ({text})")
    if read is None or turned is None:
        return
    fill(index, some)
    these, others = found(index, read), found(index, turned)
    assert these.isdisjoint(others)
    assert these | others == {one.id for one in some}
    assert found(index, Filter((opposite(AllOf(read.terms)),))) == others


def test_the_opposite_of_a_code_is_every_other_letter_also_those_without(index: apsw.Connection) -> None:
    one = Letter("a", "q", "t", "poison", None, "504", "why", "", 1, 0, 0, 0, 0, "{}")
    some = [
        one,
        Letter(**{**vars(one), "id": "b", "code": "503"}),
        Letter(**{**vars(one), "id": "c", "code": None}),
    ]
    fill(index, some)
    assert found(index, parse("NOT code:504")) == {"b", "c"}
