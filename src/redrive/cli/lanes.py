"""Lanes on the terminal: a tenant in a queue a line, as `status --lanes` and `tenant` show them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.session import Session
from redrive.cli.times import age
from redrive.core.lanes import Lane, LaneState
from redrive.core.ports import PAGE

_SHOWN = 50


async def all_lanes(current: Session, queue: str) -> list[Lane]:
    """Every lane of a queue."""
    found: list[Lane] = []
    while page := await current.store.lanes(queue, after=found[-1].tenant if found else None, limit=PAGE):
        found += page
    return found


def lane_table(output: Output, lanes: Sequence[Lane], now: int) -> RenderableType:
    """The lanes as people read them."""
    if not lanes:
        return Text("no tenant yet: redrive send QUEUE JSON --tenant TENANT makes one")
    numbers = ("waiting", "running", "done", "dead", "weight", "cap", "rate", "rounds", "last run")
    table = output.table("tenant", "queue", *numbers, "state", numbers=numbers)
    for lane in lanes[:_SHOWN]:
        table.add_row(
            name(lane.tenant),
            name(lane.queue),
            *(f"{count:,}" for count in (lane.waiting, lane.in_flight, lane.done)),
            Text(f"{lane.dead:,}", "red" if lane.dead else ""),
            str(lane.weight),
            "" if lane.cap is None else str(lane.cap),
            "" if lane.rate is None else str(lane.rate),
            str(lane.rounds_waited),
            age(lane.last_served_at, now),
            Text(lane.state.value, "" if lane.state is LaneState.RUNNING else "yellow"),
        )
    if len(lanes) > _SHOWN:
        table.caption = f"{len(lanes) - _SHOWN:,} more: --json shows all"
    return table
