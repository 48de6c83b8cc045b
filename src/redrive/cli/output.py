"""What reaches the terminal. Everything stored is attacker's text: it is printed as text, never as markup
or control sequences, and reasons are redacted for people; --json carries them whole, escaped.

Owns both streams: the answer goes to standard output, all else to standard error, silent under --json.
What `redrive --help` does not need is imported where it is used.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.problems import CommandError, Exit
from redrive.core.redaction import printable, redact

_WIDTH_OFF_TERMINAL = 200
_ROOMY = 100
_BEFORE = 50
_BEHIND = 40


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
        shown = redact(message)
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
        if (await _typed_line()).strip().lower() in ("y", "yes"):
            return True
        self.note("nothing was changed")
        return False

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

    def forsake(self) -> None:
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


async def _typed_line() -> str:
    """A line from the terminal, without blocking the loop: an interrupt must end the question."""
    import asyncio

    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _WIDTH_OFF_TERMINAL
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
