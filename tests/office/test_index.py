"""Finding dead letters: by every field, page by page, within a tenant's bounds, also through payloads."""

from __future__ import annotations

import pytest

from redrive.core.failure import Kind
from redrive.core.letters import LetterKey
from redrive.core.store import Store
from redrive.core.values import instant
from redrive.core.verdict import Reason
from redrive.office.filters import Filter, parse
from redrive.office.index import CursorError, Index, LetterOrder, TenantPart
from tests.office.deaths import MINUTE_MS, bury, letter

HOUR_MS = 60 * MINUTE_MS


async def find(index: Index, text: str, *, scope: str | None = None) -> list[str]:
    """The ids that a filter finds, oldest first."""
    page = await index.find(parse(text), scope=scope, limit=500)
    assert page.cursor is None
    return [found.id for found in page.letters]


async def all_pages(
    index: Index, text: str, limit: int, order: LetterOrder = LetterOrder.OLDEST
) -> list[str]:
    ids: list[str] = []
    after = None
    while True:
        page = await index.find(parse(text), after=after, limit=limit, order=order)
        ids += [found.id for found in page.letters]
        after = page.cursor
        if after is None:
            return ids


@pytest.mark.parametrize(
    "text",
    [
        "queue:orders",
        "tenant:umbra",
        "code:451",
        "-code:550",
        "-tenant:acme",
        "reason:exhausted",
        "reason:GREYLISTED",
        'reason:"100% greylisted_x"',
        "kind:temporary",
        "-kind:permanent",
        "fingerprint:aaaa",
        "attempts:5",
        "attempts:>=2",
        "attempts:>4",
        "-attempts:<5",
        "redriven:1",
        "redriven:>0",
        "age:>2h",
        "-age:<=2h",
        "died:<{then}",
        "enqueued:<{then}",
        "payload.order_id:7",
        'payload.name:"seven"',
        "payload.name:seven",
        "payload.items.1.sku:B7",
        "payload.paid:true",
        "payload.total:>=99.5",
        "payload.note:null",
        "payload.number:7",
        "-payload.order_id:8",
        "greylisted",
        "GREYLISTED",
        '"100%"',
        "needle",
        "ção",
        "AÇÃO",
        '-"plain payload"',
        "code:451,452 tenant:umbra,acme",
    ],
)
async def test_each_field_finds_the_letter_that_has_it_and_not_the_other(
    index: Index, store: Store, text: str
) -> None:
    wanted = letter(
        store,
        queue="orders",
        tenant="umbra",
        code="451",
        reason=Reason.EXHAUSTED,
        kind=Kind.TEMPORARY,
        why="100% greylisted_x",
        fingerprint="aaaa",
        attempts=5,
        redriven=1,
        age_ms=3 * HOUR_MS,
        body=(
            '{"order_id": 7, "name": "seven", "items": [{}, {"sku": "B7"}], "paid": true, "total": 99.5,'
            ' "note": null, "number": "7", "text": "a needle, ação"}'
        ).encode(),
    )
    other = letter(
        store,
        why="1000 grey listed",
        body=(
            b'{"order_id": 8, "name": "eight", "items": [], "paid": "no", "total": "much",'
            b' "text": "plain payload"}'
        ),
    )
    (wanted_id, _) = await bury(store, [wanted, other])
    then = instant(store.now() - 2 * HOUR_MS)
    assert await find(index, text.format(then=then)) == [wanted_id]


async def test_a_letter_without_a_code_is_found_by_an_empty_one(index: Index, store: Store) -> None:
    lost = letter(store, kind=None, code=None, reason=Reason.WORKER_LOST)
    (lost_id, _) = await bury(store, [lost, letter(store)])
    assert await find(index, 'code:""') == [lost_id]
    assert await find(index, 'reason:"worker lost"') == [lost_id]
    assert await find(index, "worker") == [lost_id]


async def test_a_payload_that_is_not_json_is_searched_as_text_and_spoils_nothing(
    index: Index, store: Store
) -> None:
    bodies = [b"\xff\xfe raw needle", b'{"cut": ', b"[]", b'"needle"', b"", b'{"a":12}']
    ids = await bury(store, [letter(store, body=body) for body in bodies])
    assert await find(index, "needle") == [ids[0], ids[3]]
    assert await find(index, "payload.a:12") == [ids[5]]


async def test_a_quoted_number_is_a_string_and_a_bare_one_is_either(index: Index, store: Store) -> None:
    ids = await bury(
        store, [letter(store, body=body) for body in (b'{"n": 7}', b'{"n": "7"}', b'{"n": 7.0}')]
    )
    assert await find(index, "payload.n:7") == ids
    assert await find(index, 'payload.n:"7"') == [ids[1]]


async def test_pages_follow_one_another_in_both_orders_also_where_letters_died_together(
    index: Index, store: Store
) -> None:
    ages = [5, 5, 5, 4, 4, 3, 2, 2, 1, 1]
    ids = await bury(store, [letter(store, age_ms=age * HOUR_MS) for age in ages])
    for text in ("", "mailbox"):
        assert sorted(await all_pages(index, text, 3)) == sorted(ids)
        newest = await all_pages(index, text, 3, LetterOrder.NEWEST)
        assert newest == list(reversed(await all_pages(index, text, 4)))


async def test_a_cursor_holds_its_place_while_letters_leave_and_die(index: Index, store: Store) -> None:
    ids = await bury(store, [letter(store, age_ms=(10 - n) * MINUTE_MS) for n in range(6)])
    first = await index.find(Filter(), limit=3)
    await store.redrive("email:send", [LetterKey(one) for one in (ids[0], ids[2], ids[3])], actor="ana")
    (newcomer,) = await bury(store, [letter(store, age_ms=1)])
    rest = await index.find(Filter(), after=first.cursor, limit=10)
    assert [found.id for found in rest.letters] == [*ids[4:], newcomer]


async def test_a_key_names_the_queue_and_the_generation(index: Index, store: Store) -> None:
    (letter_id,) = await bury(store, [letter(store, redriven=2, queue="orders")])
    (found,) = (await index.find(Filter())).letters
    assert (found.queue, found.id, found.generation) == ("orders", letter_id, 2)
    assert await store.redrive("orders", [LetterKey(found.id, found.generation)], actor="ana") == {letter_id}
    assert (await index.find(Filter())).letters == ()


@pytest.mark.parametrize("text", ["", "tenant:umbra", "-tenant:acme", "needle", "payload.n:1", "code:550"])
async def test_nothing_of_another_tenant_is_found_counted_or_split(
    index: Index, store: Store, text: str
) -> None:
    letters = [
        letter(store, tenant=tenant, body=b'{"n": 1, "text": "needle"}')
        for tenant in ("acme", "umbra", "umbra")
    ]
    await bury(store, letters)
    page = await index.find(parse(text), scope="acme")
    assert {found.tenant for found in page.letters} <= {"acme"}
    assert await index.count(parse(text), scope="acme") == len(page.letters) <= 1
    assert {part.tenant for part in await index.split(parse(text), scope="acme")} <= {"acme"}


async def test_a_split_counts_by_tenant_and_reason(index: Index, store: Store) -> None:
    letters = [
        *(letter(store, tenant="umbra", reason=Reason.EXHAUSTED) for _ in range(3)),
        *(letter(store, tenant="acme", reason=Reason.BOUNCED) for _ in range(2)),
        letter(store, tenant="acme"),
    ]
    await bury(store, letters)
    for text in ("", "mailbox"):
        parts = await index.split(parse(text))
        assert [(part.tenant, part.reason, part.count) for part in parts] == [
            ("umbra", "exhausted", 3),
            ("acme", "bounced", 2),
            ("acme", "permanent", 1),
        ]
        assert isinstance(parts[0], TenantPart)
        assert await index.count(parse(text)) == 6


async def test_letters_of_a_reason_are_counted_whatever_their_failures_say(
    index: Index, store: Store
) -> None:
    assert await index.count_reason(Reason.BOUNCED) == 0
    bounced = [letter(store, tenant=tenant, reason=Reason.BOUNCED) for tenant in ("acme", "umbra")]
    ids = await bury(store, [*bounced, letter(store, why="the other side bounced it")])
    assert await index.count_reason(Reason.BOUNCED) == 2
    await store.redrive(bounced[0].message.queue, [LetterKey(ids[0])], actor="ana")
    assert await index.count_reason(Reason.BOUNCED) == 1


async def test_a_search_through_payloads_says_how_far_it_looked(index: Index, store: Store) -> None:
    letters = [letter(store, age_ms=HOUR_MS - n, body=b'{"n": %d}' % n) for n in range(350)]
    ids = await bury(store, letters)
    page = await index.find(parse("payload.n:349 tenant:acme"), budget_s=0)
    assert page.letters == ()
    assert page.looked is not None
    assert page.cursor is not None
    assert 0 < page.looked.letters < 350 == page.looked.of
    rest = await index.find(parse("payload.n:349 tenant:acme"), after=page.cursor, budget_s=60)
    assert [found.id for found in rest.letters] == [ids[-1]]
    assert rest.cursor is None
    assert rest.looked is not None
    assert rest.looked.letters == rest.looked.of == 350


@pytest.mark.parametrize("cursor", ["", "x", "é", "bm90IGpzb24=", "W10=", "A" * 1_000])
async def test_a_cursor_that_was_not_given_here_is_refused(index: Index, cursor: str) -> None:
    with pytest.raises(CursorError):
        await index.find(Filter(), after=cursor)


async def test_a_cursor_of_the_other_order_is_refused(index: Index, store: Store) -> None:
    await bury(store, [letter(store) for _ in range(3)])
    page = await index.find(Filter(), limit=1)
    with pytest.raises(CursorError):
        await index.find(Filter(), after=page.cursor, order=LetterOrder.NEWEST)
