"""Another process takes the watch over: what fires goes on, is told once, and clears when it is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from redrive.core.alert_rules import AlertSettings
from redrive.core.alerts import AlertRule, AlertScope
from redrive.core.errors import StoreUnavailable
from redrive.core.letters import LetterKey
from redrive.core.lifecycle import Move
from redrive.core.store import OwnIndex, Store
from redrive.office import index
from redrive.office.alerts.watch import LOOK_S
from redrive.office.audit import Actor
from redrive.telemetry.events import AlertCleared, AlertFired
from tests.conformance.backends import Bench
from tests.conformance.makers import append, complete, dead, entry, hold, submit, take
from tests.office.alerts.desk import Watcher, alerts, announce, hand_over, rules
from tests.office.deaths import bury, letter

ANA = Actor("ana@host", "test")
FIRED, CLEARED = AlertFired, AlertCleared


class Shift:
    """Processes that watch one store, one after the other or in turns, and what they told together."""

    def __init__(self, bench: Bench, store: Store, watched: tuple[AlertRule, ...]) -> None:
        self._bench = bench
        self._store = store
        self._settings = AlertSettings(rules=watched)
        self._watchers: list[Watcher] = []

    def process(self) -> Watcher:
        """One more process, which has seen nothing yet."""
        self._watchers.append(Watcher(self._store, self._settings))
        return self._watchers[-1]

    async def watch(self, watcher: Watcher, seconds: float) -> None:
        """Have a process look twice a minute for so long."""
        for _ in range(round(seconds / LOOK_S)):
            await watcher.look()
            self._bench.advance(LOOK_S)
        await watcher.look()

    @property
    def told(self) -> list[type]:
        return [type(one) for watcher in self._watchers for one in watcher.told]

    async def text(self) -> str:
        (found,) = (await alerts(self._store)).values()
        return found.text

    async def end(self) -> None:
        for one in self._watchers:
            await one.close()


MakeShift = Callable[..., Shift]


@pytest.fixture
async def shift(bench: Bench, store: Store) -> AsyncIterator[MakeShift]:
    made: list[Shift] = []

    def make(*names: str, **changes: object) -> Shift:
        made.append(Shift(bench, store, rules(*names, **changes)))
        return made[-1]

    yield make
    for one in made:
        await one.end()


async def test_a_message_that_runs_for_long_is_told_once_whoever_watches(
    store: Store, shift: MakeShift
) -> None:
    shifts = shift("processing_long")
    first, second = shifts.process(), shifts.process()
    await submit(store, 1)
    running = await take(store)
    await shifts.watch(first, 600)
    said = await shifts.text()
    assert shifts.told == [FIRED]
    await shifts.watch(second, 200)
    assert (shifts.told, await shifts.text()) == ([FIRED], said)
    await shifts.watch(second, 900)
    await shifts.watch(first, 200)
    assert shifts.told == [FIRED]
    await complete(store, *running)
    await first.look()
    assert shifts.told == [FIRED, CLEARED]


async def test_a_short_message_that_began_before_eyes_does_not_keep_an_alert_up(
    store: Store, shift: MakeShift
) -> None:
    shifts = shift("processing_long")
    first, second = shifts.process(), shifts.process()
    await submit(store, 1)
    running = await take(store)
    await shifts.watch(first, 400)
    await second.look()
    await complete(store, *running)
    await submit(store, 1)
    await take(store)
    await second.look()
    assert shifts.told == [FIRED, CLEARED]


async def test_a_queue_whose_messages_waited_too_long_for_a_worker_is_told_once_whoever_watches(
    store: Store, shift: MakeShift
) -> None:
    shifts = shift("unusual_handover", unusual=False)
    first, second = shifts.process(), shifts.process()
    await first.look()
    await hand_over(store, 60, 9.0)
    await shifts.watch(first, 60)
    assert shifts.told == [FIRED]
    await hand_over(store, 60, 9.0)
    await shifts.watch(second, 300)
    assert shifts.told == [FIRED]
    await shifts.watch(second, 330)
    assert shifts.told == [FIRED, CLEARED]


async def test_a_process_that_watches_again_after_hours_does_not_count_what_it_did_not_see(
    bench: Bench, store: Store, shift: MakeShift
) -> None:
    shifts = shift("unusual_handover", unusual=False)
    first, second = shifts.process(), shifts.process()
    await shifts.watch(first, 60)
    await shifts.watch(second, 660)
    await hand_over(store, 60, 9.0)
    bench.advance(3_600)
    await first.look()
    assert shifts.told == []


async def test_held_lanes_among_more_than_one_look_sees_are_told_once_whoever_watches(
    store: Store, shift: MakeShift
) -> None:
    shifts = shift("lane_held")
    first, second = shifts.process(), shifts.process()
    for begin in range(0, 6_000, 1_000):
        await append(store, *[entry(store, tenant=f"t{begin + n:04}") for n in range(1_000)])
    while taken := await take(store, 500):
        await hold(store, *[one for one in taken if one.message.tenant in ("t0003", "t5990")])
    await shifts.watch(first, 30)
    assert shifts.told == [FIRED, FIRED]
    await second.look()
    assert shifts.told == [FIRED, FIRED]
    await second.office.acting(ANA).tenants.resume("t5990")
    await second.look()
    assert shifts.told == [FIRED, FIRED, CLEARED]


async def test_a_worker_that_has_just_started_does_not_say_that_the_relay_is_back(
    bench: Bench, store: Store, shift: MakeShift
) -> None:
    shifts = shift("relay_lost")
    watcher = shifts.process()
    await announce(store, relay={"name": "smtp://relay.example", "problem": "refused", "waiting": 3})
    await watcher.look()
    bench.advance(90)
    await watcher.look()
    began_at = store.now()
    await announce(store, began_at, relay=None)
    await watcher.look()
    assert shifts.told == [FIRED]
    bench.advance(180)
    await announce(store, began_at, relay=None)
    await watcher.look()
    assert shifts.told == [FIRED, CLEARED]


@pytest.mark.parametrize("scope", [AlertScope.STORE, AlertScope.QUEUE])
async def test_an_index_that_is_empty_after_a_restart_clears_nothing(
    store: Store, shift: MakeShift, scope: AlertScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    shifts = shift("dlq_high", above=1, clear=1, scope=scope)
    first, second = shifts.process(), shifts.process()
    await dead(store, 3)
    await first.look()
    monkeypatch.setattr(index, "CATCH_UP_S", 0.0)  # more letters than a question waits for
    await second.look()
    assert shifts.told == [FIRED]


async def test_while_the_index_lacks_letters_the_alerts_that_need_them_stay_as_they_are(
    store: Store, shift: MakeShift, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shifts = shift("dlq_high", "tenant_dlq", above=2, clear=2)
    watcher = shifts.process()
    gone = await dead(store, 3)
    await watcher.look()
    assert shifts.told == [FIRED, FIRED]
    await dead(store, 3, queue="returns")
    await store.remove("orders", [LetterKey(one) for one in gone], Move.DISCARD, actor="ana")
    with monkeypatch.context() as patched:
        stop_telling(store, "returns", patched)
        await watcher.look()
        await watcher.look()
    assert shifts.told == [FIRED, FIRED]
    behind = not isinstance(store.index, OwnIndex)
    assert caplog.text.count("the alert dlq_high is not judged") == behind
    await watcher.look()
    assert shifts.told == [FIRED, FIRED]


async def test_a_new_failure_group_does_not_clear_while_the_index_lacks_letters(
    store: Store, shift: MakeShift, monkeypatch: pytest.MonkeyPatch
) -> None:
    shifts = shift("new_group")
    watcher = shifts.process()
    await watcher.look()
    await bury(store, [letter(store, age_ms=0) for _ in range(3)])
    await watcher.look()
    assert shifts.told == [FIRED]
    with monkeypatch.context() as patched:
        stop_telling(store, "email:send", patched)
        await watcher.look()
    assert shifts.told == [FIRED]


def stop_telling(store: Store, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that no longer answers what changed in a queue."""
    if isinstance(store.index, OwnIndex):
        return
    feed = store.index
    answer = feed.changes

    async def changes(asked: str, *, after: int, limit: int = 500) -> object:
        if asked == queue:
            raise StoreUnavailable("the server does not answer")
        return await answer(asked, after=after, limit=limit)

    monkeypatch.setattr(feed, "changes", changes)
