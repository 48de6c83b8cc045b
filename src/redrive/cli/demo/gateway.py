"""The whole gateway in one process: mailbox simulator, store, HTTP API and worker, for `up` and `demo`.

The simulator stands in for the relay unless the settings name one. While it does, the store is a playground
and shares `email:send` with no other worker: mails meant for a relay would end in the simulator, as sent.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from redrive.app import Redrive
from redrive.cli.mailbox import listening_mailbox, mailbox_folder
from redrive.cli.problems import CommandError, Exit
from redrive.cli.serve import check_server, listening
from redrive.cli.session import Flags
from redrive.config import Settings
from redrive.core.condition import Description
from redrive.mail.stored import QUEUE
from redrive.mailbox import Mailbox
from redrive.office.playground import may_play
from redrive.office.queues import LiveWorker, live_workers
from redrive.telemetry.events import Sink
from redrive.web.listen import ServerSettings

_LOCAL = ServerSettings()


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that runs; `working` ends only when its worker does."""

    app: Redrive
    url: str
    mailbox: Mailbox | None
    described: Description
    working: asyncio.Task[None]

    @property
    def relay(self) -> str:
        """Where mails go, fit to be shown."""
        return self.mailbox.url if self.mailbox else str(self.app.settings.values()["mail"])


def check_seconds(seconds: float | None) -> None:
    """How long to run: a length that ends, or None."""
    if seconds is not None and not 0 < seconds < math.inf:
        raise CommandError(f"--seconds is {seconds:g}: more than 0", Exit.USAGE)


def quick_settings(flags: Flags, **more: object) -> Settings:
    """Retries are quick unless somebody chose a profile."""
    settings = flags.settings(**more)
    if settings.origins.get("profile") == "default":
        return flags.settings(**more, profile="development")
    return settings


@asynccontextmanager
async def running(
    settings: Settings, *, mailbox_port: int, sinks: tuple[Sink, ...] = ()
) -> AsyncIterator[RunningGateway]:
    """Run everything while inside; end gracefully, what was taken last first."""
    check_server(settings.listen, _LOCAL)
    async with AsyncExitStack() as stack:
        mailbox = None
        if not settings.names_relay:
            await _refuse_real_mail(settings)
            made = Mailbox(port=mailbox_port, folder=mailbox_folder(settings))
            mailbox = await stack.enter_async_context(listening_mailbox(made, "--mailbox-port"))
            settings = replace(settings, mail=mailbox.url)
        app = Redrive(settings=settings)
        for sink in sinks:
            app.telemetry.add(sink)
        app.serve_mail()
        await stack.enter_async_context(app)
        url = await stack.enter_async_context(listening(app, _LOCAL))
        working = await stack.enter_async_context(_working(app))
        yield RunningGateway(app, url, mailbox, await app.store.describe(), working)


@asynccontextmanager
async def _working(app: Redrive) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(app.run(signals=False))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _refuse_real_mail(settings: Settings) -> None:
    """FAILED where a mail in the store may be meant for somebody, or another worker would send ours."""
    async with Redrive(settings=settings) as app:
        workers = await live_workers(app.store)
        _refuse_company(workers)
        if not await may_play(app.store):
            place = (await app.store.describe()).url
            raise CommandError(
                f"the store {place} was not begun by redrive up: its mails would end in the simulator, "
                "marked as sent. Begin a new one with --store sqlite:///playground.db, or name the relay "
                "that these mails are for in REDRIVE_MAIL",
                Exit.FAILED,
            )


def _refuse_company(workers: list[LiveWorker]) -> None:
    for worker in workers:
        if QUEUE in worker.queues and _lives(worker):
            raise CommandError(
                f"process {worker.pid} on {worker.host} already sends the mails of this store, and would "
                "share them with the simulator: stop it, choose another folder with --data, or send "
                "through it with redrive demo --url",
                Exit.FAILED,
            )


def _lives(worker: LiveWorker) -> bool:
    """A worker that was killed is announced for some seconds more; here we can see that it is gone."""
    if worker.host != socket.gethostname():
        return True
    try:
        os.kill(worker.pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
