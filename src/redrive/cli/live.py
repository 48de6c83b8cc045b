"""The live page of `redrive up`: queues, tenants, the latest events, and how to look closer.

It reads counters only, never messages, so looking costs the same however much waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.story import Counts, Story
from redrive.core.lanes import Lane
from redrive.core.ports import Description, QueueCounts, Store

_BAR = 30
_TENANTS = 5
_HINTS = 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The counters at one moment."""

    queues: Sequence[QueueCounts]
    lanes: Sequence[Lane]

    @property
    def waiting(self) -> int:
        """What has not ended yet."""
        return sum(
            one.pending + one.scheduled + one.retry_scheduled + one.suspects + one.processing
            for one in self.queues
        )


async def look(store: Store, names: Iterable[str]) -> Snapshot:
    """Read the counters of these queues."""
    wanted = set(names)
    queues = [counts for counts in await store.queues() if counts.queue in wanted]
    lanes = [lane for counts in queues for lane in await store.lanes(counts.queue)]
    return Snapshot(queues, lanes)


def page(
    output: Output, described: Description, snapshot: Snapshot, story: Story, counts: Counts
) -> RenderableType:
    """The whole screen."""
    tenants = _tenant_table(snapshot.lanes)
    above = 9 + len(snapshot.queues) + tenants.row_count + _HINTS
    room = max(3, output.console.height - above)
    return Group(
        Text.assemble(("redrive up", "bold"), "  an example shop; nothing is sent anywhere", no_wrap=True),
        Text(f"{described.url}  durability {described.durability}", "dim", no_wrap=True, overflow="ellipsis"),
        Text(),
        _queue_table(output, snapshot.queues),
        Text(),
        tenants,
        Text(),
        Text(f"what happened: {counts.headline()}", "bold", no_wrap=True, overflow="ellipsis"),
        *_latest(story, room),
        Text(),
        *hints(story.last_dead),
        Text("end           Ctrl-C", "cyan"),
    )


def hints(last_dead: str | None) -> list[Text]:
    """What to try next, in another terminal."""
    look_closer = f"redrive show {last_dead}" if last_dead else "redrive status"
    return [
        Text("look closer   redrive dlq list", "cyan"),
        Text(f"              {look_closer}", "cyan"),
        Text("bring back    redrive dlq redrive --all", "cyan"),
    ]


def _queue_table(output: Output, queues: Sequence[QueueCounts]) -> Table:
    numbers = ("pending", "retrying", "later", "processing", "done", "dead")
    table = output.table("queue", *numbers, numbers=numbers)
    for counts in queues:
        table.add_row(
            name(counts.queue),
            f"{counts.pending:,}",
            Text(f"{counts.retry_scheduled:,}", "yellow"),
            f"{counts.scheduled:,}",
            f"{counts.processing:,}",
            Text(f"{counts.published:,}", "green"),
            Text(f"{counts.dlq:,}", "red"),
        )
    return table


def _tenant_table(lanes: Sequence[Lane]) -> Table:
    """Each tenant's share of what was handed out, and what it still has waiting."""
    served: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for lane in lanes:
        served[lane.tenant] = served.get(lane.tenant, 0) + lane.served
        waiting[lane.tenant] = waiting.get(lane.tenant, 0) + lane.waiting
    total = sum(served.values()) or 1
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("tenant", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("share", no_wrap=True, min_width=_BAR)
    table.add_column("", justify="right")
    table.add_column("waiting", justify="right")
    for tenant in sorted(served, key=lambda one: -served[one])[:_TENANTS]:
        share = served[tenant] / total
        bar = Text("█" * max(1, round(share * _BAR)), "blue")
        table.add_row(name(tenant), bar, f"{share:.0%}", f"{waiting[tenant]:,}")
    return table


def _latest(story: Story, room: int) -> list[Text]:
    shown = list(story.latest)[-room:]
    lines = [Text(one.text, one.style, no_wrap=True, overflow="ellipsis") for one in shown]
    return lines + [Text() for _ in range(room - len(lines))]
