"""The figures that rules watch, on a real store: which subjects fire, and what the alert says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from redrive.core.alert_rules import DEFAULT_RULES, AlertSettings
from redrive.core.alerts import HAS_PAST, SCOPES, AlertFigure, AlertRule, AlertScope
from redrive.core.lanes import LaneState
from redrive.core.settings import RetentionSettings
from redrive.core.store import Store
from redrive.core.totals import LABEL_LIMITS, Flow, LabelKind, Total, TotalsBatch
from redrive.core.verdict import Reason
from redrive.office.audit import Actor
from redrive.office.operations.operation import OperationState
from redrive.office.retention.duty import Retention
from redrive.telemetry.events import LoopFailed
from tests.conformance.backends import Bench
from tests.conformance.makers import DAY_S, append, dead, entry, hold, new_token, retry, submit, take
from tests.office.alerts.desk import Watcher, alerts, announce, count, hand_over, rules
from tests.office.deaths import bury, letter
from tests.office.desks import desk, redrive, run_to, work

Watching = Callable[..., Watcher]
HOUR_S = 3_600.0
ANA = Actor("ana@host", "test")


@pytest.fixture
async def watching(store: Store) -> AsyncIterator[Watching]:
    made: list[Watcher] = []

    def watch(*names: str, **changes: object) -> Watcher:
        chosen: tuple[AlertRule, ...] = rules(*names, **changes)
        made.append(Watcher(store, AlertSettings(rules=chosen)))
        return made[-1]

    yield watch
    for one in made:
        await one.close()


async def firing(store: Store) -> dict[str, str]:
    return {name: one.text for name, one in (await alerts(store)).items() if one.firing}


async def test_all_default_rules_are_quiet_on_an_empty_store_and_on_one_that_works(
    store: Store, watching: Watching
) -> None:
    watcher = watching(*DEFAULT_RULES)
    await watcher.look()
    await dead(store, 2)
    await count(store, "orders", done=200, dead=2, retried=3)
    await watcher.look()
    assert (await firing(store), watcher.told) == ({}, [])


@pytest.mark.parametrize(("metric", "scope"), [(one, scope) for one in SCOPES for scope in SCOPES[one]])
async def test_every_figure_can_be_read_in_every_scope_that_it_has(
    store: Store, metric: AlertFigure, scope: AlertScope
) -> None:
    await dead(store, 2)
    await submit(store, 1)
    watched = [
        AlertRule(name=f"own{unusual}", metric=metric, scope=scope, window_s=60, unusual=unusual)
        for unusual in (False, True)
        if not unusual or metric in HAS_PAST
    ]
    watcher = Watcher(store, AlertSettings(rules=tuple(watched)))
    await watcher.look()
    assert [one for one in watcher.told if isinstance(one, LoopFailed)] == []
    await watcher.close()


async def test_bounced_letters_are_outside_the_alerts_on_dead_letters(
    store: Store, watching: Watching
) -> None:
    watcher = watching("dlq_high", "tenant_dlq", "dlq_share", above=0, clear=0, least=0)
    await bury(store, [letter(store, reason=Reason.BOUNCED, age_ms=1_000) for _ in range(60)])
    await count(store, "email:send", done=40, dead=60)
    await watcher.look()
    assert await firing(store) == {}
    await bury(store, [letter(store, why="bounced, says the text alone")])
    await count(store, "email:send", dead=1)
    await watcher.look()
    assert await firing(store) == {
        "dlq_high/": "1 dead letter",
        "tenant_dlq/acme": "acme: 1 dead letter",
        "dlq_share/": "1% of what ended became dead letters in the last 10 min",
    }


async def test_shares_are_of_the_last_ten_minutes_and_of_at_least_fifty(
    bench: Bench, watching: Watching
) -> None:
    store = await bench.open_store()
    watcher = watching("dlq_share", "failure_share")
    await count(store, "orders", done=20, dead=20, retried=9)
    await watcher.look()
    assert await firing(store) == {}
    await count(store, "orders", done=30)
    await watcher.look()
    assert (await firing(store)).keys() == {"dlq_share/", "failure_share/"}
    bench.advance(700)
    await watcher.look()
    assert await firing(store) == {}


async def test_queues_beyond_the_last_label_are_watched_together(store: Store, watching: Watching) -> None:
    most = LABEL_LIMITS[LabelKind.QUEUE]
    await store.add_totals(
        TotalsBatch(new_token(), 1, tuple(Total(Flow.DONE, f"q{n}", "", 60) for n in range(most)))
    )
    await bury(store, [letter(store, reason=Reason.BOUNCED, queue=f"q{most}", age_ms=1_000)])
    await bury(store, [letter(store, queue=f"q{most + 1}", age_ms=1_000) for _ in range(9)])
    await count(store, f"q{most}", done=50, dead=1)
    await count(store, f"q{most + 1}", done=40, dead=9)
    watcher = watching("dlq_share", scope=AlertScope.QUEUE)
    await watcher.look()
    assert await firing(store) == {
        "dlq_share/other": "other: 9% of what ended became dead letters in the last 10 min (more than 2%); "
        "the queues beyond the first 100, together"
    }


async def test_work_without_a_live_worker_alerts_after_a_minute_a_queue_each(
    bench: Bench, watching: Watching
) -> None:
    store = await bench.open_store()
    watcher = watching("no_worker")
    await submit(store, 3)
    await submit(store, 1, queue="paused")
    await store.set_queue("paused", LaneState.PAUSED)
    await watcher.look()
    assert await firing(store) == {}
    (pending,) = (await watcher.office.acting(ANA).alerts.list()).alerts
    assert (pending.state, pending.subject, pending.text[:23]) == (
        "pending",
        "orders",
        "orders: 3 due messages ",
    )
    bench.advance(61)
    await watcher.look()
    assert await firing(store) == {
        "no_worker/orders": "orders: 3 due messages and no live worker that serves them"
    }
    await announce(store)
    await watcher.look()
    assert await firing(store) == {}


async def test_a_message_that_runs_for_longer_than_five_minutes_or_its_queues_deadline_alerts(
    bench: Bench, watching: Watching
) -> None:
    store = await bench.open_store()
    watcher = watching("processing_long")
    (message_id,) = await submit(store, 1)
    await take(store)
    for _ in range(3):
        await announce(store, deadlinesS={"orders": 400})
        await watcher.look()
        bench.advance(150)
    assert await firing(store) == {}
    await announce(store, deadlinesS={"orders": 400})
    await watcher.look()
    (said,) = (await firing(store)).values()
    assert f"redrive show {message_id}" in said
    assert "more than 7 min" in said


async def test_a_held_lane_alerts_for_its_tenant_until_it_runs_again(
    store: Store, watching: Watching
) -> None:
    watcher = watching("lane_held")
    await submit(store, 2)
    await hold(store, *await take(store, 1), why="535 wrong password=hunter2 for bob@example.org")
    await watcher.look()
    (found,) = (await alerts(store)).values()
    assert (found.subject, found.tenant, found.firing) == ("orders/acme", "acme", True)
    assert "535 wrong" in found.text
    assert "hunter2" not in found.text
    assert "bob" not in found.text
    await watcher.office.acting(ANA).tenants.resume("acme")
    await watcher.look()
    assert await firing(store) == {}


async def test_held_lanes_are_found_among_more_than_one_look_sees(store: Store, watching: Watching) -> None:
    watcher = watching("lane_held")
    for queue in ("orders", "mail"):
        for first in range(0, 3_000, 1_000):
            entries = [entry(store, queue=queue, tenant=f"t{first + n:04}") for n in range(1_000)]
            await append(store, *entries)
    for queue in ("orders", "mail"):
        held = await take(store, 500, queue=queue)
        await hold(store, *[one for one in held if one.message.tenant in ("t0003", "t0150")])
    for _ in range(2):
        await watcher.look()
    assert (await firing(store)).keys() == {
        f"lane_held/{queue}/{tenant}" for queue in ("orders", "mail") for tenant in ("t0003", "t0150")
    }


async def test_a_lost_relay_alerts_while_a_live_worker_says_so(bench: Bench, watching: Watching) -> None:
    store = await bench.open_store()
    watcher = watching("relay_lost")
    await announce(store, relay={"name": "smtp://relay.example", "problem": "refused", "waiting": 3})
    await watcher.look()
    assert "smtp://relay.example: refused" in (await firing(store))["relay_lost/"]
    await announce(store, relay=None)
    await watcher.look()
    assert await firing(store) == {}


async def test_waiting_retries_and_letters_alert_a_queue_each_where_the_rule_says_so(
    store: Store, watching: Watching
) -> None:
    watcher = watching("retry_backlog", "dlq_high", above=2, clear=2, scope=AlertScope.QUEUE)
    await submit(store, 3)
    await retry(store, *await take(store), delay_s=600)
    await dead(store, 3, queue="other")
    await watcher.look()
    assert (await firing(store)).keys() == {"retry_backlog/orders", "dlq_high/other"}


async def test_letters_about_to_leave_and_letters_that_cannot_are_alerts(
    bench: Bench, watching: Watching, tmp_path: Path
) -> None:
    store = await bench.open_store()
    watcher = watching("letters_leaving", "letters_stuck")
    await bury(store, [letter(store, age_ms=8 * 86_400_000)])
    await Retention(store, RetentionSettings(folder=str(tmp_path / "archive"))).step()
    await watcher.look()
    assert (await firing(store)).keys() == {"letters_leaving/email:send"}
    await Retention(store, RetentionSettings(folder=None)).step()
    await watcher.look()
    assert (await firing(store)).keys() == {"letters_stuck/email:send"}


async def test_an_operation_that_halted_is_an_alert(store: Store, watching: Watching) -> None:
    watcher, operations = watching("operation_halted"), desk(store)
    await dead(store, 10)
    started = await operations.start(redrive(canary=2))
    await operations.conductor.advance(started.id)
    for _ in range(3):
        await operations.conductor.advance(started.id)
        await work(store, lambda message: False)
    await run_to(operations, started.id, lambda seen: seen.operation.state is OperationState.HALTED)
    await watcher.look()
    assert started.id in (await firing(store))["operation_halted/"]
    await operations.cancel(started.id)
    await watcher.look()
    assert await firing(store) == {}


async def test_a_failure_group_that_was_never_seen_is_an_alert_for_an_hour(
    bench: Bench, watching: Watching
) -> None:
    store = await bench.open_store()
    watcher = watching("new_group")
    await bury(store, [letter(store, age_ms=60_000) for _ in range(9)])
    await watcher.look()
    fresh = [letter(store, fingerprint="e" * 16, why="password=hunter2 is wrong", age_ms=0) for _ in range(3)]
    await bury(store, fresh[:2])
    await watcher.look()
    assert await firing(store) == {}
    await bury(store, fresh[2:])
    await watcher.look()
    said = await firing(store)
    assert said.keys() == {f"new_group/{'e' * 16}"}
    assert "hunter2" not in str(said)
    bench.advance(HOUR_S + 60)
    await watcher.look()
    assert await firing(store) == {}


async def test_a_figure_that_departs_from_its_own_past_alerts_and_says_what_was_usual(
    bench: Bench, watching: Watching
) -> None:
    store = await bench.open_store()
    bench.begin(HOUR_S)
    watcher = watching("unusual_dead", "unusual_failures")
    for hour in range(6 * 24):
        await count(store, "orders", done=100, dead=hour % 5, retried=hour % 3)
        bench.advance(HOUR_S)
    await count(store, "orders", done=100, dead=6)
    await watcher.look()
    assert await firing(store) == {}
    await count(store, "orders", done=100, dead=82, retried=20)
    await watcher.look()
    said = await firing(store)
    assert (
        said["unusual_dead/"] == "91 new dead letters in the last 1 h; usual 0-4 an hour over the last 6 days"
    )
    assert "of attempts failed" in said["unusual_failures/"]


async def test_without_enough_of_a_past_nothing_is_unusual(bench: Bench, watching: Watching) -> None:
    store = await bench.open_store()
    watcher = watching("unusual_dead", "unusual_failures", "unusual_waiting")
    await count(store, "orders", done=10, dead=500)
    await submit(store, 1)
    bench.advance(1_000)
    await watcher.look()
    assert await firing(store) == {}


async def test_a_queue_whose_messages_wait_longer_than_ever_alerts(bench: Bench, watching: Watching) -> None:
    store = await bench.open_store()
    watcher = watching("unusual_waiting")
    await submit(store, 1)
    await take(store)
    for _ in range(26):
        await watcher.look()
        bench.advance(HOUR_S)
    await submit(store, 1, ttl_s=7 * DAY_S)
    for _ in range(5):
        await watcher.look()
        bench.advance(200)
    (said,) = (await firing(store)).values()
    assert said.startswith("orders: the oldest due message has waited for")
    assert "usual 0 s an hour over the last day" in said


async def test_a_queue_whose_messages_wait_longer_for_a_worker_than_ever_alerts(
    bench: Bench, watching: Watching
) -> None:
    store = await bench.open_store()
    watcher = watching("unusual_handover")
    for _ in range(26):
        await hand_over(store, 100, 0.02)
        await watcher.look()
        bench.advance(HOUR_S)
    await watcher.look()
    bench.advance(60)
    await hand_over(store, 60, 9.0)
    await watcher.look()
    (said,) = (await firing(store)).values()
    assert said.startswith("orders: messages took 9 s from due to a worker's hands in the last 10 min")
    bench.advance(700)
    await watcher.look()
    await hand_over(store, 60, 0.02)
    bench.advance(60)
    await watcher.look()
    assert await firing(store) == {}
