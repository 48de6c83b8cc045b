"""What reaches the terminal, and how instants and durations read there. Everything stored is attacker's
text: it is printed as text, never as markup or control sequences, and reasons are redacted for people;
--json carries them whole, escaped.

Owns both streams: the answer goes to standard output, all else to standard error, silent under --json. What
`redrive --help` does not need is imported where it is used.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TextIO

from cyclopts import Parameter, Token
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.problems import CommandError, Exit
from redrive.core.failure import clip
from redrive.core.redaction import printable, redact
from redrive.core.values import LONGEST

_WIDTH_OFF_TERMINAL = 200
_ROOMY = 100
_LONGEST_ERROR = 2_000
_BEFORE = 50
_BEHIND = 40

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Output:
    """Where one command prints, as text or as JSON."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = _console(sys.stdout)
        self.notes = _console(sys.stderr)

    def answer(self, document: object, render: Callable[[], RenderableType]) -> None:
        """The command's answer, in the one form that was asked for."""
        if self.as_json:
            from msgspec import to_builtins

            sys.stdout.write(json.dumps(document, default=to_builtins) + "\n")
        else:
            self.console.print(render(), soft_wrap=not self.console.is_terminal)
        sys.stdout.flush()

    def note(self, message: str) -> None:
        """A line for people, beside the answer."""
        if not self.as_json:
            self.notes.print(Text(clean(message)), soft_wrap=True)

    def error(self, message: str, code: Exit, more: Mapping[str, Any]) -> None:
        """Why the command failed."""
        shown = clip(redact(message), _LONGEST_ERROR)
        if self.as_json:
            body = {"what": code.words, "message": shown, **more, "exitCode": int(code)}
            sys.stderr.write(json.dumps({"error": body}) + "\n")
        else:
            self.notes.print(Text.assemble(("error: ", "bold red"), clean(shown)), soft_wrap=True)

    def point(self, text: str, position: int) -> None:
        """Show where in a text something is wrong: its line there, and a caret below."""
        if self.as_json:
            return
        begin = text.rfind("\n", 0, position) + 1
        before, rest = text[begin:position], text[position:].partition("\n")[0]
        left, right = _flat(before)[-_BEFORE:], _flat(rest)[:_BEHIND]
        self.notes.print(Text(f"  {left}{right}"), soft_wrap=True)
        self.notes.print(Text(" " * (2 + cell_len(left)) + "^", "bold red"), soft_wrap=True)

    async def confirm(self, question: str, *, yes: bool) -> bool:
        """Whether to go on. Without a terminal only --yes can say so."""
        if yes:
            return True
        if self.as_json or not (sys.stdin.isatty() and self.notes.is_terminal):
            raise CommandError(
                f"{question} needs a confirmation, and there is nobody to ask: add --yes", Exit.USAGE
            )
        self.notes.print(Text(f"{clean(question)} [y/N] "), end="")
        if (await self._typed_line()).strip().lower() in ("y", "yes"):
            return True
        self.note("nothing was changed")
        return False

    async def _typed_line(self) -> str:
        """A line from the terminal, without blocking the loop: an interrupt must end the question."""
        import asyncio

        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), ready.set)
        try:
            await ready.wait()
        except asyncio.CancelledError:
            self.notes.print()
            raise
        finally:
            loop.remove_reader(sys.stdin.fileno())
        return sys.stdin.readline()

    @contextmanager
    def progress(self, doing: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A bar on standard error, for work that may be long."""
        if self.as_json or not self.notes.is_terminal:
            yield lambda count: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self.notes, transient=True) as bar:
            task = bar.add_task(doing, total=total)
            yield lambda count: bar.update(task, completed=count)

    def abandon(self) -> None:
        """The reader has gone: nothing more can be printed, also not while Python ends."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    @property
    def is_terminal(self) -> bool:
        """Whether what is printed is seen by a person and kept by nobody."""
        return not self.as_json and self.console.is_terminal

    @property
    def roomy(self) -> bool:
        return self.console.width >= _ROOMY

    def table(self, *headers: str, numbers: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Table:
        """A table without lines. Only the columns in `words` may fold; names are cut, numbers never."""
        table = Table(box=None, padding=(0, 2 if self.roomy else 1, 0, 0), pad_edge=False)
        for header in headers:
            if header in numbers:
                table.add_column(header, justify="right", no_wrap=True, min_width=len(header))
            elif header in words:
                table.add_column(header, overflow="fold", ratio=1)
            else:
                table.add_column(header, no_wrap=True, overflow="ellipsis", min_width=6)
        return table


def _flat(text: str) -> str:
    """Text whose characters keep their places, without control sequences."""
    return "".join(character if character.isprintable() else " " for character in text)


def clean(value: object) -> str:
    """Stored text on one line, without control sequences."""
    return " ".join(printable(str(value)).split())


def command(*parts: object) -> str:
    """A command of ours to be copied: what is stored or has spaces is quoted, so that it stays one word."""
    return shlex.join(["redrive", *map(clean, parts)])


def words(value: object, style: str = "") -> Text:
    """Stored text as a cell: never markup, secrets and addresses masked."""
    return Text(redact(clean(value)), style)


def name(value: object, style: str = "") -> Text:
    """A name or an id as a cell: never markup."""
    return Text(clean(value), style)


def mute_logs() -> None:
    """What is drawn tells what log lines would, and they would spoil it."""
    import logging

    logger = logging.getLogger("redrive")
    logger.handlers[:] = [logging.NullHandler()]
    logger.propagate = False


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _WIDTH_OFF_TERMINAL
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def duration(milliseconds: int) -> str:
    """In the largest unit that fits: 0.4 s, 12 s, 3 min, 2 h, 5 d."""
    seconds = milliseconds / 1000
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def age(at: int | None, now: int) -> str:
    """How long ago; nothing for what never was."""
    return "" if at is None else duration(max(0, now - at))


def moment(at: int) -> str:
    """A day and a time of day, in UTC."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def since(text: str, now: int) -> int:
    """The instant that `2h`, `30m` or `7d` ago is, or a date or time such as 2026-01-31T08:00Z."""
    span = _span(text)
    return _instant(text) if span is None else now - span


def until(text: str, now: int) -> int:
    """The same of what is to come: `2h` is in two hours."""
    span = _span(text)
    return _instant(text) if span is None else now + span


def _span(text: str) -> int | None:
    from redrive.office.filters.moments import read_duration

    seconds = read_duration(text.strip().lower())
    return None if seconds is None else 1000 * seconds


def _length(kind: object, tokens: Sequence[Token]) -> timedelta:
    from redrive.office.filters.moments import read_duration

    flag, text = tokens[0].keyword, tokens[0].value.strip().lower()
    read = read_duration(text)
    try:
        seconds = float(text if read is None else read)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        problem = f"{flag} {text!r} is not a length of time: write 90 (seconds), 30s, 5m, 2h30m or 7d"
        raise CommandError(problem, Exit.USAGE)
    if not 0 <= seconds <= LONGEST.total_seconds():
        raise CommandError(f"{flag} is {text}: it is from 0 to {LONGEST.days}d", Exit.USAGE)
    return timedelta(seconds=seconds)


Length = Annotated[timedelta | None, Parameter(converter=_length)]
"""A flag that is a length of time: a number is seconds, 2h30m says its units."""


def _instant(text: str) -> int:
    try:
        read = datetime.fromisoformat(text.strip())
        return round(1000 * (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        problem = f"{text!r} is not a valid time: write a span such as 30m, 2h or 7d, or 2026-01-31T08:00Z"
        raise CommandError(problem, Exit.USAGE) from None


def time_of_day(at: int) -> str:
    """A time of day with milliseconds, in UTC."""
    return f"{datetime.fromtimestamp(at // 1000, UTC):%H:%M:%S}.{at % 1000:03d}"


def clock_time() -> str:
    """The time of day now, by this machine's clock."""
    return time_of_day(time.time_ns() // 1_000_000)
