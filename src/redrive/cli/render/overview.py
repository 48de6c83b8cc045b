"""The overview for people: what flows, who waits, what fails, who works; all of it on one screen for `top`.

A screen of any height is filled and no more: each table gets the lines that are left in turn, and says how
many of its rows are not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, age, duration, name, words
from redrive.cli.render.group import sparkline
from redrive.core.totals import Flow
from redrive.office.documents.alerts import AlertDocument
from redrive.office.groups import Group
from redrive.office.operations import Snapshot
from redrive.office.overview import StoreOverview
from redrive.office.queues import LiveWorker, QueueStatus
from redrive.office.standings import TenantStanding
from redrive.office.throughput import Throughput

_SHOWN_FLOWS = ((Flow.ACCEPTED, ""), (Flow.DONE, ""), (Flow.RETRIED, "yellow"), (Flow.DEAD, "red"))
_LAG_S = 0.5
_NARROW = 24
_LEAST = 3
_AGES = ("oldest", "last run", "last", "begun")
_AGE_WIDTH = 7

Row = list[str | Text]


def flow_lines(seen: StoreOverview, speed: Throughput) -> list[Text]:
    """What flows now, and how it went in the last hour."""
    now = Text("a second     ")
    for flow, style in _SHOWN_FLOWS:
        rate = speed.per_s[flow]
        now.append(f"{flow.value} ").append(f"{_rate(rate)}   ", style if rate else "")
    return [
        now,
        _hour("done", [one.done for one in seen.minutes], "green"),
        _hour("dead", [one.dead for one in seen.minutes], "red"),
    ]


def _hour(word: str, counts: Sequence[int], style: str) -> Text:
    return Text.assemble(f"{word} in 1 h  ", (sparkline(counts), style), f" {sum(counts):,}")


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def worker_line(workers: Sequence[LiveWorker]) -> Text:
    """Who works, how busy, and whose event loop comes too late."""
    if not workers:
        return Text("no worker is alive", "yellow")
    running = sum(one.running or 0 for one in workers)
    limit = sum(one.limit or 0 for one in workers)
    lag_s = max(one.lag_s or 0.0 for one in workers)
    line = Text(f"{len(workers)} worker{'s'[: len(workers) != 1]}: {running:,} of {limit:,} handlers run")
    if lag_s >= 0.001:
        line.append(f", loop lag up to {duration(round(1000 * lag_s))}", "red" if lag_s > _LAG_S else "")
    return line


@dataclass(frozen=True, slots=True)
class Panel:
    """A table that is drawn as far as there is room. `wide`: the column of words; the others are numbers."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Row]
    wide: str | None = None

    def draw(self, room: int) -> Table:
        """With at most so many rows."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=self.wide is not None)
        title = self.title if len(self.rows) <= room else f"{self.title} ({room} of {len(self.rows)})"
        table.add_column(title, no_wrap=True, overflow="ellipsis", min_width=16, max_width=_NARROW)
        for header in self.headers:
            if header == self.wide:
                table.add_column(header, no_wrap=True, overflow="ellipsis", ratio=1)
            else:
                width = max(len(header), _AGE_WIDTH if header in _AGES else 0)
                table.add_column(header, no_wrap=True, justify="right", min_width=width)
        for row in self.rows[:room]:
            table.add_row(*row)
        return table


def queue_panel(queues: Sequence[QueueStatus], now: int) -> Panel:
    """The queues with the most open first."""
    ordered = sorted(queues, key=lambda one: (-_open(one), one.counts.queue))
    headers = ("pending", "scheduled", "retrying", "processing", "dead", "oldest")
    return Panel("queue", headers, [_queue_row(one, now) for one in ordered])


def _open(one: QueueStatus) -> int:
    counts = one.counts
    return counts.pending + counts.processing + counts.retry_scheduled + counts.dlq


def _queue_row(one: QueueStatus, now: int) -> Row:
    counts = one.counts
    state = "" if one.counts.state.value == "running" else f" {one.counts.state.value}"
    due = counts.oldest_due_at is not None and counts.oldest_due_at <= now
    return [
        name(counts.queue + state, "red" if one.no_handler else "yellow" if state else ""),
        f"{counts.pending:,}",
        f"{counts.scheduled:,}",
        f"{counts.retry_scheduled:,}",
        f"{counts.processing:,}",
        Text(f"{counts.dlq:,}", "red" if counts.dlq else ""),
        age(counts.oldest_due_at, now) if due else "",
    ]


def tenant_panel(tenants: Sequence[TenantStanding], shares: Mapping[str, float], now: int) -> Panel:
    """The busiest tenants: their place in line, and how long they have waited for it."""
    headers = ("turn", "rounds", "waiting", "running", "dead", "last run", "share")
    return Panel("tenant", headers, [_tenant_row(one, shares, now) for one in tenants])


def _tenant_row(one: TenantStanding, shares: Mapping[str, float], now: int) -> Row:
    return [
        name(one.tenant),
        "" if one.turn is None else f"{one.turn}",
        f"{one.rounds_waited}" if one.rounds_waited else "",
        f"{one.waiting:,}",
        f"{one.in_flight:,}",
        Text(f"{one.dead:,}", "red" if one.dead else ""),
        age(one.last_served_at, now),
        f"{shares[one.tenant]:.0%}" if one.tenant in shares else "",
    ]


def cause_panel(groups: Sequence[Group], now: int) -> Panel:
    """What most letters died of."""
    return Panel(
        "cause",
        ("letters", "last", "why"),
        [_cause_row(one, now) for one in groups],
        wide="why",
    )


def _cause_row(one: Group, now: int) -> Row:
    sample = one.counts.sample
    told = not sample.code or sample.failure.startswith(sample.code)
    return [
        name(one.counts.key),
        Text(f"{one.counts.count:,}", "red"),
        age(one.counts.last_died_at, now),
        words(f"{sample.queue} {sample.failure if told else f'{sample.code} {sample.failure}'}"),
    ]


def alert_panel(alerts: Sequence[AlertDocument]) -> Panel:
    """What fires, in the order that `redrive alerts list` has."""
    rows: list[Row] = [
        [
            name(one.alert, "yellow" if one.silenced else "bold red"),
            f"{one.since[11:16]}Z",
            words(one.text),
        ]
        for one in alerts
    ]
    return Panel("alert", ("since", "what"), rows, wide="what")


def operation_panel(operations: Sequence[Snapshot], now: int) -> Panel:
    """What is under way."""
    headers = ("what", "state", "letters", "failed", "begun")
    return Panel("operation", headers, [_operation_row(one, now) for one in operations])


def _operation_row(seen: Snapshot, now: int) -> Row:
    operation = seen.operation
    return [
        name(operation.id),
        operation.order.kind.value,
        Text(operation.state.value, "red" if seen.unattended else ""),
        f"{seen.handled:,}/{operation.frozen.total:,}",
        f"{seen.failed:,}" if seen.failed else "",
        age(operation.created_at, now),
    ]


def panels(seen: StoreOverview, speed: Throughput) -> list[Panel]:
    """Those that have something to show, in order."""
    now = seen.at
    made = (
        alert_panel(seen.alerts),
        queue_panel(seen.queues, now),
        tenant_panel(seen.tenants, speed.shares, now),
        cause_panel(seen.groups or (), now),
        operation_panel(seen.operations, now),
    )
    return [one for one in made if one.rows]


def screen(output: Output, seen: StoreOverview, speed: Throughput, problem: str | None) -> RenderableType:
    """The whole screen of `top`."""
    shown = panels(seen, speed)
    head = [_first_line(seen), *flow_lines(seen, speed), worker_line(seen.workers)]
    if seen.described.lost:
        head.append(words(seen.described.meaning, "bold red"))
    foot = [Text("q quits", "cyan")]
    if problem is not None:
        foot.insert(0, words(f"not up to date: {problem}", "bold red"))
    left = output.console.height - len(head) - len(foot) - 1
    while shown and left < _LEAST * len(shown):
        shown.pop()
    rooms = share_out(left - (_LEAST - 1) * len(shown), [len(one.rows) for one in shown])
    lines: list[RenderableType] = list(head)
    for one, room in zip(shown, rooms, strict=True):
        lines += [Text(), one.draw(room)]
    lines += [Text(), *foot]
    for line in lines:
        if isinstance(line, Text):
            line.no_wrap, line.overflow = True, "ellipsis"
    return Lines(*lines)


def share_out(room: int, wanted: Sequence[int]) -> list[int]:
    """Lines for each of several tables: one each in turn, until all have what they want or none is left."""
    given = [0] * len(wanted)
    while room > 0 and given != list(wanted):
        for place, most in enumerate(wanted):
            if room and given[place] < most:
                given[place] += 1
                room -= 1
    return given


def _first_line(seen: StoreOverview) -> Text:
    capacity = seen.capacity
    limit = "" if capacity.limit_bytes is None else f" of {decimal(capacity.limit_bytes)}"
    line = Text.assemble(("redrive top  ", "bold"), name(seen.described.url))
    line.append(f"  {decimal(capacity.used_bytes)}{limit} used")
    return line if capacity.accepts else line.append(f"  {capacity.note}", "bold red")
