"""`redrive top`: the overview as a screen that is drawn again every two seconds, until q or Ctrl-C.

It reads as `redrive status` does and changes nothing. A store that does not answer is said on the screen and
asked again; one that answers slowly is asked less often.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.live import Live
from rich.text import Text

from redrive.cli.output import Output, mute_logs
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.overview import screen
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.errors import RedriveError
from redrive.engine.process import stop_on_signals
from redrive.office.throughput import ThroughputMeter

_EVERY_S = 2.0
_TIMES_AS_LONG = 4.0
_PATIENCE_S = 10.0


async def top(*, flags: Flags = NO_FLAGS) -> None:
    """Watch the store live: what flows, who waits, what fails, what is under way; q quits."""
    output = Output(flags.json)
    if not output.is_terminal or not sys.stdin.isatty():
        raise CommandError(
            "top draws on a terminal, and this is none: redrive status shows the same once, with --json "
            "as a document",
            Exit.USAGE,
        )
    mute_logs()
    async with session(flags) as current:
        stop = asyncio.Event()
        with stop_on_signals(stop.set), _typed("q", stop.set):
            await _watch(current, stop)


async def _watch(current: Session, stop: asyncio.Event) -> None:
    overview, meter = current.office.overview, ThroughputMeter()
    seen = (await overview.show()).found
    speed, problem, took_s = meter.measure(seen), None, 0.0
    with Live(Text(), console=current.output.console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(current.output, seen, speed, problem), refresh=True)
            if await _stopped(stop, max(_EVERY_S, _TIMES_AS_LONG * took_s)):
                return
            began_s = time.monotonic()
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    seen = (await overview.show()).found
                speed, problem = meter.measure(seen), None
            except TimeoutError:
                problem = "the store does not answer"
            except RedriveError as error:
                problem = str(error)
            took_s = time.monotonic() - began_s


async def _stopped(stop: asyncio.Event, pause_s: float) -> bool:
    """Whether it was asked to end, while nothing was to do."""
    with suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await stop.wait()
    return stop.is_set()


@contextmanager
def _typed(letter: str, call: Callable[[], None]) -> Iterator[None]:
    """Call when a letter is typed, or the terminal is gone, while inside."""
    import termios
    import tty

    keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(keyboard)

    def read() -> None:
        try:
            typed = os.read(keyboard, 1_024).decode(errors="replace").lower()
        except OSError:
            typed = ""
        if not typed:
            loop.remove_reader(keyboard)
        if letter in typed or not typed:
            call()

    tty.setcbreak(keyboard, termios.TCSADRAIN)
    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        with suppress(termios.error):
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
