"""How all stands, in one answer, at a cost that does not grow with messages."""

from __future__ import annotations

import msgspec
import pytest

from redrive.core.alerts import AlertPhase, AlertState
from redrive.core.errors import StoreError
from redrive.core.settings import RetentionSettings
from redrive.core.store import WORKER_RECORDS, Store
from redrive.core.totals import LABEL_LIMITS, OTHER, Flow, LabelKind, Measured, Occurrence, Total, TotalsBatch
from redrive.office.alerts.records import Alert, write_alert
from redrive.office.groups import Groups
from redrive.office.index import Index, TimeLimit
from redrive.office.overview import MINUTES
from redrive.office.view import OutOfScope
from tests.conformance.backends import Bench
from tests.conformance.makers import MINUTE_S, QUEUE, dead, new_token, submit, take
from tests.office.desks import ANA, make_office, redrive


async def count(store: Store, *totals: Total) -> None:
    await store.add_totals(TotalsBatch(new_token(), 1, totals))


async def test_an_empty_store_has_an_overview(store: Store, index: Index) -> None:
    seen = (await make_office(store, index).acting(ANA).overview.show()).document
    assert (seen.queues, seen.groups, seen.tenants, seen.operations, seen.workers) == ([], [], [], [], [])
    assert [one.accepted for one in seen.minutes] == [0] * MINUTES
    assert seen.totals.done == 0


async def test_the_last_hour_is_told_by_the_minute_and_by_queue(
    bench: Bench, store: Store, index: Index
) -> None:
    bench.begin(MINUTE_S)
    await count(store, Total(Flow.DONE, QUEUE, "", 99))
    bench.advance(61 * MINUTE_S)
    await count(store, Total(Flow.ACCEPTED, QUEUE, "", 5), Total(Flow.DEAD, "refunds", "", 2))
    bench.advance(10 * MINUTE_S)
    await count(store, Total(Flow.DONE, QUEUE, "", 4))
    seen = (await make_office(store, index).acting(ANA).overview.show()).document
    assert [place for place, one in enumerate(seen.minutes) if one.accepted or one.dead or one.done] == [
        MINUTES - 11,
        MINUTES - 1,
    ]
    assert [one.at for one in seen.minutes] == sorted({one.at for one in seen.minutes})
    assert {one.queue: (one.accepted, one.done, one.dead) for one in seen.last_hour} == {
        QUEUE: (5, 4, 0),
        "refunds": (0, 0, 2),
    }
    assert (seen.totals.done, seen.totals.accepted, seen.totals.dead) == (103, 5, 2)


async def test_queues_beyond_the_last_label_are_named_and_their_hour_is_told_together(
    store: Store, index: Index
) -> None:
    most = LABEL_LIMITS[LabelKind.QUEUE]
    await count(store, *(Total(Flow.DONE, f"q{number:03}", "", 1) for number in range(most + 3)))
    for queue in ("q000", f"q{most}", f"q{most + 1}", OTHER):
        await submit(store, 1, queue=queue)
    seen = (await make_office(store, index).acting(ANA).overview.show()).document
    assert seen.counted_together == [OTHER, f"q{most}", f"q{most + 1}"]
    hour = {one.queue: one.done for one in seen.last_hour}
    assert (len(hour), hour[OTHER], hour["q000"]) == (most + 1, 3, 1)
    assert sum(hour.values()) == sum(one.done for one in seen.minutes) == most + 3


async def test_while_labels_are_left_no_queue_is_counted_together(store: Store, index: Index) -> None:
    for queue in ("idle", OTHER):
        await submit(store, 1, queue=queue)
    await count(store, Total(Measured.HANDOVER, "claimed", "1", 1), Total(Flow.DONE, QUEUE, "", 1))
    assert (await make_office(store, index).acting(ANA).overview.show()).document.counted_together == []


async def test_the_busiest_tenants_come_first_with_their_share(store: Store, index: Index) -> None:
    processed = {"acme": 60, "globex": 30, "initech": 5, OTHER: 5}
    await count(store, *(Total(Occurrence.PROCESSED, tenant, "", many) for tenant, many in processed.items()))
    await dead(store, 2, tenant="initech")
    await submit(store, 3, tenant="globex")
    await submit(store, 1, tenant="globex", queue="refunds")
    seen = (await make_office(store, index).acting(ANA).overview.show()).document
    assert [(one.company_id, one.share) for one in seen.tenants] == [
        ("globex", 0.3),
        ("acme", 0.6),
        ("initech", 0.05),
    ]
    assert (seen.tenants[0].waiting, seen.tenants[2].dead) == (4, 2)


async def test_a_tenant_whose_turn_comes_next_is_told_though_it_has_no_label(
    store: Store, index: Index
) -> None:
    await count(store, *(Total(Occurrence.PROCESSED, f"t{number}", "", 1) for number in range(50)))
    for tenant in ("first", "second", "t7"):
        await submit(store, 4, tenant=tenant)
    await submit(store, 1, tenant="t7", queue="refunds")
    seen = (await make_office(store, index).acting(ANA).overview.show()).document
    assert [(one.company_id, one.turn, one.waiting) for one in seen.tenants[:4]] == [
        ("t7", 1, 5),
        ("first", 1, 4),
        ("second", 2, 4),
        ("t0", None, 0),
    ]


async def test_a_tenant_without_a_label_has_its_dead_letters_of_every_queue(
    store: Store, index: Index
) -> None:
    await dead(store, 3, tenant="first", queue="refunds")
    await submit(store, 1, tenant="first")
    (first,) = (await make_office(store, index).acting(ANA).overview.show()).document.tenants
    assert (first.company_id, first.waiting, first.dead, first.total_processed) == ("first", 1, 3, 3)


async def test_causes_operations_and_workers_are_told(store: Store, index: Index) -> None:
    await dead(store, 7)
    await take(store)
    office = make_office(store, index).acting(ANA)
    operation = await office.operations.start(redrive())
    figures = {"running": 3, "limit": 20, "lagS": 0.25}
    worker = {"host": "box", "pid": 7, "queues": [QUEUE], "figures": figures}
    await store.put_record(WORKER_RECORDS, "box-7", worker, expected=0)
    await store.put_record(WORKER_RECORDS, "old", {"host": "box", "pid": 8, "queues": []}, expected=0)
    seen = (await office.overview.show()).document
    assert [(one.count, one.tenants) for one in seen.groups or []] == [(7, 1)]
    assert [one.id for one in seen.operations] == [operation.id]
    assert [(one.name, one.handlers_running, one.loop_lag_seconds) for one in seen.workers] == [
        ("box-7", 3, 0.25),
        ("old", None, None),
    ]
    assert [(one.workers, one.dlq) for one in seen.queues] == [(1, 7)]


async def test_alerts_that_fire_are_in_it(store: Store, index: Index) -> None:
    for rule, phase in (("dlq_high", AlertPhase.FIRING), ("retry_backlog", AlertPhase.PENDING)):
        alert = Alert(rule=rule, subject="", state=AlertState(phase, store.now()), text="101 dead letters")
        assert await write_alert(store, alert, 0)
    seen = (await make_office(store, index).acting(ANA).overview.show()).document
    assert [(one.alert, one.text) for one in seen.alerts] == [("dlq_high", "101 dead letters")]


async def test_ended_operations_are_not_in_it(store: Store, index: Index) -> None:
    await dead(store, 1)
    office = make_office(store, index).acting(ANA)
    operation = await office.operations.start(redrive())
    await office.operations.cancel(operation.id)
    assert (await office.overview.show()).document.operations == []


async def test_where_files_lie_is_for_people_on_the_machine(store: Store, index: Index) -> None:
    await dead(store, 1)
    office = make_office(store, index, retention=RetentionSettings(folder=None))
    here = msgspec.to_builtins((await office.acting(ANA, files=True).overview.show()).document)
    caller = msgspec.to_builtins((await office.acting(ANA).overview.show()).document)
    assert "retention.folder" in here["warnings"][0]
    assert here.keys() - caller.keys() == {"store", "warnings"}


async def test_who_is_bound_to_a_tenant_may_not_see_it(store: Store, index: Index) -> None:
    with pytest.raises(OutOfScope):
        await make_office(store, index).acting(ANA, "acme").overview.show()


async def test_causes_are_counted_now_and_then_and_left_out_when_that_takes_too_long(
    store: Store, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = 0

    async def slow(self: Groups, *_: object, limit_s: float, **__: object) -> list[object]:
        nonlocal counted
        counted += 1
        raise TimeLimit(limit_s)

    await dead(store, 1)
    overview = make_office(store, index).acting(ANA).overview
    monkeypatch.setattr(Groups, "list", slow)
    assert [(await overview.show()).document.groups for _ in range(5)] == [None] * 5
    assert counted == 1


async def test_a_store_that_cannot_be_read_is_an_error_that_says_so(bench: Bench, index: Index) -> None:
    store = await bench.open_store()
    overview = make_office(store, index).acting(ANA).overview
    await store.close()
    with pytest.raises(StoreError):
        await overview.show()
