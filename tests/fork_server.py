"""A process that has imported the product, and forks for every program that a test starts.

A fork begins where a new interpreter stands after half a second of imports. From there it is a process like
any other, with an id, memory, files, signals and an end of its own; it runs the module as `python -m` does.
It never opens a store itself: what is forked must be as good as new. Known weakness: variables that the
interpreter reads at its start, such as PYTHONPATH, are those of the server.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
from typing import Any, NamedTuple

LARGEST = 128 * 1024
STREAMS = 3

ROOMS = ("cli", "office", "stores", "telemetry", "web")
LAZY = (
    "redrive.brokers.carried",
    "redrive.mailbox",
    "pydantic.dataclasses",
    "tests.faults.submitter",
    "uvloop",
)
"""What is imported beforehand: these rooms, and what commands import when they run."""


class Order(NamedTuple):
    """What a fork has to become; `session`: it leads a session of its own."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    session: bool


def main(control: socket.socket) -> None:
    """Serve; in a fork, run what was ordered and end as the interpreter ends."""
    _import()
    order = _serve(control)
    if order is not None:
        _become(order)
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)


def _import() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"redrive.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    for name in LAZY:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket) -> Order | None:
    """What to run, in a fork; None once the tests have ended."""
    ends: dict[int, int] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _tell_ends(ends))
    while True:
        text, files, *_ = socket.recv_fds(control, LARGEST, STREAMS + 1)
        if not text:
            return None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            control.close()
            _take(files, [*ends.values()])
            return Order(**json.loads(text))
        ends[pid] = files.pop()
        for file in files:
            os.close(file)
        control.send(b"%d" % pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _tell_ends(ends: dict[int, int]) -> None:
    """Tell whoever waits for a fork how it ended."""
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        end = ends.pop(pid)
        os.write(end, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(end)


def _take(files: list[int], others: list[int]) -> None:
    """In a fork: its three streams are the only files it has."""
    for number in range(STREAMS):
        os.dup2(files[number], number)
    for file in (*files, *others):
        os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _become(order: Order) -> None:
    """What a new interpreter finds: its session, folder, variables, arguments and streams."""
    if order.session:
        os.setsid()
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    sys.argv[1:] = order.arguments
    sys.path[0] = order.folder
    sys.stdin = sys.__stdin__ = _stream(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", errors="backslashreplace", buffering=1)  # type: ignore[misc]


def _stream(number: int, mode: str, **options: Any) -> Any:
    return open(number, mode, encoding="utf-8", closefd=False, **options)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
