"""`redrive status`: what each queue holds and who serves it; with --lanes, each tenant of one queue."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.cli.times import age
from redrive.core.lanes import Lane, LaneState
from redrive.core.ports import PAGE, Capacity, Description
from redrive.office.queues import QueueStatus
from redrive.office.retention.notice import notices, sentences
from redrive.office.wire import lane_document, queue_document

_LANES_SHOWN = 50


async def status(*, lanes: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Every queue: what waits, runs, is done and is dead, and who serves it.

    Parameters
    ----------
    lanes
        A queue whose tenants are shown too.
    """
    async with session(flags) as current:
        described, capacity = await current.store.describe(), await current.store.capacity()
        queues, announced = await current.queues.status(), await notices(current.store)
        document: dict[str, Any] = {
            "store": described.url,
            "durability": described.durability.value,
            "capacity": _capacity_document(capacity),
            "queues": [queue_document(one) for one in queues],
            "retention": [notice.document() for notice in announced],
        }
        now = current.store.now()
        parts: list[RenderableType] = [
            store_line(described),
            _capacity_line(capacity),
            Text(),
            queue_table(current.output, queues, now),
            *(name(sentence, "yellow") for notice in announced for sentence in sentences(notice)),
        ]
        if lanes is not None:
            tenants = await _all_lanes(current, await current.known_queue(lanes))
            document["lanes"] = [lane_document(lane) for lane in tenants]
            parts += [Text(), _lane_table(current.output, tenants, now)]
        current.output.answer(document, lambda: Group(*parts))


def store_line(described: Description) -> Text:
    """Where the messages are, and what "accepted" means there."""
    durability = f"durability {described.durability}"
    return Text.assemble(name(described.url), "  ", (durability, "green"), f": {described.meaning}")


def _capacity_document(capacity: Capacity) -> dict[str, Any]:
    return {
        "usedBytes": capacity.used_bytes,
        "limitBytes": capacity.limit_bytes,
        "waitingBytes": capacity.waiting_bytes,
        "finishedBytes": capacity.finished_bytes,
        "deadBytes": capacity.dead_bytes,
        "accepts": capacity.accepts,
        "note": capacity.note,
    }


def _capacity_line(capacity: Capacity) -> Text:
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


def queue_table(output: Output, queues: list[QueueStatus], now: int) -> RenderableType:
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
            age(counts.oldest_due_at, now),
            _served_by(one),
        )
    return table


def _served_by(status: QueueStatus) -> Text:
    if status.counts.state is not LaneState.RUNNING:
        return Text(status.counts.state.value, "yellow")
    if status.no_handler:
        return Text("no handler", "red")
    return Text(f"{status.workers} worker{'' if status.workers == 1 else 's'}")


async def _all_lanes(current: Session, queue: str) -> list[Lane]:
    found: list[Lane] = []
    while page := await current.store.lanes(queue, after=found[-1].tenant if found else None, limit=PAGE):
        found += page
    return found


def _lane_table(output: Output, lanes: list[Lane], now: int) -> Table:
    numbers = ("waiting", "running", "done", "dead", "weight", "rounds", "priority", "last run")
    table = output.table("tenant", *numbers, "state", numbers=numbers)
    for lane in lanes[:_LANES_SHOWN]:
        counts = (lane.waiting, lane.in_flight, lane.done, lane.dead, lane.weight)
        cells = (*map(str, counts), str(lane.rounds_waited), str(lane.priority))
        table.add_row(name(lane.tenant), *cells, age(lane.last_served_at, now), lane.state.value)
    if len(lanes) > _LANES_SHOWN:
        table.caption = f"{len(lanes) - _LANES_SHOWN:,} more tenants: --json shows all"
    return table
