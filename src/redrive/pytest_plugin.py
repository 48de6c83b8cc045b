"""Fixtures for users' own tests, found by pytest through an entry point.

None of them is async, so they work beside any asyncio plugin: the app is opened by the test
(`async with redrive_app:`), and the mailbox runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from redrive.app import Redrive
from redrive.core.letters import DeadLetter
from redrive.mailbox import Mailbox
from redrive.testing import Clock
from redrive.testing import dead_letters as read_dead_letters
from redrive.wiring import load


@pytest.fixture
def redrive_app(tmp_path: Path) -> Redrive:
    """An app on a SQLite file of its own, whatever the environment says; open it with `async with`."""
    return Redrive(settings=load({"store": f"sqlite:///{tmp_path}/redrive.db"}, environ={}, folder=tmp_path))


@pytest.fixture
def redrive_clock(redrive_app: Redrive) -> Clock:
    """Moves the time that the open app's store sees."""
    return Clock(redrive_app)


@pytest.fixture
def dead_letters(redrive_app: Redrive) -> Callable[[], Awaitable[list[DeadLetter]]]:
    """`await dead_letters()`: the app's dead letters, oldest first."""
    return lambda: read_dead_letters(redrive_app)


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """A running mailbox simulator: `mailbox.url`, `mailbox.received`, `mailbox.find(to=…)`."""
    running = Mailbox()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(running.open())
    thread = threading.Thread(target=loop.run_forever, name="redrive-mailbox", daemon=True)
    thread.start()
    yield running
    asyncio.run_coroutine_threadsafe(running.close(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
