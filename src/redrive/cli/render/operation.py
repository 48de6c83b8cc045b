"""An operation for people: its preview, how far it is, what came of it, and its page.

On its way it is a bar with rate and time left; off a terminal, a line when its state changes; under --json
nothing but the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, age, clean, command, duration, moment, name
from redrive.office.operations import Operation, OperationKind, OperationState, Preview, Snapshot

_CAUSES_SHOWN = 10
_TENANTS_SHOWN = 3
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
        case OperationKind.UNDISCARD:
            return "brought back"
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
    line = done + left_text(operation.order.kind, frozen.expired, seen.skipped + frozen.gone, frozen.missing)
    if operation.order.kind is OperationKind.REDRIVE:
        ends = (
            (seen.done, "delivered again"),
            (seen.dead, "failed again"),
            (seen.removed, "removed"),
            (seen.outstanding, "still on the way"),
        )
        line += "".join(f", {count:,} {word}" for count, word in ends if count)
    if operation.state is OperationState.FINISHED:
        return line
    why = f": {clean(operation.why)}" if operation.why else ""
    return f"{operation.state}{why} ({line})"


def preview_page(output: Output, verb: str, found: Preview) -> RenderableType:
    """The whole preview."""
    lines: list[RenderableType] = [Text(f"{found.count:,} to {verb}{_of(found)}{_stay(found)}", "bold")]
    if found.causes:
        lines.append(_causes_table(output, found))
    if found.order.kind is OperationKind.REDRIVE and found.count:
        lines.append(Text(f"how: {plan_text(found)}"))
    if found.samples:
        lines.append(Text(f"look at one: {command('dlq', 'show', found.samples[0])}", "cyan"))
    return Group(*lines)


def nothing_text(verb: str, found: Preview) -> str:
    """Why there is nothing to do."""
    return f"nothing to {verb}{_stay(found)}"


def left_text(kind: OperationKind, expired: int, gone: int, missing: int) -> str:
    """What was or would be left out, and why; each part begins with a comma."""
    parts = [
        (gone, f"skipped ({_why_skipped(kind)})"),
        (expired, "left (own time to live has passed: --include-expired takes them too)"),
        (missing, "not found"),
    ]
    return "".join(f", {count:,} {text}" for count, text in parts if count)


def _why_skipped(kind: OperationKind) -> str:
    match kind:
        case OperationKind.UNDISCARD:
            return "not discarded, or not kept any more"
        case OperationKind.RESTORE:
            return "in the store already"
        case OperationKind.REDRIVE | OperationKind.DISCARD | OperationKind.EXPORT | OperationKind.ARCHIVE:
            return "not dead any more"
    assert_never(kind)


def _of(found: Preview) -> str:
    """Whose letters: the tenants that have most of them."""
    tenants: Counter[str] = Counter()
    for (_, tenant, _), count in found.split:
        tenants[tenant] += count
    named = ", ".join(clean(tenant) for tenant, _ in tenants.most_common(_TENANTS_SHOWN))
    more = len(tenants) - _TENANTS_SHOWN
    others = f" and {more:,} more tenant{'s' if more > 1 else ''}" if more > 0 else ""
    return (f", of {named}" if named else "") + others


def _stay(found: Preview) -> str:
    return left_text(found.order.kind, found.expired, found.gone, found.missing)


def plan_text(found: Preview) -> str:
    """How a re-drive would go: canary, rate and how long that makes it last."""
    order, lasts_s = found.order, found.lasts_s
    first = f"a canary of {order.canary}, then " if order.canary else "no canary, "
    if lasts_s is None:
        return f"{first}as fast as it goes"
    return f"{first}{order.rate}, about {duration(round(1000 * lasts_s))}"


def _causes_table(output: Output, found: Preview) -> Table:
    table = output.table("letters", "code", "reason", numbers=("letters",))
    for (code, reason), count in found.causes[:_CAUSES_SHOWN]:
        table.add_row(f"{count:,}", name(code), name(reason))
    if len(found.causes) > _CAUSES_SHOWN:
        table.caption = f"{len(found.causes) - _CAUSES_SHOWN:,} more causes: redrive dlq groups shows all"
    return table


def operation_table(output: Output, found: Sequence[Snapshot], now: int) -> RenderableType:
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
        frozen = operation.frozen
        named = max(len(chosen.ids), frozen.total + frozen.expired + frozen.gone + frozen.missing)
        return chosen.ids[0] if named == 1 else f"{named:,} named letters"
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
    return Group(grid)


def _how(operation: Operation) -> str:
    order = operation.order
    parts = [f"at {order.rate}" if order.pace else "as fast as it goes"]
    if order.canary:
        parts.append(f"a canary of {order.canary}")
    if order.to_queue is not None:
        parts.append(f"to {clean(order.to_queue)}")
    if order.kind.value == "redrive":
        parts.append(f"halts above {order.halt_share:.0%} failures")
    return ", ".join(parts)
