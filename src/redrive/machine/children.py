"""Processes that do the same work beside one another, and the parent that starts, watches and ends them.

The parent does none of the work and holds nothing that it needs, so nothing is lost with it: its children
notice, and end by themselves. A child that dies is started again after a pause that grows; when one dies
soon after its start again and again, or the first cannot start at all, the parent gives up.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass

from redrive.machine.channel import Channel, Words
from redrive.machine.supervisor import say_ready, say_stopping

CHANNEL_FLAG = "--parent-channel"
"""What a child is told the number of its end of the line with."""

STEADY_S = 30.0
"""A child that lived for so long did not die of its start."""

TRIES = 10
FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
_LAST_WORDS_S = 1.0
_FAILED = 1
_log = logging.getLogger("redrive")


class ChildrenFailed(Exception):
    """The parent gave up; `code` is what the process ended with that it gave up for."""

    def __init__(self, message: str, code: int) -> None:
        self.code = code
        super().__init__(message)


@dataclass(slots=True)
class Patience:
    """How often a child has died soon after its start, in a row."""

    quick: int = 0

    def died(self, lived_s: float) -> float | None:
        """How long to wait until it is started again; None when that is no use."""
        self.quick = 1 if lived_s >= STEADY_S else self.quick + 1
        if self.quick >= TRIES:
            return None
        return min(_LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self.quick - 1))


@dataclass(eq=False, slots=True)
class Child:
    """One process, from its start to its end."""

    process: Process
    channel: Channel
    up: bool = False
    report: Words | None = None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.process.returncode is None:
            self.process.send_signal(number)


class Children:
    """`count` processes of one command, each with a session of its own, so that Ctrl-C comes through here.

    When asked to end they get `stop_s`, or what they themselves said that they may take, and are then killed.
    """

    def __init__(self, command: Sequence[str], count: int, stop_s: float) -> None:
        self._command = tuple(command)
        self._count = count
        self._stop_s = stop_s
        self._stopping = asyncio.Event()
        self._running: dict[int, Child] = {}
        self._any_up = self._all_up = self._killed = False
        self._failure: ChildrenFailed | None = None
        self.reports: list[Words] = []
        """What children said at their end."""
        self.restarts = 0

    @property
    def up(self) -> int:
        """How many say that they are up."""
        return sum(child.up for child in self._running.values())

    async def run(self) -> None:
        """Keep them running until `stop`, and then until they have ended; ChildrenFailed otherwise."""
        async with asyncio.TaskGroup() as group:
            kept = [group.create_task(self._keep(number)) for number in range(1, self._count + 1)]
            await self._stopping.wait()
            _, late = await asyncio.wait(kept, timeout=self._stop_s)
            if late:
                self._fail(
                    f"{len(late)} of {self._count} processes had not ended {self._stop_s:g} s after they "
                    "were asked to, and were killed: what they held runs again when its lease has lapsed",
                    _FAILED,
                )
                self.kill()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ask every child to end gracefully; `run` returns after it."""
        say_stopping(f"{self._count} processes have {self._stop_s:g} s to finish")
        self._stopping.set()
        for child in self._running.values():
            child.send(signal.SIGTERM)

    def kill(self) -> None:
        """End every child at once."""
        self._killed = True
        self._stopping.set()
        for child in self._running.values():
            child.send(signal.SIGKILL)

    async def ask(self, what: str) -> list[Words]:
        """What each child that is up answers; those that do not answer are missing."""
        asked = [child.channel.ask(what) for child in self._running.values() if child.up]
        return [words for words in await asyncio.gather(*asked) if words is not None]

    async def ask_any(self, what: str) -> Words | None:
        """What the first child answers that does."""
        for child in list(self._running.values()):
            if child.up and (words := await child.channel.ask(what)) is not None:
                return words
        return None

    async def _keep(self, number: int) -> None:
        patience = Patience()
        while not self._stopping.is_set():
            began_s = time.monotonic()
            code = await self._run_one(number)
            pause_s = patience.died(time.monotonic() - began_s)
            if self._stopping.is_set():
                self._ended(number, code)
            elif pause_s is None or (code > 0 and not self._any_up):
                self._give_up(number, code, patience.quick)
            else:
                await self._pause(number, code, pause_s)

    async def _run_one(self, number: int) -> int:
        """Start one and hear what it tells until it has ended; its exit code, negative for a signal."""
        try:
            child = await self._start()
        except OSError as error:
            _log.error("process %d of %d cannot be started: %s", number, self._count, error.strerror)
            return _FAILED
        self._running[number] = child
        if self._stopping.is_set():
            child.send(signal.SIGTERM)
        listening = asyncio.create_task(self._listen(child))
        try:
            code = await child.process.wait()
            await asyncio.wait([listening], timeout=_LAST_WORDS_S)
        finally:
            listening.cancel()
            child.send(signal.SIGKILL)
            del self._running[number]
            await child.channel.close()
        if child.report is not None:
            self.reports.append(child.report)
        return code

    async def _start(self) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                f"{CHANNEL_FLAG}={theirs.fileno()}",
                stdin=DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return Child(process, await Channel.open(ours))

    async def _listen(self, child: Child) -> None:
        def told(words: Words) -> None:
            child.up = child.up or words.get("up", False)
            child.report = words.get("report", child.report)
            self._stop_s = max(self._stop_s, words.get("stop_s", 0.0))
            self._tell_up(child.up)

        await child.channel.listen(told, {})
        child.up = False

    def _tell_up(self, up: bool) -> None:
        self._any_up = self._any_up or up
        if not self._all_up and self.up == self._count:
            self._all_up = True
            _log.info("all %d processes are up", self._count)
            say_ready(f"{self._count} processes are up")

    def _ended(self, number: int, code: int) -> None:
        """After it was asked to; one that had not yet begun to work ends by the signal itself."""
        if code not in (0, -signal.SIGTERM) and not self._killed:
            self._fail(f"process {number} of {self._count} ended {_how(code)} while it was stopping", code)

    def _give_up(self, number: int, code: int, quick: int) -> None:
        often = f" {quick} times in a row soon after its start, last" if quick > 1 else " at its start"
        self._fail(
            f"process {number} of {self._count} ended{often} {_how(code)}: what it logged says why; fix "
            "it, then start again",
            code,
        )
        self.stop()

    def _fail(self, message: str, code: int) -> None:
        self._failure = self._failure or ChildrenFailed(message, code)

    async def _pause(self, number: int, code: int, pause_s: float) -> None:
        self.restarts += 1
        text = "process %d of %d ended %s, and is started again in %g s"
        _log.warning(text, number, self._count, _how(code), pause_s)
        try:
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        except TimeoutError:
            return


def _how(code: int) -> str:
    return f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
