"""Operations: what is frozen is moved once, whoever conducts, pauses, cancels, crashes or competes."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from redrive.core.errors import StoreError
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from redrive.core.settings import OfficeSettings
from redrive.core.store import Store
from redrive.office.audit import Query, read
from redrive.office.documents.operations import operation_document
from redrive.office.filters import FilterError
from redrive.office.operations import NoOperation, OperationError, OperationState, Selection
from redrive.office.operations.conductor import LEASE_S
from redrive.office.operations.operation import CHUNK
from redrive.office.operations.records import LETTER_RECORDS, LIVE_RECORDS, OPERATION_RECORDS, read_chunk
from tests.conformance.backends import Bench
from tests.conformance.makers import account, counts, entry, submit
from tests.conformance.makers import letters as dead_letters
from tests.office.desks import ORDERS, desk, discard, letters, redrive, run_to, step, work
from tests.office.slow import SlowStore


async def test_a_preview_counts_and_splits_and_changes_nothing(store: Store) -> None:
    ids = await letters(store, 3, tenant="acme")
    await letters(store, 2, tenant="globex")
    found = await desk(store).preview(redrive())
    assert found.count == 5
    assert dict(found.split) == {("orders", "acme", "permanent"): 3, ("orders", "globex", "permanent"): 2}
    assert set(ids) <= set(found.samples)
    assert not found.over_budget
    assert (await counts(store)).dlq == 5
    assert (await desk(store).list()).found == []


async def test_a_preview_splits_by_count_and_then_by_name(store: Store) -> None:
    for tenant, count in (("wonka", 1), ("acme", 1), ("umbra", 2), ("hooli", 1)):
        await letters(store, count, tenant=tenant)
    found = await desk(store).preview(redrive())
    assert [tenant for (_, tenant, _), _ in found.split] == ["umbra", "acme", "hooli", "wonka"]


async def test_a_redrive_brings_every_letter_back_and_says_what_came_of_them(store: Store) -> None:
    ids = await letters(store, CHUNK + 20)
    office = desk(store)
    started = await office.start(redrive())
    seen = await office.wait(started.id)
    assert seen.operation.state is OperationState.FINISHED
    assert (seen.moved, seen.skipped, seen.outstanding) == (CHUNK + 20, 0, CHUNK + 20)
    await work(store, lambda message: message.id != ids[0])
    seen = await office.show(started.id)
    assert (seen.passed, seen.failed, seen.done, seen.dead) == (CHUNK + 19, 1, CHUNK + 19, 1)
    assert seen.settled
    assert [one.redrives[0].operation for one in await dead_letters(store)] == [started.id]


async def test_a_discard_removes_the_letters_that_were_dead_when_it_was_asked_for(
    store: Store, bench: Bench
) -> None:
    ids = await letters(store, 3)
    office = desk(store)
    started = await office.start(discard())
    bench.advance(5)
    (later,) = await letters(store, 1)
    seen = await office.wait(started.id)
    assert (seen.moved, seen.skipped) == (3, 0)
    assert {(await account(store, one)).state for one in ids} == {State.REMOVED}
    assert (await account(store, later)).state is State.DEAD


async def test_a_limit_takes_the_oldest_and_ids_take_those_alone(store: Store) -> None:
    ids = await letters(store, 5)
    office = desk(store)
    started = await office.start(redrive(Selection(filter="queue:orders", limit=2)))
    assert (await office.wait(started.id)).moved == 2
    (waiting,) = await submit(store, 1)
    named = Selection(ids=(ids[4], ids[4], waiting, "unknown"))
    started = await office.start(discard(named))
    seen = await office.wait(started.id)
    frozen = seen.operation.frozen
    assert (seen.moved, frozen.gone, frozen.missing) == (1, 1, 1)
    assert {one.message.id for one in await dead_letters(store)} == {ids[2], ids[3]}


async def test_letters_whose_own_time_to_live_has_passed_stay_unless_asked_for(
    store: Store, bench: Bench
) -> None:
    (code,) = await letters(store, 1, ttl_s=60.0)
    await letters(store, 2)
    bench.advance(120)
    office = desk(store)
    found = await office.preview(redrive())
    assert (found.count, found.expired) == (2, 1)
    started = await office.start(redrive())
    seen = await office.wait(started.id)
    assert (seen.moved, seen.operation.frozen.expired) == (2, 1)
    assert [one.message.id for one in await dead_letters(store)] == [code]
    started = await office.start(redrive(expired=True))
    assert (await office.wait(started.id)).moved == 1


async def test_more_letters_than_the_budget_move_none_at_all(store: Store) -> None:
    await letters(store, 4)
    office = desk(store, settings=OfficeSettings(budget=3))
    assert (await office.preview(redrive())).over_budget
    started = await office.start(redrive())
    seen = await office.wait(started.id)
    assert seen.operation.state is OperationState.FAILED
    assert "budget of 3" in seen.operation.why
    assert (await counts(store)).dlq == 4


async def test_two_operations_on_the_same_letters_move_each_once(store: Store) -> None:
    await letters(store, 30)
    one, two = desk(store), desk(store)
    first, second = await one.start(redrive(rate="1000/s")), await two.start(discard(rate="1000/s"))
    await step(one, first.id)
    await step(two, second.id)
    ends = [await one.wait(first.id), await two.wait(second.id)]
    assert sum(seen.moved for seen in ends) == 30
    assert sum(seen.skipped for seen in ends) == 30
    assert (await counts(store)).dlq == 0


async def test_a_letter_that_died_again_is_not_moved_by_an_operation_that_froze_its_first_death(
    store: Store,
) -> None:
    await letters(store, 2)
    office = desk(store)
    started = await office.start(redrive())
    await step(office, started.id)
    other = await office.start(redrive())
    await office.wait(other.id)
    await work(store, lambda message: False)
    seen = await office.wait(started.id)
    assert (seen.moved, seen.skipped) == (0, 2)
    assert (await counts(store)).dlq == 2
    again = await office.start(redrive())
    assert (await office.wait(again.id)).moved == 2
    assert {one.message.id: len(one.redrives) for one in await dead_letters(store)} == {}


async def test_what_was_just_started_or_resumed_is_not_told_as_unattended(bench: Bench) -> None:
    store = await bench.open_store()
    await letters(store, 3)
    office = desk(store)
    started = await office.start(redrive())
    assert not (await office.show(started.id)).unattended
    bench.advance(LEASE_S)
    assert (await office.show(started.id)).unattended
    await office.pause(started.id)
    await office.resume(started.id)
    assert not (await office.show(started.id)).unattended
    bench.advance(LEASE_S)
    assert (await office.show(started.id)).unattended


async def test_a_pause_holds_it_a_resume_goes_on_and_a_cancel_leaves_the_rest(store: Store) -> None:
    await letters(store, 12)
    office = desk(store)
    started = await office.start(redrive(rate="4/min"))
    await run_to(office, started.id, lambda seen: seen.moved > 0)
    paused = await office.pause(started.id)
    assert (paused.state, paused.why) == (OperationState.PAUSED, "paused by ana@host")
    moved = (await step(office, started.id, 5)).moved
    assert 0 < moved < 12
    assert (await office.resume(started.id)).state is OperationState.MOVING
    await office.cancel(started.id)
    seen = await office.show(started.id)
    assert (seen.operation.state, seen.operation.told) == (OperationState.CANCELLED, True)
    assert seen.moved == moved
    assert (await counts(store)).dlq == 12 - moved
    assert await store.list_records(LIVE_RECORDS) == []
    for verb in (office.pause, office.resume, office.cancel):
        with pytest.raises(OperationError, match="cancelled"):
            await verb(started.id)


async def test_of_many_named_letters_a_few_ids_stay_in_the_record(store: Store) -> None:
    ids = await letters(store, 50)
    office = desk(store)
    started = await office.start(redrive(Selection(ids=tuple(ids))))
    seen = await office.wait(started.id)
    assert (seen.moved, seen.operation.order.selection.ids) == (50, tuple(ids[:20]))
    document = msgspec.to_builtins(operation_document(seen))
    assert (document["moved"], document["ids"], document["state"]) == (50, ids[:20], "finished")


async def test_a_pause_while_freezing_goes_on_freezing_after_it(store: Store) -> None:
    await letters(store, 2)
    office = desk(store)
    started = await office.start(redrive())
    await office.pause(started.id)
    assert (await step(office, started.id, 3)).operation.frozen.total == 0
    await office.resume(started.id)
    assert (await office.wait(started.id)).moved == 2


async def test_a_rate_is_kept_by_the_stores_clock(store: Store, bench: Bench) -> None:
    await letters(store, 50)
    office = desk(store)
    started = await office.start(redrive(rate="60/hour"))
    await step(office, started.id, 5)
    assert (await office.show(started.id)).moved == 1
    for passed in range(1, 6):
        bench.advance(60)
        seen = await step(office, started.id, 3)
        assert passed <= seen.moved <= passed + 2
    assert seen.left_s is not None
    assert 40 * 60 <= seen.left_s <= 50 * 60


async def test_another_process_carries_on_when_the_first_one_is_gone(store: Store, bench: Bench) -> None:
    await letters(store, CHUNK + 5)
    first = desk(store)
    started = await first.start(redrive())
    await step(first, started.id, 3)
    second = desk(await bench.open_store())
    assert (await step(second, started.id, 3)).operation == (await first.show(started.id)).operation
    bench.advance(11)
    seen = await second.wait(started.id)
    assert (seen.moved, seen.skipped) == (CHUNK + 5, 0)


async def test_a_slice_that_was_moved_but_not_written_down_is_not_moved_twice(store: Store) -> None:
    await letters(store, 3)
    office = desk(store)
    started = await office.start(redrive())
    frozen = (await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 3)).operation
    for queue, key in await read_chunk(store, frozen.id, 0):
        await store.redrive(queue, [key], actor="ana@host", operation=frozen.id)
    await work(store, lambda message: False)
    seen = await office.wait(started.id)
    assert (seen.moved, seen.skipped) == (3, 0)
    assert (await counts(store)).dlq == 3


async def test_one_tenants_operator_sees_and_moves_nothing_of_another(store: Store) -> None:
    (theirs,) = await letters(store, 1, tenant="globex")
    await letters(store, 2, tenant="acme")
    everyone, acme = desk(store), desk(store, scope="acme")
    hidden = await everyone.start(redrive(rate="1/hour"))
    assert (await acme.list()).found == []
    with pytest.raises(NoOperation):
        await acme.cancel(hidden.id)
    await everyone.cancel(hidden.id)
    assert (await acme.preview(redrive())).count == 2
    named = await acme.start(discard(Selection(ids=(theirs,))))
    assert (await acme.wait(named.id)).operation.frozen.missing == 1
    started = await acme.start(redrive())
    assert (await acme.wait(started.id)).moved == 2
    assert [one.operation.id for one in (await acme.list()).found] == [started.id, named.id]
    assert [one.message.id for one in await dead_letters(store)] == [theirs]


async def test_an_operation_without_letters_ends_at_once(store: Store) -> None:
    await store.append([[entry(store)]])
    office = desk(store)
    started = await office.start(redrive(ORDERS, canary=5))
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved) == (OperationState.FINISHED, 0)


async def test_a_filter_that_cannot_be_read_starts_nothing(store: Store) -> None:
    office = desk(store)
    with pytest.raises(FilterError):
        await office.start(redrive(Selection(filter="nonsense:1")))
    assert (await office.list()).found == []


async def test_an_operation_that_cannot_go_on_fails_with_a_reason_and_does_not_block_others(
    store: Store,
) -> None:
    await letters(store, 2)
    office = desk(store)
    bad, good = await office.start(redrive()), await office.start(redrive())
    await run_to(office, bad.id, lambda seen: seen.operation.frozen.total == 2)
    await store.delete_record(LETTER_RECORDS, f"{bad.id}/000000", expected=None)
    for _ in range(10):
        await office.conductor.conduct()
    failed = await office.show(bad.id)
    assert failed.operation.state is OperationState.FAILED
    assert failed.operation.why == "chunk 0 of its frozen list is gone; 2 were not moved"
    assert (await office.show(good.id)).operation.state is OperationState.FINISHED


async def test_a_record_that_cannot_be_read_does_not_block_the_others(store: Store) -> None:
    await letters(store, 2)
    office = desk(store)
    bad, good = await office.start(redrive()), await office.start(redrive())
    await store.put_record(OPERATION_RECORDS, bad.id, {"state": "dancing"}, expected=None)
    for _ in range(6):
        with pytest.raises(OperationError, match="cannot be read"):
            await office.conductor.conduct()
    assert (await office.show(good.id)).operation.state is OperationState.FINISHED


async def test_an_operation_that_cannot_be_read_does_not_hide_the_others(store: Store) -> None:
    await letters(store, 1)
    office = desk(store)
    started = await office.start(redrive())
    await store.put_record(OPERATION_RECORDS, "0", {"from": "a later version"}, expected=0)
    assert [one.operation.id for one in (await office.list()).found] == [started.id]


async def test_an_operation_is_conducted_however_many_wait_before_it(store: Store) -> None:
    await letters(store, 1)
    office = desk(store)
    for number in range(PAGE):
        await store.put_record(LIVE_RECORDS, f"0{number}", {"at": store.now()}, expected=0)
    started = await office.start(redrive())
    await office.conductor.conduct()
    assert (await office.show(started.id)).operation.frozen.total == 1


async def test_what_is_wrong_with_one_operation_does_not_stop_the_others(store: Store) -> None:
    (one,) = await letters(store, 1)
    office = desk(cast(Store, SlowStore(store, "get", _refuse)))
    await office.start(redrive(Selection(ids=(one,))))
    second = await office.start(redrive())
    with pytest.raises(StoreError, match="damaged"):
        await office.conductor.conduct()
    assert (await office.show(second.id)).operation.frozen.total == 1


async def _refuse() -> None:
    raise StoreError("a damaged page")


async def test_waiting_for_an_operation_of_another_tenant_does_not_conduct_it(store: Store) -> None:
    await letters(store, 1)
    started = await desk(store).start(redrive())
    with pytest.raises(NoOperation):
        await desk(store, scope="globex").wait(started.id)
    assert (await desk(store).show(started.id)).operation == started


async def test_the_audit_keeps_what_was_asked_for_and_no_more(store: Store) -> None:
    await letters(store, 1)
    started = await desk(store).start(
        redrive(Selection(filter="queue:orders", limit=2), rate="20/s", canary=None)
    )
    named = await desk(store).start(discard(Selection(ids=tuple(map(str, range(CHUNK + 1))))))
    rows = {row.document["action"]: row.document["subject"]["order"] async for row in read(store, Query())}
    assert rows[started.id] == {"kind": "redrive", "filter": "queue:orders", "limit": 2, "rate": "20/s"}
    assert (len(rows[named.id]["ids"]), rows[named.id]["named"]) == (CHUNK, CHUNK + 1)


async def test_a_filter_on_times_means_the_same_to_the_end_of_an_operation(store: Store) -> None:
    started = await desk(store).start(redrive(Selection(filter="died:>03:00 age:<2h")))
    kept = started.order.selection.filter
    assert kept.startswith("died:>20")
    assert kept.endswith("03:00:00.000Z age:<2h")
