"""What a scrape says: totals over all processes, and sizes and ages as the store has them at that moment.

Nothing is kept here, so it is right in every process and after every restart. Messages are not looked at: a
scrape costs what queues and labels cost, and for the ages of dead letters a walk along an index.
"""

from __future__ import annotations

import resource
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

from redrive.core.ports import StoreClock
from redrive.core.records import Record
from redrive.core.store import WORKER_RECORDS, Inspection, Lanes, QueueCounts, Records, Totals
from redrive.core.totals import (
    BOUNDS,
    BY_QUEUE,
    LABEL_LIMITS,
    MILLIONTHS,
    OTHER,
    SUM,
    Flow,
    LabelKind,
    Measured,
    Occurrence,
    Total,
    TotalName,
)
from redrive.office.operations import records
from redrive.office.operations.operation import NoOperation
from redrive.office.records import every_record
from redrive.office.standings import standings
from redrive.telemetry.metrics import Scrape
from redrive.version import __version__

_AGES_S = (60, 300, 900, 3_600, 21_600, 86_400, 172_800, 259_200, 432_000, 604_800, 1_209_600, 2_592_000)
_FLOWS: Mapping[Flow, str] = {
    Flow.ACCEPTED: "messages_accepted_total",
    Flow.DONE: "messages_done_total",
    Flow.RETRIED: "messages_retried_total",
    Flow.DEAD: "dlq_entries_total",
    Flow.RELEASED: "messages_released_total",
}
_HISTOGRAMS: Mapping[Measured, str] = {
    Measured.HANDOVER: "handover_seconds",
    Measured.HANDLER: "handler_seconds",
    Measured.SETTLE: "settle_seconds",
    Measured.CLAIM: "claim_messages",
    Measured.BACKOFF: "retry_backoff_delay_seconds",
    Measured.LATENESS: "retry_lateness_seconds",
}
_COUNTERS: Mapping[Occurrence, str] = {
    Occurrence.ATTEMPTS: "retry_attempts_total",
    Occurrence.SUCCEEDED: "retry_success_rate",
    Occurrence.FAILURES: "retry_failures_total",
    Occurrence.DEAD_BY_CODE: "dlq_by_error_code",
    Occurrence.DEAD_BY_TENANT: "dlq_by_company",
    Occurrence.PROCESSED: "tenant_jobs_processed",
    Occurrence.STALE_SETTLES: "stale_settles_total",
    Occurrence.LEASE_EXTENSIONS: "lease_extensions_total",
    Occurrence.LEASES_LOST: "leases_lost_total",
    Occurrence.HOOKS_DROPPED: "hooks_dropped_total",
}
_ALONE = (
    Occurrence.STALE_SETTLES,
    Occurrence.LEASE_EXTENSIONS,
    Occurrence.LEASES_LOST,
    Occurrence.HOOKS_DROPPED,
)
_LATEST_MS = 3_600_000


class MeasuredStore(StoreClock, Lanes, Records, Totals, Inspection, Protocol):
    """What a scrape reads."""


class Sums:
    """The totals by name, label and part."""

    def __init__(self, totals: Sequence[Total]) -> None:
        self._sums: dict[TotalName, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for total in totals:
            self._sums[total.name][total.label][total.part] = total.count

    def of(self, name: TotalName) -> Iterator[tuple[str, str, int]]:
        """Label, part and count of each."""
        for label, parts in sorted(self._sums[name].items()):
            for part, count in sorted(parts.items()):
                yield label, part, count

    def parts(self, name: TotalName, label: str = "") -> Mapping[str, int]:
        return self._sums[name][label]

    def labels(self, name: TotalName) -> list[str]:
        return sorted(self._sums[name])

    def tenants(self) -> dict[str, int]:
        """Each tenant that has a label, and how many of its messages came to an end."""
        counts = {
            label: parts.get("", 0) for label, parts in sorted(self._sums[Occurrence.PROCESSED].items())
        }
        counts.pop(OTHER, None)
        return counts

    def mean(self, name: Measured) -> float | None:
        """The mean of all that was measured."""
        parts = self.parts(name)
        count = sum(number for part, number in parts.items() if part != SUM)
        return parts.get(SUM, 0) / MILLIONTHS / count if count else None


async def scrape(store: MeasuredStore) -> Scrape:
    """Everything that can be said of a store and of all who work on it."""
    made, sums = Scrape(), Sums(await store.totals())
    _write_totals(made, sums)
    counts = await store.queues()
    labels = _queue_labels(sums, counts)
    _write_queues(made, counts, labels, store.now())
    await _write_ages(made, store, counts, labels)
    await _write_tenants(made, store, sums, counts)
    await _write_operations(made, store)
    await _write_workers(made, store)
    await _write_store(made, store)
    return made


def _write_totals(made: Scrape, sums: Sums) -> None:
    for flow, name in _FLOWS.items():
        for queue, _, count in sums.of(flow):
            made.add(name, count, queue)
    for measured, name in _HISTOGRAMS.items():
        for label in sums.labels(measured):
            made.add_histogram(
                name, *_histogram(measured, sums.parts(measured, label)), *filter(None, (label,))
            )
    for occurrence in _ALONE:
        made.add(_COUNTERS[occurrence], sums.parts(occurrence).get("", 0))
    for label, kind, count in sums.of(Occurrence.FAILURES):
        made.add(_COUNTERS[Occurrence.FAILURES], count, label, kind)
    for occurrence in (Occurrence.DEAD_BY_CODE, Occurrence.DEAD_BY_TENANT, Occurrence.PROCESSED):
        for label, _, count in sums.of(occurrence):
            made.add(_COUNTERS[occurrence], count, label)
    _write_retries(made, sums)


def _write_retries(made: Scrape, sums: Sums) -> None:
    succeeded = sums.parts(Occurrence.SUCCEEDED)
    for _, number, count in sums.of(Occurrence.ATTEMPTS):
        made.add(_COUNTERS[Occurrence.ATTEMPTS], count, number)
        made.add(_COUNTERS[Occurrence.SUCCEEDED], min(1.0, succeeded.get(number, 0) / count), number)
    delay_s = sums.mean(Measured.BACKOFF)
    if delay_s is not None:
        made.add("retry_interval_seconds", delay_s + (sums.mean(Measured.LATENESS) or 0.0))


def _histogram(name: Measured, parts: Mapping[str, int]) -> tuple[list[tuple[float, int]], float]:
    bounds = (*BOUNDS[name], float("inf"))
    counts = accumulate(parts.get(str(number), 0) for number in range(len(bounds)))
    return list(zip(bounds, counts, strict=True)), parts.get(SUM, 0) / MILLIONTHS


def counted_together(sums: Sums, counts: Sequence[QueueCounts]) -> list[str]:
    """The queues that share the label OTHER, and a queue of that very name; none while each has its own."""
    shared = [queue for queue, label in _queue_labels(sums, counts).items() if label == OTHER]
    return [] if shared == [OTHER] else sorted(shared)


def _queue_labels(sums: Sums, counts: Sequence[QueueCounts]) -> dict[str, str]:
    """The label of each queue: its own, while there are some left besides those that were given."""
    given = {label for name in BY_QUEUE for label in sums.labels(name)}
    left = LABEL_LIMITS[LabelKind.QUEUE] - len(given - {OTHER})
    new = [one.queue for one in counts if one.queue not in given][: max(0, left)]
    known = given.union(new)
    return {one.queue: one.queue if one.queue in known else OTHER for one in counts}


def _write_queues(made: Scrape, counts: Sequence[QueueCounts], labels: Mapping[str, str], now: int) -> None:
    sizes, oldest_s = defaultdict[tuple[str, str], int](int), defaultdict[str, float](float)
    for one in counts:
        label = labels[one.queue]
        sizes[label, "pending"] += one.pending
        sizes[label, "scheduled"] += one.scheduled
        sizes[label, "retry_scheduled"] += one.retry_scheduled
        sizes[label, "processing"] += one.processing
        sizes[label, "dead"] += one.dlq
        waited_s = 0.0 if one.oldest_due_at is None else (now - one.oldest_due_at) / 1000
        oldest_s[label] = max(oldest_s[label], waited_s)
    for (label, state), count in sizes.items():
        if state == "dead":
            made.add("dlq_size", count, label)
        else:
            made.add("queue_messages", count, label, state)
    for label, waited_s in oldest_s.items():
        made.add("queue_oldest_waiting_seconds", waited_s, label)


async def _write_ages(
    made: Scrape, store: MeasuredStore, counts: Sequence[QueueCounts], labels: Mapping[str, str]
) -> None:
    now = store.now()
    instants = [now - 1_000 * age_s - 1 for age_s in reversed(_AGES_S)] + [now + _LATEST_MS]
    found: dict[str, list[int]] = {}
    for one in counts:
        older = found.setdefault(labels[one.queue], [0] * len(instants))
        if one.dlq:
            died = await store.letter_ages(one.queue, instants)
            older[:] = [had + more for had, more in zip(older, died, strict=True)]
    for label, (*older, every) in found.items():
        buckets = [(float(age_s), every - died) for age_s, died in zip(_AGES_S, reversed(older), strict=True)]
        made.add_histogram("dlq_age_seconds", [*buckets, (float("inf"), every)], None, label)


async def _write_tenants(
    made: Scrape, store: MeasuredStore, sums: Sums, counts: Sequence[QueueCounts]
) -> None:
    """Of each tenant that has a label, how it stands where it stands worst."""
    for one in await standings(store, sums.tenants(), counts):
        made.add("tenant_current_priority", one.priority, one.tenant)
        made.add("tenant_consecutive_batch", one.consecutive, one.tenant)
        made.add("tenant_rounds_without_processing", one.rounds_waited, one.tenant)


async def _write_operations(made: Scrape, store: MeasuredStore) -> None:
    states = defaultdict[str, int](int)
    for operation_id in await records.live(store):
        try:
            operation = await records.load(store, operation_id)
        except (NoOperation, records.UnreadableOperation):
            continue
        states[operation.state.value] += 1
    for state, count in sorted(states.items()):
        made.add("operations", count, state)


async def _write_workers(made: Scrape, store: MeasuredStore) -> None:
    alive = [record async for record in every_record(store, WORKER_RECORDS)]
    made.add("workers", len(alive))
    for record in alive:
        _write_worker(made, record)


def _write_worker(made: Scrape, record: Record) -> None:
    """What a worker said of itself; one of an older version says nothing."""
    figures: Mapping[str, Any] = record.document.get("figures", {})
    for name, key in (
        ("worker_handlers_running", "running"),
        ("worker_handlers_limit", "limit"),
        ("worker_loop_lag_seconds", "lagS"),
    ):
        if key in figures:
            made.add(name, float(figures[key]), record.id)
    for state, count in figures.get("smtp", {}).items():
        made.add("worker_smtp_connections", float(count), record.id, str(state))


async def _write_store(made: Scrape, store: MeasuredStore) -> None:
    capacity, described = await store.capacity(), await store.describe()
    made.add("store_used_bytes", capacity.used_bytes)
    if capacity.limit_bytes is not None:
        made.add("store_limit_bytes", capacity.limit_bytes)
    made.add("store_accepts", int(capacity.accepts))
    made.add("info", 1, __version__, described.durability.value)


def write_process(made: Scrape, cpu_s: float, peak_bytes: float) -> None:
    """What a worker's processes have used."""
    made.add("process_cpu_seconds_total", cpu_s)
    made.add("process_peak_bytes", peak_bytes)


def process_use() -> tuple[float, int]:
    """What this process has used: seconds of the processor, and at its peak so many bytes of memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1_024)
