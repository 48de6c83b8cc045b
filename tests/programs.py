"""Programs of ours as processes beside a test: `python -m MODULE`, without the half second of its imports.

They are forks of a process of this session that has made the imports; tests/fork_server.py says what that
means. What must be shown with a new interpreter is started with `subprocess` instead.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, TextIO

from tests.fork_server import Order

PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
ROOT = Path(__file__).parents[1]
_NUMBER = 16

Stream = int | IO[bytes] | IO[str]


class Program:
    """What the tests need of `subprocess.Popen`; the first argument is the module, pipes carry text.

    Without `cwd` it runs in the project's folder.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
        stdin: Stream = DEVNULL,
        stdout: Stream = PIPE,
        stderr: Stream = PIPE,
        start_new_session: bool = False,
    ) -> None:
        self.arguments = list(arguments)
        self.returncode: int | None = None
        self._pipes: list[TextIO] = []
        given = [self._given(stdin), self._given(stdout)]
        given.append(os.dup(given[1]) if stderr == STDOUT else self._given(stderr))
        self._end, told = os.pipe()
        module, *rest = arguments
        order = Order(module, rest, str(cwd), dict(env), start_new_session)
        self.pid = _server().fork(order, [*given, told])
        self.stdout = self._pipes[0] if stdout == PIPE else None
        self.stderr = self._pipes[-1] if stderr == PIPE else None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What came on its pipes, once it has ended; one that takes too long is killed."""
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(_read, pipe) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return texts[0].result(), texts[1].result()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _given(self, stream: Stream) -> int:
        """The program's end of a stream."""
        if stream == DEVNULL:
            return os.open(os.devnull, os.O_RDWR)
        if stream != PIPE:
            return os.dup(stream if isinstance(stream, int) else stream.fileno())
        ours, theirs = os.pipe()
        self._pipes.append(os.fdopen(ours, encoding="utf-8"))
        return theirs

    def _look(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._end], [], [], timeout)[0]:
                self.returncode = int(os.read(self._end, _NUMBER))
                os.close(self._end)
            return self.returncode


def run(
    arguments: Sequence[str],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] = os.environ,
    stdout: Stream = PIPE,
    stderr: Stream = PIPE,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """A program, run to its end, as `subprocess.run` does."""
    program = Program(arguments, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
    out, error = program.communicate(timeout)
    return subprocess.CompletedProcess(arguments, program.wait(), out, error)


class _Server:
    """The process that forks; it ends when this one does."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def fork(self, order: Order, files: list[int]) -> int:
        """The id of a new process that has these three files, and tells its end to the fourth."""
        with self._lock:
            socket.send_fds(self._control, [json.dumps(order._asdict()).encode()], files)
            for file in files:
                os.close(file)
            return int(self._control.recv(_NUMBER))


@cache
def _server() -> _Server:
    return _Server()


def _read(pipe: TextIO | None) -> str:
    if pipe is None or pipe.closed:
        return ""
    with pipe:
        return pipe.read()
