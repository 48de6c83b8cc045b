"""`redrive status`: what each queue holds and who serves it; with --lanes, each tenant of one queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.ops import note_unattended
from redrive.cli.output import Output, name
from redrive.cli.render.operation import operation_table
from redrive.cli.render.store import capacity_line, lane_table, queue_table, store_line
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.core.condition import Capacity
from redrive.office.documents.control import lane_document, queue_document, whole_notice
from redrive.office.queues import QueueStatus

_OPERATIONS_SHOWN = 20


async def status(*, lanes: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Every queue: what waits, runs, is done and is dead, and who serves it.

    Parameters
    ----------
    lanes
        A queue whose tenants are shown too.
    """
    async with session(flags) as current:
        stands = await current.office.queues.status()
        described, capacity = stands.described, stands.capacity
        queues, announced = stands.queues, stands.notices
        answer = await current.office.operations.list(limit=_OPERATIONS_SHOWN, running=True)
        running = answer.found
        warnings = _warnings(current.settings.retention.folder, queues)
        document: dict[str, Any] = {
            "store": described.url,
            "durability": described.durability.value,
            "capacity": _capacity_document(capacity),
            "queues": [queue_document(one) for one in queues],
            "retention": [whole_notice(notice) for notice in announced],
            "warnings": warnings,
            "operations": answer.document.operations,
        }
        now = current.store.now()
        parts: list[RenderableType] = [
            store_line(described),
            capacity_line(capacity),
            Text(),
            queue_table(current.output, queues, now),
            *(name(sentence, "yellow") for notice in announced for sentence in notice.sentences()),
            *(name(warning, "yellow") for warning in warnings),
        ]
        if running:
            parts += [Text(), operation_table(current.output, running, now)]
        if lanes is not None:
            tenants = sorted(await current.office.tenants.every(lanes), key=lambda lane: lane.tenant)
            document["lanes"] = [lane_document(lane) for lane in tenants]
            parts += [Text(), lane_table(current.output, tenants, now)]
        current.output.answer(document, lambda: Group(*parts))
        _advise(current.output, queues)
        note_unattended(current.output, running)


def _advise(output: Output, queues: list[QueueStatus]) -> None:
    dead = sum(one.counts.dlq for one in queues)
    if dead:
        output.note(f"why {dead:,} are dead: redrive dlq groups")
    for queue in [one.counts.queue for one in queues if one.no_handler]:
        output.note(f"work waits in {queue} and no live worker serves it: redrive worker --help")


def _warnings(folder: str | None, queues: list[QueueStatus]) -> list[str]:
    """Where letters can leave to no archive, they stay: say so before there are too many."""
    if not any(one.counts.dlq for one in queues):
        return []
    if folder is None:
        return ["dead letters stay for ever: no folder for archives is set (retention.folder)"]
    if Path(folder).exists() and not os.access(folder, os.W_OK):
        return [f"dead letters cannot leave: {folder} cannot be written to (retention.folder)"]
    return []


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
