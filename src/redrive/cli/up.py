"""`redrive up`: the example app with traffic, and a live page of what happens to it.

Off a terminal it prints one line an event. It serves only the example's own queues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from rich.console import Group
from rich.live import Live
from rich.text import Text

from redrive.app import Redrive
from redrive.cli.live import Snapshot, hints, look, page
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags
from redrive.cli.status import store_line
from redrive.cli.story import Counts, Sentence, Story
from redrive.cli.times import duration, time_of_day
from redrive.config import Settings
from redrive.core.ports import Description
from redrive.engine.signals import stop_on_signals
from redrive.example import EMAILS, ORDERS, label, make_app, send_traffic

_REFRESH_S = 0.25
_IDLE_CHECK_S = 0.2
_QUEUES = (ORDERS, EMAILS)


async def up(*, seconds: float | None = None, messages: int | None = None, flags: Flags = NO_FLAGS) -> None:
    """Run an example with traffic of three tenants, and watch it live.

    Parameters
    ----------
    seconds
        End by itself after so long.
    messages
        Send so many orders, and end when all of them have.
    """
    for flag, value in (("--seconds", seconds), ("--messages", messages)):
        if value is not None and value <= 0:
            raise CommandError(f"{flag} is {value:g}: more than 0", Exit.USAGE)
    app = make_app(_settings(flags))
    output, counts = Output(flags.json), Counts()
    story = Story(label, _teller(app, output))
    _mute_logs()
    app.telemetry.add(counts.see)
    app.telemetry.add(story.see)
    began_s = time.monotonic()
    async with app:
        described = await app.store.describe()
        watch = _live if output.console.is_terminal and not flags.json else _wait
        if watch is _wait:
            output.note(store_line(described).plain)
        await _run(app, messages, seconds, lambda: watch(app, output, described, story, counts))
        last = await look(app.store, _QUEUES)
    ran_ms = round(1000 * (time.monotonic() - began_s))
    document = {"store": described.url, "durability": described.durability.value, **counts.document()}
    output.answer(
        document | {"waiting": last.waiting}, lambda: _summary(counts, last, ran_ms, story.last_dead)
    )


def _settings(flags: Flags) -> Settings:
    """Retries are quick unless somebody chose a profile."""
    settings = flags.settings()
    if settings.origins.get("profile") == "default":
        return flags.settings(profile="development")
    return settings


def _mute_logs() -> None:
    """The page tells what the log lines would."""
    logger = logging.getLogger("redrive")
    logger.handlers[:] = [logging.NullHandler()]
    logger.propagate = False


def _teller(app: Redrive, output: Output) -> Callable[[Sentence], None]:
    """Off a terminal each event is a line; on one the page shows it."""

    def tell(sentence: Sentence) -> None:
        output.console.print(Text(f"{time_of_day(app.store.now())} {sentence.text}"), soft_wrap=True)

    return (lambda sentence: None) if output.as_json or output.console.is_terminal else tell


async def _run(
    app: Redrive, messages: int | None, seconds: float | None, watch: Callable[[], Awaitable[None]]
) -> None:
    """Work, send and watch until asked to stop, the time is over, or all has ended."""
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        tasks = [
            asyncio.ensure_future(work)
            for work in (stop.wait(), _send(app, messages), watch(), app.run(signals=False))
        ]
        ended, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in ended:
        task.result()


async def _send(app: Redrive, messages: int | None) -> None:
    await send_traffic(app, messages)
    while (await look(app.store, _QUEUES)).waiting:  # noqa: ASYNC110 - the store signals no end
        await asyncio.sleep(_IDLE_CHECK_S)


async def _live(app: Redrive, output: Output, described: Description, story: Story, counts: Counts) -> None:
    with Live(console=output.console, screen=True, auto_refresh=False) as live:
        while True:
            snapshot = await look(app.store, _QUEUES)
            live.update(page(output, described, snapshot, story, counts), refresh=True)
            await asyncio.sleep(_REFRESH_S)


async def _wait(*_: object) -> None:
    await asyncio.Event().wait()


def _summary(counts: Counts, last: Snapshot, ran_ms: int, last_dead: str | None) -> Group:
    waiting = f"; {last.waiting:,} still wait for the next worker" if last.waiting else ""
    return Group(Text(f"In {duration(ran_ms)}: {counts.text()}{waiting}."), *hints(last_dead))
