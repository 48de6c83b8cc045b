"""Every metric there is, as data, and the text that Prometheus reads.

What is not in the table cannot be written, and the documentation shows the table. The text is made here,
because Prometheus' own library ends the name of every counter in `_total`, and some of these do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "redrive_"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricKind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name without the prefix, its labels and what it says."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, meaning, labels)


def _histogram(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, meaning, labels)


METRICS = (
    _counter("retry_attempts_total", "Attempts that ended, by their number.", "attempt"),
    _gauge("retry_success_rate", "The share of the attempts of a number that ended well.", "attempt"),
    _counter("retry_failures_total", "Failed attempts, by code and kind.", "code", "kind"),
    _histogram("retry_backoff_delay_seconds", "The delays that retries were scheduled with."),
    _gauge(
        "retry_interval_seconds",
        "The mean time from a failed attempt to the next: the delay, and how late the retry came.",
    ),
    _histogram("retry_lateness_seconds", "How long after it was due a retry reached a worker."),
    _counter("dlq_entries_total", "Messages that became dead letters.", "queue"),
    _gauge("dlq_size", "Dead letters now.", "queue"),
    _histogram("dlq_age_seconds", "How old the dead letters are that are there now.", "queue"),
    _counter(
        "dlq_by_error_code", "Messages that became dead letters, by the code of their last failure.", "code"
    ),
    _counter("dlq_by_company", "Messages that became dead letters, by tenant.", "tenant"),
    _counter("tenant_jobs_processed", "Messages that came to an end, done or dead.", "tenant"),
    _gauge("tenant_current_priority", "5 for a tenant just served, down to 1 for one that waited.", "tenant"),
    _gauge("tenant_consecutive_batch", "Messages in a row that a tenant has got in its turn.", "tenant"),
    _gauge("tenant_rounds_without_processing", "Rounds that a tenant with due work has waited.", "tenant"),
    _counter("messages_accepted_total", "Messages accepted.", "queue"),
    _counter("messages_done_total", "Messages whose handler ended well.", "queue"),
    _counter("messages_retried_total", "Attempts that failed and are tried again.", "queue"),
    _counter("messages_released_total", "Messages given back without counting an attempt.", "queue"),
    _gauge("queue_messages", "Messages now, by state.", "queue", "state"),
    _gauge("queue_oldest_waiting_seconds", "How long the oldest due message has waited.", "queue"),
    _histogram("handover_seconds", "From due to in a worker's hands, of first attempts.", "queue"),
    _histogram("handler_seconds", "How long handlers ran.", "queue"),
    _histogram("settle_seconds", "How long the store took to take outcomes, a batch a time."),
    _histogram("claim_messages", "Messages that a claim brought, of those that brought any."),
    _counter("stale_settles_total", "Outcomes that were refused because the lease was lost."),
    _counter("lease_extensions_total", "Leases that were extended."),
    _counter("leases_lost_total", "Leases that could not be extended."),
    _counter("hooks_dropped_total", "Events that a hook of yours missed, because it was too slow."),
    _gauge("operations", "Operations that have not ended.", "state"),
    _gauge("workers", "Workers that are alive."),
    _gauge("worker_handlers_running", "Handlers that run now.", "worker"),
    _gauge("worker_handlers_limit", "Handlers that may run at once.", "worker"),
    _gauge("worker_loop_lag_seconds", "The longest wait for the event loop in the last seconds.", "worker"),
    _gauge("worker_smtp_connections", "Connections to the mail relay, by state.", "worker", "state"),
    _gauge("store_used_bytes", "What the store uses of memory or disk."),
    _gauge("store_limit_bytes", "What it may use, where there is a limit."),
    _gauge("store_accepts", "1 while the store takes new messages, 0 while it has no room."),
    _gauge("info", "Always 1; the labels say what runs.", "version", "durability"),
    _gauge("worker_processes", "Processes of `worker --processes` that are up; on its port only."),
    _gauge("worker_processes_wanted", "How many there should be; on its port only."),
    _counter("worker_process_restarts_total", "Processes started again after a death; on its port only."),
    _counter("process_cpu_seconds_total", "Processor time of the worker; on a worker's own port only."),
    _gauge("process_peak_bytes", "The most memory that the worker had; on a worker's own port only."),
)
_BY_NAME: Mapping[str, Metric] = {one.name: one for one in METRICS}


class Scrape:
    """The samples of one moment, written in the order of the table."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """One sample of a counter or a gauge, with the values of its labels in the order of the table."""
        metric = _BY_NAME[name]
        pairs = _pairs(metric, labels)
        shown = f"{{{pairs}}}" if pairs else ""
        self._lines.setdefault(name, []).append(f"{PREFIX}{name}{shown} {_number(value)}\n")

    def add_histogram(
        self, name: str, buckets: Sequence[tuple[float, int]], total: float | None, *labels: str
    ) -> None:
        """A histogram: how many were at or below each bound, all of them last; without a sum where letters
        that left would make it fall."""
        metric = _BY_NAME[name]
        pairs, lines = _pairs(metric, labels), self._lines.setdefault(name, [])
        shown, more = (f"{{{pairs}}}", f"{pairs},") if pairs else ("", "")
        opening = f'{PREFIX}{name}_bucket{{{more}le="'
        lines += [f'{opening}{_number(bound)}"}} {count}\n' for bound, count in buckets]
        if total is not None:
            lines.append(f"{PREFIX}{name}_sum{shown} {_number(total)}\n")
        lines.append(f"{PREFIX}{name}_count{shown} {buckets[-1][1]}\n")

    def text(self) -> str:
        """What Prometheus reads."""
        parts = []
        for metric in METRICS:
            if lines := self._lines.get(metric.name):
                name = f"{PREFIX}{metric.name}"
                parts += [f"# HELP {name} {metric.meaning}\n# TYPE {name} {metric.kind}\n", *lines]
        return "".join(parts)


def _pairs(metric: Metric, labels: Sequence[str]) -> str:
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in zip(metric.labels, labels, strict=True))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def markdown_table() -> str:
    """The table as the documentation shows it."""
    head = ["| metric | type | labels | what it says |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *map(_row, METRICS)])


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{PREFIX}{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |"
