"""`redrive worker --reload`, for development: the same worker in a process of its own, which is started again
when code changes.

It is ended as any other: it drains first. It has a session of its own, so that Ctrl-C reaches it once,
through here. Known weakness: when this process is killed, the worker goes on.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from pathlib import Path

from redrive.core.errors import MissingExtra
from redrive.engine.process import stop_on_signals

FLAG = "--reload"
_log = logging.getLogger("redrive")


async def run_reloading(arguments: Sequence[str]) -> None:
    """Run a command line without its --reload until a signal comes; each change of code starts it again."""
    try:
        from watchfiles import PythonFilter, awatch
    except ModuleNotFoundError as error:
        raise MissingExtra("--reload", "reload") from error
    command = [sys.executable, "-m", "redrive", *(one for one in arguments if one != FLAG)]
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        worker = await _start(command)
        try:
            chosen = PythonFilter(extra_extensions=(".toml",))
            async for changes in awatch(Path.cwd(), watch_filter=chosen, stop_event=stop):
                names = ", ".join(sorted({Path(path).name for _, path in changes}))
                _log.info("%s changed: the worker starts again", names)
                await _end(worker)
                worker = await _start(command)
        finally:
            await _end(worker)


async def _start(command: Sequence[str]) -> Process:
    return await asyncio.create_subprocess_exec(*command, start_new_session=True)


async def _end(worker: Process) -> None:
    if worker.returncode is None:
        worker.terminate()
    try:
        await worker.wait()
    finally:
        if worker.returncode is None:
            worker.kill()
