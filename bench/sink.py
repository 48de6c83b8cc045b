"""Postfix's smtp-sink on a free loopback port: takes mails, throws them away, and may count them.

The count is the sink's own, written to a file that is read now and then, so that counting costs the sender
that is measured next to nothing.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
_TAIL_BYTES = 128


class ToolMissing(Exception):
    """A program of Postfix is not installed."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A running sink. `counter` is the file of its count, where it was asked to count."""

    port: int
    counter: Path | None = None

    def count(self) -> int:
        """How many mails it has taken."""
        assert self.counter is not None
        with self.counter.open("rb") as file:
            file.seek(max(0, self.counter.stat().st_size - _TAIL_BYTES))
            written = file.read().rpartition(b"\r")[0]
        return int(written.rpartition(b"mesg=")[2] or 0)

    def wait_for(self, wanted: int, *, patience_s: float, every_s: float) -> float:
        """The instant, by time.perf_counter, at which it was seen to have so many; TimeoutError if never."""
        deadline_s = time.perf_counter() + patience_s
        while (count := self.count()) < wanted:
            if time.perf_counter() > deadline_s:
                raise TimeoutError(f"{count:,} of {wanted:,} mails came within {patience_s:g} s")
            time.sleep(every_s)
        return time.perf_counter()


def find_tool(name: str) -> str:
    """The path of one of Postfix's programs."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise ToolMissing(f"{name} is not installed: apt-get install postfix")
    return found


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def smtp_sink(*options: str, counter: Path | None = None) -> Iterator[Sink]:
    """A sink while inside; with `counter` it counts into that file."""
    binary, port = find_tool("smtp-sink"), free_port()
    chosen = [*(["-u", "root"] if os.getuid() == 0 else []), *(["-c"] if counter else []), *options]
    with (counter or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen([binary, *chosen, f"127.0.0.1:{port}", "100"], stdout=output)
    try:
        wait_for_greeting(port)
        yield Sink(port, counter)
    finally:
        process.terminate()
        process.wait()


def wait_for_greeting(port: int) -> None:
    """Return once an SMTP server answers there; RuntimeError when none does within some seconds."""
    for _ in range(250):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.recv(64)
                connection.sendall(b"QUIT\r\n")
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"no SMTP server answered on port {port}")
