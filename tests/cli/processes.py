"""The command as a process of its own, for what only a process can show: pipes, signals, terminals."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = [sys.executable, "-m", "redrive"]
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith("REDRIVE_")}


def finish(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without a terminal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the test; it is gone afterwards."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def on_terminal(folder: Path, *arguments: str, until: str, answer: str) -> tuple[int, str]:
    """Run on a terminal, type the answer once `until` is shown; the exit code and what was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "80"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = ""
    for text in _screen(ours):
        shown += text
        if answer and until in shown:
            os.write(ours, answer.encode())
            answer = ""
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
