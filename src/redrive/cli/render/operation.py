"""An operation for people: its preview, how far it is, what came of it, and its page.

On its way it is a bar with rate and time left; off a terminal, a line when its state changes; under --json
nothing but the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, clean, command, name
from redrive.cli.times import age, duration, moment
from redrive.office.operations import Operation, OperationKind, OperationState, Preview, Snapshot

_GROUPS_SHOWN = 20
_STYLES = {
    OperationState.FREEZING: "cyan",
    OperationState.CANARY: "cyan",
    OperationState.MOVING: "cyan",
    OperationState.FINISHED: "green",
    OperationState.HALTED: "bold red",
    OperationState.FAILED: "bold red",
    OperationState.PAUSED: "yellow",
    OperationState.CANCELLED: "yellow",
}


@contextmanager
def watching(output: Output) -> Iterator[Callable[[Snapshot], None]]:
    """Tells how far an operation is, for as long as one looks at it."""
    if output.as_json:
        yield lambda _: None
    elif not output.notes.is_terminal:
        yield _Lines(output).see
    else:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}", markup=False),
        )
        with Progress(*columns, console=output.notes, transient=True) as bar:
            task = bar.add_task("starting", total=None, pace="")

            def see(seen: Snapshot) -> None:
                bar.update(
                    task,
                    description=f"{seen.operation.order.kind} {seen.operation.state}",
                    total=seen.operation.frozen.total or None,
                    completed=seen.handled,
                    pace=pace_text(seen),
                )

            yield see


class _Lines:
    """One line a change of state."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._told = OperationState.FREEZING

    def see(self, seen: Snapshot) -> None:
        state = seen.operation.state
        if state is not self._told and state.runs:
            self._output.note(f"{state}: {seen.handled:,} of {seen.operation.frozen.total:,}")
        self._told = state


def pace_text(seen: Snapshot) -> str:
    """Rate, time left, and what failed again; while letters are waited for, that."""
    parts = []
    if seen.operation.why:
        parts.append(clean(seen.operation.why))
    elif seen.operation.state.runs:
        parts += [f"{seen.speed:,.0f}/s"] if seen.speed else []
        parts += [f"{duration(round(1000 * seen.left_s))} left"] if seen.left_s else []
    if seen.failed:
        parts.append(f"{seen.failed:,} failed again")
    return ", ".join(parts)


def _past(kind: OperationKind) -> str:
    match kind:
        case OperationKind.REDRIVE:
            return "re-driven"
        case OperationKind.DISCARD:
            return "discarded"
        case OperationKind.EXPORT:
            return "exported"
        case OperationKind.ARCHIVE:
            return "archived"
        case OperationKind.RESTORE:
            return "restored"
    assert_never(kind)


def outcome_text(seen: Snapshot) -> str:
    """What an operation came to so far, in one line."""
    operation, frozen = seen.operation, seen.operation.frozen
    done = f"{seen.moved:,} {_past(operation.order.kind)}"
    line = done + left_text(frozen.expired, seen.skipped + frozen.gone, frozen.missing)
    if operation.order.kind is OperationKind.REDRIVE:
        ends = ((seen.done, "done"), (seen.dead, "dead again"), (seen.removed, "removed"))
        line += "".join(f", {count:,} {word}" for count, word in ends if count)
    if operation.state is OperationState.FINISHED:
        return line
    why = f": {clean(operation.why)}" if operation.why else ""
    return f"{operation.state}{why} ({line})"


def preview_page(output: Output, verb: str, found: Preview) -> RenderableType:
    """The whole preview."""
    lines: list[RenderableType] = [Text(f"{found.count:,} to {verb}{_stay(found)}", "bold")]
    if found.split:
        lines.append(_split_table(output, found))
    if found.samples:
        lines.append(Text(f"look at one: {command('dlq', 'show', found.samples[0])}", "cyan"))
    return Group(*lines)


def nothing_text(verb: str, found: Preview) -> str:
    """Why there is nothing to do."""
    return f"nothing to {verb}{_stay(found)}"


def left_text(expired: int, gone: int, missing: int) -> str:
    """What was or would be left out, and why; each part begins with a comma."""
    parts = [
        (gone, "skipped (not dead any more)"),
        (expired, "left (own time to live has passed: --include-expired takes them too)"),
        (missing, "not found"),
    ]
    return "".join(f", {count:,} {text}" for count, text in parts if count)


def _stay(found: Preview) -> str:
    return left_text(found.expired, found.gone, found.missing)


def _split_table(output: Output, found: Preview) -> Table:
    table = output.table("letters", "tenant", "reason", "queue", numbers=("letters",))
    for (queue, tenant, reason), count in found.split[:_GROUPS_SHOWN]:
        table.add_row(f"{count:,}", name(tenant), name(reason), name(queue))
    if len(found.split) > _GROUPS_SHOWN:
        table.caption = f"{len(found.split) - _GROUPS_SHOWN:,} more groups: --dry-run --json shows all"
    return table


def operation_table(output: Output, found: list[Snapshot], now: int) -> RenderableType:
    """Operations, a line each."""
    if not found:
        return Text("no operations: redrive dlq redrive --filter '…' starts one")
    numbers = ("letters", "failed", "begun")
    headers = ("operation", "what", "state", *numbers, "letters of")
    table = output.table(*headers, numbers=numbers, words=("letters of",))
    for seen in found:
        operation = seen.operation
        table.add_row(
            operation.id,
            operation.order.kind.value,
            Text(operation.state.value, _STYLES[operation.state]),
            f"{seen.handled:,}/{operation.frozen.total:,}",
            f"{seen.failed:,}" if seen.failed else "",
            age(operation.created_at, now),
            name(_what(operation)),
        )
    return table


def _what(operation: Operation) -> str:
    chosen, order = operation.order.selection, operation.order
    if order.uses_file and order.file is not None:
        return Path(order.file).name
    if chosen.ids:
        return chosen.ids[0] if len(chosen.ids) == 1 else f"{len(chosen.ids):,} named letters"
    return chosen.filter or "all"


def operation_page(seen: Snapshot) -> RenderableType:
    """One operation: what was asked, how far it is, and what came of it."""
    operation, order = seen.operation, seen.operation.order
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row("operation", name(operation.id, "bold"))
    grid.add_row("what", name(f"{order.kind} of {_what(operation)}"))
    grid.add_row("by", name(f"{operation.actor} ({operation.origin}), {moment(operation.created_at)}"))
    if order.file is not None:
        grid.add_row("file", name(order.file))
    grid.add_row("how", name(_how(operation)))
    grid.add_row("state", Text(operation.state.value, _STYLES[operation.state]))
    grid.add_row("progress", Text(f"{seen.handled:,} of {operation.frozen.total:,}  {pace_text(seen)}"))
    grid.add_row("so far", name(outcome_text(seen)))
    if seen.outstanding:
        grid.add_row("", Text(f"{seen.outstanding:,} still out: their outcome is not known yet"))
    return Group(grid)


def _how(operation: Operation) -> str:
    order = operation.order
    parts = [f"at {order.rate}" if order.rate else "as fast as it goes"]
    if order.canary:
        parts.append(f"a canary of {order.canary}")
    if order.to_queue is not None:
        parts.append(f"to {clean(order.to_queue)}")
    if order.kind.value == "redrive":
        parts.append(f"halts above {order.halt_share:.0%} failures")
    return ", ".join(parts)
