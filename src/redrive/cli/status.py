"""`redrive status`: the overview once, with --lanes each tenant of one queue. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.ops import note_unattended
from redrive.cli.output import Output, name
from redrive.cli.render.operation import operation_table
from redrive.cli.render.overview import alert_panel, cause_panel, flow_lines, tenant_panel, worker_line
from redrive.cli.render.store import capacity_line, lane_table, queue_table, store_line
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.office.documents.control import lane_document
from redrive.office.queues import QueueStatus
from redrive.office.throughput import ThroughputMeter


async def status(*, lanes: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """The state of everything: queues, the last hour, tenants, causes, operations, workers.

    Parameters
    ----------
    lanes
        A queue whose tenants are shown too.
    """
    async with session(flags) as current:
        answer = await current.office.overview.show()
        seen, now = answer.found, answer.found.at
        speed = ThroughputMeter().measure(seen)
        document = msgspec.to_builtins(answer.document)
        parts: list[RenderableType] = [
            store_line(seen.described),
            capacity_line(seen.capacity),
            Text(),
            queue_table(current.output, seen.queues, now),
            worker_line(seen.workers),
            *(name(sentence, "yellow") for notice in seen.notices for sentence in notice.sentences()),
            *(name(warning, "yellow") for warning in seen.warnings),
        ]
        if any(seen.totals.values()):
            parts += [Text(), *flow_lines(seen, speed)]
        for panel in (
            alert_panel(seen.alerts),
            tenant_panel(seen.tenants, speed.shares, now),
            cause_panel(seen.groups or (), now),
        ):
            if panel.rows:
                parts += [Text(), panel.draw(len(panel.rows))]
        if seen.operations:
            parts += [Text(), operation_table(current.output, seen.operations, now)]
        if lanes is not None:
            tenants = sorted(await current.office.tenants.every(lanes), key=lambda lane: lane.tenant)
            document["lanes"] = [lane_document(lane) for lane in tenants]
            parts += [Text(), lane_table(current.output, tenants, now)]
        current.output.answer(document, lambda: Group(*parts))
        _advise(current.output, seen.queues)
        note_unattended(current.output, seen.operations)


def _advise(output: Output, queues: Sequence[QueueStatus]) -> None:
    dead = sum(one.counts.dlq for one in queues)
    if dead:
        output.note(f"why {dead:,} {'is' if dead == 1 else 'are'} dead: redrive dlq groups")
    for queue in [one.counts.queue for one in queues if one.no_handler]:
        output.note(f"work waits in {queue} and no live worker serves it: redrive worker --help")
