"""The command as a process of its own, for what only a process can show: pipes, signals, terminals."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from tests.programs import Program, run

COMMAND = [sys.executable, "-m", "redrive"]
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith("REDRIVE_")}


def finish(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run a command to its end, without a terminal."""
    return run(["redrive", *arguments], cwd=folder, env=ENVIRONMENT)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[Program]:
    """A command that runs beside the test; it is gone afterwards."""
    process = Program(["redrive", *arguments], cwd=folder, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def on_terminal(folder: Path, *arguments: str, until: str, answer: str) -> tuple[int, str]:
    """Run on a terminal, type the answer once `until` is shown; the exit code and what was shown."""
    return play(folder, *arguments, steps=[(until, lambda: answer)] if answer else [])


def play(
    folder: Path,
    *arguments: str,
    steps: Sequence[tuple[str, Callable[[], str]]],
    size: tuple[int, int] | None = None,
) -> tuple[int, str]:
    """Run on a terminal of so many lines and columns; once a step's text is shown, type what it answers, and
    look for the next step's text in what is shown from then on."""
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "COLUMNS": "80"}
    if size is not None:
        termios.tcsetwinsize(theirs, size)
        environment = {name: text for name, text in ENVIRONMENT.items() if name not in ("COLUMNS", "LINES")}
    process = Program(
        ["redrive", *arguments],
        cwd=folder,
        env={**environment, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, looked, left = "", 0, list(steps)
    for text in _screen(ours):
        shown += text
        if left and (found := shown.find(left[0][0], looked)) >= 0:
            looked = found + 1
            os.write(ours, left.pop(0)[1]().encode())
    os.close(ours)
    return process.wait(), shown


def _screen(terminal: int) -> Iterator[str]:
    while True:
        try:
            text = os.read(terminal, 4096)
        except OSError:
            return
        if not text:
            return
        yield text.decode(errors="replace")
