"""A store for people: where it is, how full, its queues, and its lanes (a tenant in a queue), a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.filesize import decimal
from rich.text import Text

from redrive.cli.output import Output, age, duration, name
from redrive.core.condition import Capacity, Description
from redrive.core.lanes import Lane, LaneState
from redrive.office.queues import QueueStatus

_SHOWN = 50
_ALWAYS = ("waiting", "running", "done", "dead")


def store_line(described: Description) -> Text:
    """Where the messages are, and what "accepted" means there."""
    durability = f"durability {described.durability}"
    return Text.assemble(name(described.url), "  ", (durability, "green"), f": {described.meaning}")


def capacity_line(capacity: Capacity) -> Text:
    """How full the store is, and with what; a share that the store cannot tell is left out."""
    limit = "" if capacity.limit_bytes is None else f" of {decimal(capacity.limit_bytes)}"
    shares = {
        "waiting": capacity.waiting_bytes,
        "finished": capacity.finished_bytes,
        "dead": capacity.dead_bytes,
    }
    known = ", ".join(f"{word} about {decimal(size)}" for word, size in shares.items() if size is not None)
    line = Text(f"{decimal(capacity.used_bytes)}{limit} used" + (f": {known}" if known else ""))
    return line.append(f"; {capacity.note}" if capacity.note else "", "" if capacity.accepts else "bold red")


def queue_table(output: Output, queues: Sequence[QueueStatus], now: int) -> RenderableType:
    """The queues as people read them."""
    if not queues:
        return Text("no queue yet: redrive send QUEUE JSON makes one")
    numbers = ("pending", "scheduled", "retrying", "processing", "done", "dead", "oldest")
    table = output.table("queue", *numbers, "served by", numbers=numbers)
    for one in queues:
        counts = one.counts
        table.add_row(
            name(counts.queue),
            str(counts.pending),
            str(counts.scheduled),
            str(counts.retry_scheduled),
            str(counts.processing),
            str(counts.published),
            Text(str(counts.dlq), "red" if counts.dlq else ""),
            _oldest(counts.oldest_due_at, now),
            _served_by(one),
        )
    return table


def _oldest(due_at: int | None, now: int) -> str:
    """How long the oldest is due already, or when the first will be."""
    return f"in {duration(due_at - now)}" if due_at is not None and due_at > now else age(due_at, now)


def _served_by(status: QueueStatus) -> Text:
    if status.counts.state is not LaneState.RUNNING:
        return Text(status.counts.state.value, "yellow")
    if status.no_handler:
        return Text("no handler", "red")
    if not status.workers and status.counts.consumers:
        return Text("other software")
    return Text(f"{status.workers} worker{'' if status.workers == 1 else 's'}")


def lane_table(output: Output, lanes: Sequence[Lane], now: int) -> RenderableType:
    """The lanes as people read them; a narrow terminal gets the columns that say something."""
    if not lanes:
        return Text("no tenant yet: redrive send QUEUE JSON --tenant TENANT makes one")
    columns = {
        header: cells
        for header, cells in _columns(lanes[:_SHOWN], now).items()
        if output.roomy or header in _ALWAYS or any(cells)
    }
    table = output.table("tenant", "queue", *columns, "state", numbers=tuple(columns))
    for lane, *numbers in zip(lanes, *columns.values(), strict=False):
        state = Text(lane.state.value, "" if lane.state is LaneState.RUNNING else "yellow")
        table.add_row(name(lane.tenant), name(lane.queue), *numbers, state)
    if len(lanes) > _SHOWN:
        table.caption = f"{len(lanes) - _SHOWN:,} more: --json shows all"
    return table


def _columns(lanes: Sequence[Lane], now: int) -> dict[str, list[str]]:
    return {
        "waiting": [f"{lane.waiting:,}" for lane in lanes],
        "running": [f"{lane.in_flight:,}" for lane in lanes],
        "done": [f"{lane.done:,}" for lane in lanes],
        "dead": [f"{lane.dead:,}" for lane in lanes],
        "weight": [f"{lane.weight}" if lane.weight != 1 else "" for lane in lanes],
        "cap": ["" if lane.cap is None else f"{lane.cap}" for lane in lanes],
        "rate": ["" if lane.rate is None else f"{lane.rate}" for lane in lanes],
        "rounds": [f"{lane.rounds_waited}" if lane.rounds_waited else "" for lane in lanes],
        "last run": [age(lane.last_served_at, now) for lane in lanes],
    }
