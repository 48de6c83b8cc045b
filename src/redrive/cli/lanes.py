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
_ALWAYS = ("waiting", "running", "done", "dead")


async def all_lanes(current: Session, queue: str) -> list[Lane]:
    """Every lane of a queue."""
    found: list[Lane] = []
    while page := await current.store.lanes(queue, after=found[-1].tenant if found else None, limit=PAGE):
        found += page
    return found


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
