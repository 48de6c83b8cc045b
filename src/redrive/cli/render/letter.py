"""Dead letters as two lines each, and one message's life as a page.

The rows of a life come from what the store keeps; an attempt that ended well or is still running has no
record of its own, so the last row tells the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import set_cell_size
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, age, clean, duration, moment, name, time_of_day, words
from redrive.core.failure import Failure, Kind
from redrive.core.letters import Account, DeadLetter, Listed, MessagePhase
from redrive.core.lifecycle import State
from redrive.core.redaction import printable, redact

_NAME_WIDTH = 14
_STYLES = {
    State.WAITING: "",
    State.CLAIMED: "",
    State.DONE: "green",
    State.DEAD: "red",
    State.REMOVED: "yellow",
}

_WHEN = {
    MessagePhase.WAITING: "due",
    MessagePhase.SCHEDULED: "due",
    MessagePhase.RUNNING: "lease",
    MessagePhase.DONE: "ended",
    MessagePhase.REMOVED: "ended",
}


def letter_lines(output: Output, letters: Sequence[DeadLetter], now: int) -> RenderableType:
    """Two lines a letter, so that an id is never cut and the reason has room."""
    if not letters:
        return Text("no dead letters")
    tenants, queues = (
        min(_NAME_WIDTH if not output.roomy else 40, max(map(len, column)))
        for column in (
            [clean(letter.message.tenant) for letter in letters],
            [clean(letter.message.queue) for letter in letters],
        )
    )
    lines: list[RenderableType] = []
    for letter in letters:
        message = letter.message
        lines.append(
            Text.assemble(
                (clean(message.id), "bold"),
                f"  {_cut(message.tenant, tenants)}  {_cut(message.queue, queues)}",
                (f"  {letter.reason:<11}", "red"),
                (f" {age(letter.first_died_at, now):>6}", "dim"),
                no_wrap=True,
                overflow="ellipsis",
            )
        )
        lines.append(_last_failure(letter, now))
    return Group(*lines)


def _last_failure(letter: DeadLetter, now: int) -> Text:
    last = letter.failures[-1] if letter.failures else None
    reason = last.reason if last else letter.reason.value
    attempts = (
        f"attempt {last.attempt}" if last and last.kind is not Kind.EXPIRED else _tried(letter.failures)
    )
    code = f" [{last.code}]" if last and last.code else ""
    times = f", re-driven {len(letter.redrives)}x" if letter.redrives else ""
    again = f", dead again {age(letter.died_at, now)} ago" if letter.died_again else ""
    line = Text("    ", no_wrap=True, overflow="ellipsis")
    return line.append_text(words(f"{attempts}{times}{again}: {reason}{code}"))


def _tried(failures: Sequence[Failure]) -> str:
    """How often it ran before its time to live passed: that it passed is no attempt."""
    ran = [failure for failure in failures if failure.kind is not Kind.EXPIRED]
    return f"after attempt {ran[-1].attempt}" if ran else "never tried"


def _cut(text: str, width: int) -> str:
    plain = clean(text)
    return set_cell_size(plain, width) if len(plain) <= width else set_cell_size(plain, width - 1) + "…"


@dataclass(frozen=True, slots=True)
class _Step:
    at: int
    what: str
    detail: Text
    style: str = ""


def life(
    output: Output, account: Account, why: str, now: int, *, payload: Sequence[Any], traceback: bool
) -> RenderableType:
    """The whole page; with a payload, as it may be shown, that too."""
    parts: list[RenderableType] = [_head(account, why, now), Text(), _steps(output, account)]
    if traceback:
        parts += _tracebacks(account.failures)
    for one in payload:
        parts += [Text(), Text("body", "bold"), _body(one)]
    return Group(*parts)


def _head(account: Account, why: str, now: int) -> Table:
    message, progress = account.message, account.progress
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row("id", name(message.id))
    grid.add_row("queue", name(message.queue))
    grid.add_row("tenant", name(message.tenant))
    grid.add_row("state", Text(account.state.value, _STYLES[account.state]))
    if account.replaced_by is not None:
        grid.add_row("replaced by", name(account.replaced_by))
    grid.add_row("why", name(why) if account.removal else words(why))
    grid.add_row("attempts", _attempts(account))
    if account.died_at is not None and account.died_at != account.first_died_at:
        grid.add_row("first died", "" if account.first_died_at is None else moment(account.first_died_at))
    if account.state is State.WAITING:
        due = f", in {duration(progress.due_at - now)}" if progress.due_at > now else ", now"
        grid.add_row("due", moment(progress.due_at) + due)
        grid.add_row("expires", moment(progress.expires_at))
    if account.lease_until_at is not None:
        grid.add_row("leased until", moment(account.lease_until_at))
    if message.dedupe is not None:
        grid.add_row("dedupe", name(message.dedupe))
    for header, value in message.headers.items():
        grid.add_row("header", words(f"{header}={value}"))
    return grid


def _attempts(account: Account) -> str:
    progress = account.progress
    text = str(progress.attempts)
    if progress.generation:
        text += f" since re-drive {progress.generation}"
    if lost := account.lost_workers:
        text += f", {lost} worker{'s' if lost > 1 else ''} lost"
    return text


def _steps(output: Output, account: Account) -> Table:
    table = output.table("at (UTC)", "after", "what", "reason", numbers=("after",), words=("reason",))
    before_at: int | None = None
    for step in sorted(_history(account), key=lambda step: step.at):
        after = "" if before_at is None else duration(step.at - before_at)
        table.add_row(time_of_day(step.at), after, Text(step.what, step.style), step.detail)
        before_at = step.at
    return table


def _history(account: Account) -> Iterator[_Step]:
    message = account.message
    yield _Step(message.enqueued_at, "accepted", Text(f"on {moment(message.enqueued_at)[:10]}"))
    for failure in account.failures:
        reason = words(f"{failure.reason} [{failure.code}]" if failure.code else failure.reason)
        what = "expired" if failure.kind is Kind.EXPIRED else f"attempt {failure.attempt} {failure.kind}"
        yield _Step(failure.at, what, reason.append(_timing(failure), "dim"), "yellow")
    for redriven in account.redrives:
        came = name(f"by {redriven.actor}, came to: {redriven.result}")
        yield _Step(redriven.at, "re-driven", came, "cyan")
    if account.removal is not None:
        removal = account.removal
        yield _Step(removal.at, "removed", name(f"by {removal.actor} ({removal.move})"), "yellow")
    elif account.finished_at is not None:
        attempts = f"by attempt {account.progress.attempts}"
        detail = Text(f"dead letter: {account.reason}" if account.reason else attempts)
        yield _Step(account.finished_at, account.state.value, detail, _STYLES[account.state])


def _timing(failure: Failure) -> str:
    """How long an attempt ran, and the delay that was chosen after it; nothing where neither is known."""
    parts = [] if failure.duration_ms is None else [f"ran {duration(failure.duration_ms)}"]
    if failure.delay_ms is not None:
        why = "as asked" if failure.delay_asked else "by the retry policy"
        parts.append(f"next after {duration(failure.delay_ms)} {why}")
    return f" ({', '.join(parts)})" if parts else ""


def _tracebacks(failures: tuple[Failure, ...]) -> Iterator[RenderableType]:
    for failure in failures:
        if failure.traceback is not None:
            yield Text()
            yield Text(f"traceback of attempt {failure.attempt}", "bold")
            yield Text(redact(printable(failure.traceback)))


def _body(payload: Any) -> Text:
    if payload is None:
        return Text("gone: a message that has finished keeps no body")
    return Text(json.dumps(payload, indent=2))


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
