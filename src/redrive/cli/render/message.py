"""Lists of messages for people, a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.times import age, duration
from redrive.core.letters import Listed, MessagePhase

_WHEN = {
    MessagePhase.WAITING: "due",
    MessagePhase.SCHEDULED: "due",
    MessagePhase.RUNNING: "lease",
    MessagePhase.DONE: "ended",
    MessagePhase.REMOVED: "ended",
}


def message_table(
    output: Output, messages: Sequence[Listed], now: int, phase: MessagePhase
) -> RenderableType:
    """The messages as people read them; `lease` is how long its worker is sure of it."""
    if not messages:
        return Text(f"no message is {phase.value}")
    numbers = ("attempts", "age", _WHEN[phase])
    who = ("removed by",) if phase is MessagePhase.REMOVED else ()
    table = output.table("id", "queue", "tenant", *numbers, *who, numbers=numbers)
    for one in messages:
        removal = [] if one.removal is None else [name(f"{one.removal.actor} ({one.removal.move})")]
        table.add_row(
            name(one.id),
            name(one.queue),
            name(one.tenant),
            str(one.attempts),
            age(one.enqueued_at, now),
            _when(one, now),
            *removal,
        )
    return table


def _when(one: Listed, now: int) -> str:
    at = one.finished_at or one.lease_until_at or one.due_at
    return f"in {duration(at - now)}" if at > now else f"{age(at, now)} ago"
