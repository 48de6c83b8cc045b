"""`redrive worker`: run the handlers of apps, the mail gateway, or both, until SIGTERM or Ctrl-C.

With --processes this process only starts and watches others (`processes.py`), with --reload one
(`reload.py`); each of them is this command again. Several apps are several workers in one process: each has
its own limits.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from redrive.cli.counts import ManagerSink, WorkResult
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.processes import ToParent, run_processes
from redrive.cli.reload import run_reloading
from redrive.cli.render.store import store_line
from redrive.cli.session import NO_FLAGS, Flags
from redrive.cli.target import Work, make_work
from redrive.core.settings import MetricsSettings
from redrive.engine.process import stop_on_signals
from redrive.machine import loops
from redrive.telemetry.log_format import configure_logs
from redrive.wiring import unsafe_flags


def worker(
    *apps: str,
    mail: bool = False,
    queue: tuple[str, ...] = (),
    processes: int = 1,
    reload: bool = False,
    concurrency: int | None = None,
    allow_unsafe: bool = False,
    fail_fast: bool = False,
    log_level: str | None = None,
    log_format: str | None = None,
    parent_channel: Annotated[int | None, Parameter(show=False)] = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Run an app's handlers, such as shop:app for `app` in shop.py, or the mail gateway.

    Parameters
    ----------
    apps
        module:attribute, looked for in the working folder first; several share the process and the store.
    mail
        Send the mails of email:send through the relay that the setting `mail` names.
    queue
        Serve only this queue; can be repeated.
    processes
        How many processes do this work; one that dies is started again.
    reload
        Start again when code below the working folder changes; for development.
    concurrency
        How many handlers may run at once in each process.
    allow_unsafe
        Also use a Redis server that evicts, or keeps its data in memory only: messages may be lost.
    fail_fast
        End with exit code 5 when the store does not answer at the start, instead of waiting for it.
    log_level
        debug, info, warning or error.
    log_format
        json, text or auto.
    """
    _refuse(apps, mail=mail, processes=processes, reload=reload)
    more = {
        "worker.concurrency": concurrency,
        **unsafe_flags(allowed=allow_unsafe),
        "logs.level": log_level,
        "logs.format": log_format,
    }
    early = "json" if flags.json else log_format
    configure_logs("info", early if early in ("json", "text") else "auto")
    if reload:
        asyncio.run(run_reloading(sys.argv[1:]))
        return
    if processes > 1:
        settings = flags.settings(**more)
        output = _output(settings.logs.level, settings.logs.format, flags)
        asyncio.run(run_processes(sys.argv[1:], processes, settings, output))
        return
    work = make_work(apps, queue, mail=mail, flags=flags, more=more)
    settings = work[0].app.settings
    output = _output(settings.logs.level, settings.logs.format, flags)
    parent = None if parent_channel is None else ToParent(parent_channel)
    loops.run(_work(work, output, parent, fail_fast=fail_fast), uvloop=settings.worker.uvloop)


def _refuse(apps: Sequence[str], *, mail: bool, processes: int, reload: bool) -> None:
    if not apps and not mail:
        raise CommandError("say what to run: module:app, or --mail for the mail gateway", Exit.USAGE)
    if processes < 1:
        raise CommandError(f"--processes {processes}: write 1 or more", Exit.USAGE)
    if reload and processes > 1:
        raise CommandError("--reload is for development, with one process: leave --processes out", Exit.USAGE)


def _output(level: str, style: str, flags: Flags) -> Output:
    chosen = "json" if flags.json else style
    configure_logs(level, chosen)
    return Output(chosen == "json" or (chosen == "auto" and not sys.stdout.isatty()))


async def _work(work: Sequence[Work], output: Output, parent: ToParent | None, *, fail_fast: bool) -> None:
    apps, result, runs = [one.app for one in work], WorkResult(), list[asyncio.Task[None]]()
    for app in apps[1:] if parent is None else apps:
        app.configure(replace(app.settings, metrics=MetricsSettings()))
    manager = ManagerSink(len(apps))
    for app in apps:
        app.telemetry.add(result.see)
        if parent is None:
            app.telemetry.add(manager.see)

    def stop() -> None:
        for run in runs:
            run.cancel()

    async with AsyncExitStack() as stack:
        if parent is not None:
            await stack.enter_async_context(parent.connected(apps, gone=stop))
        with stop_on_signals(stop):
            noted = output.notes if parent is None and not output.as_json else None
            runs += [asyncio.create_task(_run(one, noted, fail_fast=fail_fast)) for one in work]
            await _end_together(runs)
        if parent is None:
            output.answer(result.document(), lambda: Text(result.counts.text()))
        else:
            parent.report(result.document())


async def _run(one: Work, noted: Console | None, *, fail_fast: bool) -> None:
    """One app's worker, until it is cancelled; it drains first."""
    async with one.app.opened(fail_fast=fail_fast):
        if noted is not None and noted.is_terminal:
            noted.print(store_line(await one.app.store.describe()), soft_wrap=True)
        await one.app.run(queues=one.queues, signals=False, fail_fast=fail_fast)


async def _end_together(runs: Sequence[asyncio.Task[None]]) -> None:
    """Wait until all have ended; when one fails, the others end too."""
    await asyncio.wait(runs, return_when=asyncio.FIRST_EXCEPTION)
    for run in runs:
        run.cancel()
    for ended in await asyncio.gather(*runs, return_exceptions=True):
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            raise ended
