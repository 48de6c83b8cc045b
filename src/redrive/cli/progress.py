"""An operation on its way: a bar with rate and time left, and in the end what came of it, in words.

Off a terminal a line is written when its state changes. Under --json there is nothing but the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from redrive.cli.output import Output, clean
from redrive.cli.previews import left_text
from redrive.cli.problems import Exit
from redrive.cli.times import duration
from redrive.office.operations import Kind, OperationState, Snapshot

_PAST = {
    Kind.REDRIVE: "re-driven",
    Kind.DISCARD: "discarded",
    Kind.EXPORT: "exported",
    Kind.RESTORE: "restored",
}
_STOOD = (OperationState.HALTED, OperationState.PAUSED, OperationState.CANCELLED)


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


def outcome_text(seen: Snapshot) -> str:
    """What an operation came to so far, in one line."""
    operation, frozen = seen.operation, seen.operation.frozen
    done = f"{seen.moved:,} {_PAST[operation.order.kind]}"
    line = done + left_text(frozen.expired, seen.skipped + frozen.gone, frozen.missing)
    if operation.order.kind is Kind.REDRIVE:
        ends = ((seen.done, "done"), (seen.dead, "dead again"), (seen.removed, "removed"))
        line += "".join(f", {count:,} {word}" for count, word in ends if count)
    if operation.state is OperationState.FINISHED:
        return line
    why = f": {clean(operation.why)}" if operation.why else ""
    return f"{operation.state}{why} ({line})"


def outcome_code(seen: Snapshot) -> Exit:
    """Stale letters of a filter were announced and are no failure; a named letter that stayed is one."""
    operation, frozen = seen.operation, seen.operation.frozen
    if operation.state is OperationState.FAILED:
        return Exit.FAILED
    if operation.state in _STOOD or seen.dead:
        return Exit.PARTIAL
    named = bool(operation.order.selection.ids)
    return stayed_code(
        seen.moved, seen.skipped + frozen.gone, frozen.expired if named else 0, frozen.missing, named=named
    )


def stayed_code(moved: int, skipped: int, expired: int, missing: int, *, named: bool) -> Exit:
    """The exit code for letters that were meant and stayed."""
    stayed = skipped + expired + missing
    if not stayed:
        return Exit.OK
    if moved or not named:
        return Exit.PARTIAL
    return Exit.NOT_FOUND if missing == stayed else Exit.FAILED
