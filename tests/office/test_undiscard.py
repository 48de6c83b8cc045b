"""The way back from a discard, as an operation: by ids and by filter, within a tenant, in the audit."""

from __future__ import annotations

import pytest

from redrive.core.store import Store
from redrive.office.audit import Query, read
from redrive.office.operations import OperationKind, Order, Selection
from tests.conformance.makers import letters as all_letters
from tests.office.desks import ANA, desk, discard, letters, make_office


async def _discarded(store: Store) -> dict[str, list[str]]:
    ids = {tenant: await letters(store, 2, tenant=tenant) for tenant in ("acme", "globex")}
    ids["mails"] = await letters(store, 1, tenant="acme", queue="mails")
    await desk(store).wait((await desk(store).start(discard(Selection()))).id)
    assert await all_letters(store) == []
    return ids


@pytest.mark.parametrize(
    ("selection", "back"),
    [
        (Selection(), ("acme", "globex", "mails")),
        (Selection(filter="tenant:globex"), ("globex",)),
        (Selection(filter="tenant:acme queue:orders"), ("acme",)),
        (Selection(filter="-queue:orders"), ("mails",)),
        (Selection(filter="tenant:nobody"), ()),
    ],
)
async def test_discarded_letters_come_back_by_filter(
    store: Store, selection: Selection, back: tuple[str, ...]
) -> None:
    ids = await _discarded(store)
    order = Order(OperationKind.UNDISCARD, selection, expired=True)
    wanted = {one for name in back for one in ids[name]}
    assert (await desk(store).preview(order)).count == len(wanted)
    ended = await desk(store).wait((await desk(store).start(order)).id)
    assert (ended.moved, ended.skipped) == (len(wanted), 0)
    found = {one.message.id for queue in ("orders", "mails") for one in await all_letters(store, queue)}
    assert found == wanted


async def test_by_ids_what_is_not_discarded_is_left_and_the_audit_has_it(store: Store) -> None:
    ids = await _discarded(store)
    (still_dead,) = await letters(store, 1)
    named = Selection(ids=(ids["acme"][0], still_dead, "nobody"))
    started = await desk(store).start(Order(OperationKind.UNDISCARD, named, expired=True))
    ended = await desk(store).wait(started.id)
    assert (ended.moved, ended.operation.frozen.gone, ended.operation.frozen.missing) == (1, 1, 1)
    rows = [row.document async for row in read(store, Query(verb="undiscard"))]
    assert [row["row"] for row in rows] == ["intent", "frozen", "outcome"]
    assert rows[0]["actor"] == "ana@host"


async def test_nobody_brings_back_what_is_another_tenants(store: Store) -> None:
    await _discarded(store)
    globex = desk(store, scope="globex")
    ended = await globex.wait((await globex.start(Order(OperationKind.UNDISCARD, expired=True))).id)
    assert ended.moved == 2
    assert {one.message.tenant for one in await all_letters(store)} == {"globex"}


async def test_what_was_discarded_is_listed_by_filter_and_in_pages(store: Store) -> None:
    ids = await _discarded(store)
    find = make_office(store).acting(ANA).letters.find
    found, cursor = [], None
    for _ in range(10):
        page = (await find("tenant:acme", discarded=True, after=cursor, limit=1)).document
        found += [one.job_id for one in page.letters]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(found) == sorted([*ids["acme"], *ids["mails"]])
    scoped = make_office(store).acting(ANA, "globex").letters
    assert len((await scoped.find(discarded=True)).found) == 2


async def test_no_cursor_of_a_bound_actor_names_a_queue_of_others(store: Store) -> None:
    for queue in ("aaa-secret", "zzz-secret"):
        await letters(store, 1, tenant="rival", queue=queue)
    own = await _discarded(store)
    find = make_office(store).acting(ANA, "acme").letters.find
    found, cursor = [], None
    while True:
        page = (await find(discarded=True, after=cursor, limit=1)).document
        found += [one.job_id for one in page.letters]
        cursor = page.cursor
        if cursor is None:
            break
        assert "secret" not in cursor
    assert sorted(found) == sorted([*own["acme"], *own["mails"]])
