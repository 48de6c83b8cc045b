"""`redrive worker --processes N`: both ends of it, the parent that watches and what each child tells it.

A child is the same command line with a line to its parent (`machine/channel.py`). The parent opens no store:
what it answers about the work, it asks its children for. It answers on the one port that the settings name,
for all of them; what was counted of the work is in the store anyway, whichever process did it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rich.text import Text

from redrive.app import Redrive
from redrive.cli.counts import WorkResult
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.config import Settings
from redrive.engine.process import stop_on_signals
from redrive.machine.channel import Channel, Words
from redrive.machine.children import Children, ChildrenFailed
from redrive.office.metrics import process_use, scrape, write_process
from redrive.telemetry.events import Event, WorkerStarted
from redrive.telemetry.metrics import Scrape
from redrive.telemetry.port import answering

FLAG = "--processes"


async def run_processes(arguments: Sequence[str], count: int, settings: Settings, output: Output) -> None:
    """Run a command line in `count` processes until a signal comes; CommandError when they cannot run."""
    command = [sys.executable, "-m", "redrive", *without_flag(arguments)]
    family = Family(Children(command, count, settings.worker.drain_s + settings.worker.lease_s), count)
    async with answering(settings.metrics, family.scrape, family.ready):
        with stop_on_signals(family.children.stop, again=family.interrupt):
            try:
                await family.children.run()
            except ChildrenFailed as error:
                raise CommandError(str(error), _exit(error.code)) from error
    if family.interrupted:
        raise CommandError("the processes were killed before they had drained", Exit.INTERRUPTED)
    result = family.result()
    document = {**result.document(), "processes": count, "restarts": family.children.restarts}
    output.answer(document, lambda: Text(result.counts.text()))


def without_flag(arguments: Sequence[str]) -> list[str]:
    """The command line of a child: --processes and its number are left out."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument == FLAG:
            next(rest, None)
        elif not argument.startswith(f"{FLAG}="):
            kept.append(argument)
    return kept


def _exit(code: int) -> Exit:
    return Exit(code) if code in set(Exit) else Exit.FAILED


class Family:
    """The children as those who look from outside see them: as one worker."""

    def __init__(self, children: Children, count: int) -> None:
        self.children = children
        self.interrupted = False
        self._count = count

    def interrupt(self) -> None:
        """End them at once: somebody did not want to wait for the drain."""
        self.interrupted = True
        self.children.kill()

    def result(self) -> WorkResult:
        """What they came to together, as far as they could still say."""
        result = WorkResult()
        for report in self.children.reports:
            result.add(report)
        return result

    async def ready(self) -> bool:
        """Whether every one of them is up and reaches the store."""
        states = await self.children.ask("state")
        return len(states) == self._count and all(state["ready"] for state in states)

    async def scrape(self) -> str:
        """The figures of the store by one of them, and those of the processes by all."""
        states, shared = await self.children.ask("state"), await self.children.ask_any("metrics")
        made = Scrape()
        made.add("worker_processes", len(states))
        made.add("worker_processes_wanted", self._count)
        made.add("worker_process_restarts_total", self.children.restarts)
        write_process(made, *(sum(state[each] for state in states) for each in ("cpu_s", "peak_bytes")))
        return ("" if shared is None else str(shared["text"])) + made.text()


class ToParent:
    """A child's end of the line; `descriptor` is the number of the socket that it inherited."""

    def __init__(self, descriptor: int) -> None:
        self._end = socket.socket(fileno=descriptor)
        self._end.set_inheritable(False)
        self._channel: Channel | None = None

    @asynccontextmanager
    async def connected(self, apps: Sequence[Redrive], gone: Callable[[], None]) -> AsyncIterator[None]:
        """Tell when all apps have started, and answer, while inside; `gone` is called when the parent is."""
        channel = self._channel = await Channel.open(self._end)
        started = []

        def see(event: Event) -> None:
            if isinstance(event, WorkerStarted):
                started.append(event.worker)
                if len(started) == len(apps):
                    channel.tell({"up": True, "stop_s": max(map(_stop_s, apps))})

        for app in apps:
            app.telemetry.add(see)
        listening = asyncio.create_task(self._listen(channel, apps, gone))
        try:
            yield
        finally:
            await channel.close()
            listening.cancel()

    def report(self, document: dict[str, Any]) -> None:
        """The last word: what this process came to."""
        if self._channel is not None:
            self._channel.tell({"report": document})

    @staticmethod
    async def _listen(channel: Channel, apps: Sequence[Redrive], gone: Callable[[], None]) -> None:
        async def state() -> Words:
            cpu_s, peak_bytes = process_use()
            return {"ready": all(app.ready for app in apps), "cpu_s": cpu_s, "peak_bytes": peak_bytes}

        async def metrics() -> Words:
            return {"text": (await scrape(apps[0].store)).text()}

        await channel.listen(lambda words: None, {"state": state, "metrics": metrics})
        gone()


def _stop_s(app: Redrive) -> float:
    """How long it may take to end: what is settled after a lease's length is refused anyway."""
    return app.settings.worker.drain_s + app.settings.worker.lease_s
