"""Postfix's smtp-sink: a fast server that speaks PIPELINING and keeps each mail in a file."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers import free_port, give_up

_READY_TRIES = 250


@dataclass(frozen=True)
class Sink:
    """A running sink and the folder of its mails."""

    port: int
    folder: Path

    def contents(self) -> list[bytes]:
        """Each mail as it was received, with LF line ends, behind the sink's own header lines."""
        return sorted(_without_own_lines(path.read_bytes()) for path in self.folder.iterdir())


@contextmanager
def smtp_sink(folder: Path) -> Iterator[Sink]:
    """A sink while inside."""
    binary = shutil.which("smtp-sink", path=f"{os.environ['PATH']}:/usr/sbin")
    if binary is None:
        give_up("smtp-sink is not installed: apt-get install postfix")
    port = free_port()
    as_root = ["-u", "root"] if os.getuid() == 0 else []
    process = subprocess.Popen([str(binary), *as_root, "-d", f"{folder}/mail.", f"127.0.0.1:{port}", "100"])
    try:
        _wait(process, port)
        yield Sink(port, folder)
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(_READY_TRIES):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.recv(64)
                connection.sendall(b"QUIT\r\n")
                return
        except OSError:
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
            break
    raise RuntimeError("smtp-sink did not start")


def _without_own_lines(data: bytes) -> bytes:
    """X-Client-Addr to the folded Received line, which differ by connection and time."""
    lines = data.split(b"\n")
    own = next(number for number, line in enumerate(lines) if line.startswith(b"Received: "))
    return b"\n".join(lines[own + 3 :])
