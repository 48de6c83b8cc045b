"""Events added up: what this process did since it was last asked, in whole numbers.

Counting costs about half a microsecond a message and never waits; `engine/totals.py` hands sums to the store.
What is held here is bounded: above a number of queues, tenants or codes, what is new counts as `other`.
Called from any thread.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from redrive.core.failure import Failure, Kind
from redrive.core.message import Delivery
from redrive.core.totals import (
    BOUNDS,
    MILLIONTHS,
    OTHER,
    SUM,
    Flow,
    Measured,
    Occurrence,
    Total,
)
from redrive.machine.forks import watch
from redrive.telemetry import events
from redrive.telemetry.events import Event

NO_CODE = "none"
HIGHEST_ATTEMPT = 20
_MORE_ATTEMPTS = "more"
_PENDING = 10_000
_CODE = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_TRIED = frozenset({Kind.TEMPORARY, Kind.PERMANENT, Kind.UNCERTAIN})


class Histogram:
    """What was measured of one thing."""

    __slots__ = ("_bounds", "_buckets", "_name", "_sum")

    def __init__(self, name: Measured) -> None:
        self._name = name
        self._bounds = BOUNDS[name]
        self._buckets = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._buckets[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_all(self, values: list[float]) -> None:
        """Several, which are sorted on the way: a search for each bound is less than one for each value."""
        values.sort()
        begins = 0
        for number, bound in enumerate(self._bounds):
            ends = bisect_right(values, bound, begins)
            self._buckets[number] += ends - begins
            begins = ends
            if begins == len(values):
                break
        self._buckets[-1] += len(values) - begins
        self._sum += sum(values)

    def totals(self, label: str) -> Iterator[Total]:
        """The buckets that something fell into, and the sum."""
        for number, count in enumerate(self._buckets):
            if count:
                yield Total(self._name, label, str(number), count)
        if self._sum > 0:
            yield Total(self._name, label, SUM, round(self._sum * MILLIONTHS))


class _Queue:
    """What happened in one queue."""

    __slots__ = ("flows", "handler", "handover")

    def __init__(self) -> None:
        self.flows: Counter[Flow] = Counter()
        self.handler = Histogram(Measured.HANDLER)
        self.handover = Histogram(Measured.HANDOVER)

    def totals(self, label: str) -> Iterator[Total]:
        for flow, count in self.flows.items():
            yield Total(flow, label, "", count)
        yield from self.handler.totals(label)
        yield from self.handover.totals(label)


class _Sums:
    """What happened since the last time."""

    __slots__ = ("attempts", "counts", "measured", "queues", "succeeded", "tenants")

    def __init__(self) -> None:
        self.queues: dict[str, _Queue] = {}
        self.attempts: Counter[int] = Counter()
        self.succeeded: Counter[int] = Counter()
        self.tenants: Counter[str] = Counter()
        self.counts: Counter[tuple[Occurrence, str, str]] = Counter()
        self.measured: dict[Measured, Histogram] = {}

    def queue(self, name: str) -> _Queue:
        found = self.queues.get(name)
        if found is None:
            name = name if len(self.queues) < _PENDING else OTHER
            found = self.queues.setdefault(name, _Queue())
        return found

    def measure(self, name: Measured, value: float) -> None:
        found = self.measured.get(name)
        if found is None:
            found = self.measured[name] = Histogram(name)
        found.add(value)

    def count(self, name: Occurrence, label: str = "", part: str = "", by: int = 1) -> None:
        key = (name, label, part)
        if len(self.counts) >= _PENDING and key not in self.counts:
            key = (name, OTHER, part)
        self.counts[key] += by

    def processed(self, tenant: str, by: int = 1) -> None:
        if len(self.tenants) >= _PENDING and tenant not in self.tenants:
            tenant = OTHER
        self.tenants[tenant] += by

    def totals(self) -> Iterator[Total]:
        for queue, figures in self.queues.items():
            yield from figures.totals(queue)
        for histogram in self.measured.values():
            yield from histogram.totals("")
        for name, numbers in ((Occurrence.ATTEMPTS, self.attempts), (Occurrence.SUCCEEDED, self.succeeded)):
            for number, count in _by_attempt(numbers).items():
                yield Total(name, "", number, count)
        for tenant, count in self.tenants.items():
            yield Total(Occurrence.PROCESSED, tenant, "", count)
        for (counted, label, part), count in self.counts.items():
            yield Total(counted, label, part, count)


def _by_attempt(numbers: Counter[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for number, count in numbers.items():
        found[str(number) if number <= HIGHEST_ATTEMPT else _MORE_ATTEMPTS] += count
    return found


class TotalsSink:
    """The sink. `take` is what happened since it was last called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = _Sums()
        self._some = False
        watch(self)

    def __call__(self, event: Event) -> None:
        self.hear_all((event,))

    def hear_all(self, heard: Sequence[Event]) -> None:
        """Events that happened together: completions, of which there are most, are counted together."""
        done = [event for event in heard if isinstance(event, events.Completed)]
        with self._lock:
            self._some = True
            _completed(self._sums, done)
            for event in heard if len(done) < len(heard) else ():
                count = _COUNTING.get(type(event))
                if count is not None:
                    count(self._sums, event)

    def take(self) -> tuple[Total, ...]:
        """What was counted since the last time, the largest first."""
        if not self._some:
            return ()
        with self._lock:
            sums, self._sums, self._some = self._sums, _Sums(), False
        return tuple(sorted(sums.totals(), key=lambda total: -total.count))

    def forked(self) -> None:
        """In a child: what the parent counted is the parent's to tell."""
        self._lock, self._sums, self._some = threading.Lock(), _Sums(), False


def _accepted(sums: _Sums, event: events.BatchAccepted) -> None:
    sums.queue(event.queue).flows[Flow.ACCEPTED] += event.count


def _handed_out(sums: _Sums, event: events.BatchClaimed) -> None:
    sums.measure(Measured.CLAIM, len(event.deliveries))
    handover = sums.queue(event.queue).handover
    first: list[float] = []
    for delivery in event.deliveries:
        progress, enqueued_at = delivery.progress, delivery.message.enqueued_at
        since_at = progress.due_at if progress.due_at > enqueued_at else enqueued_at
        waited_s = (event.at - since_at) / 1000 if event.at > since_at else 0.0
        if progress.attempts == 1:
            first.append(waited_s)
        elif not progress.crashes:
            sums.measure(Measured.LATENESS, waited_s)
    handover.add_all(first)


def _completed(sums: _Sums, done: Sequence[events.Completed]) -> None:
    alike: list[tuple[str, str, int]] = []
    durations: defaultdict[str, list[float]] = defaultdict(list)
    for event in done:
        message = event.delivery.message
        alike.append((message.queue, message.tenant, event.delivery.progress.attempts))
        durations[message.queue].append(event.duration_s)
    for (queue, tenant, attempt), count in Counter(alike).items():
        sums.queue(queue).flows[Flow.DONE] += count
        sums.attempts[attempt] += count
        sums.succeeded[attempt] += count
        sums.processed(tenant, count)
    for queue, taken in durations.items():
        sums.queue(queue).handler.add_all(taken)


def _retry_scheduled(sums: _Sums, event: events.RetryScheduled) -> None:
    sums.queue(event.delivery.message.queue).flows[Flow.RETRIED] += 1
    sums.measure(Measured.BACKOFF, event.delay_ms / 1000)
    _failed(sums, event.delivery, event.failure, event.duration_s)


def _buried(sums: _Sums, event: events.Buried) -> None:
    message = event.delivery.message
    sums.queue(message.queue).flows[Flow.DEAD] += 1
    sums.processed(message.tenant)
    sums.count(Occurrence.DEAD_BY_TENANT, message.tenant)
    sums.count(Occurrence.DEAD_BY_CODE, _code(event.failure))
    _failed(sums, event.delivery, event.failure, event.duration_s)


def _failed(sums: _Sums, delivery: Delivery, failure: Failure, duration_s: float) -> None:
    sums.count(Occurrence.FAILURES, _code(failure), failure.kind.value)
    if failure.kind in _TRIED:
        sums.attempts[delivery.progress.attempts] += 1
    if duration_s > 0:
        sums.queue(delivery.message.queue).handler.add(duration_s)


def _given_back(sums: _Sums, event: events.Released | events.LaneHeld) -> None:
    sums.queue(event.delivery.message.queue).flows[Flow.RELEASED] += 1


def _settled(sums: _Sums, event: events.BatchSettled) -> None:
    sums.measure(Measured.SETTLE, event.duration_s)


def _refused(sums: _Sums, _: events.SettleRefused) -> None:
    sums.count(Occurrence.STALE_SETTLES)


def _extended(sums: _Sums, event: events.LeasesExtended) -> None:
    sums.count(Occurrence.LEASE_EXTENSIONS, by=event.count)


def _lost(sums: _Sums, _: events.LeaseLost) -> None:
    sums.count(Occurrence.LEASES_LOST)


def _missed(sums: _Sums, event: events.HookDropped) -> None:
    sums.count(Occurrence.HOOKS_DROPPED, by=event.count)


def _code(failure: Failure) -> str:
    """A code is text from elsewhere: what does not look like one is not shown."""
    if failure.code is None:
        return NO_CODE
    return failure.code if _CODE.fullmatch(failure.code) else OTHER


_COUNTING: Mapping[type, Callable[[_Sums, Any], None]] = {
    events.BatchAccepted: _accepted,
    events.BatchClaimed: _handed_out,
    events.RetryScheduled: _retry_scheduled,
    events.Buried: _buried,
    events.Released: _given_back,
    events.LaneHeld: _given_back,
    events.BatchSettled: _settled,
    events.SettleRefused: _refused,
    events.LeasesExtended: _extended,
    events.LeaseLost: _lost,
    events.HookDropped: _missed,
}
