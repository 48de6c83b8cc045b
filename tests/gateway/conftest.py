"""A gateway app whose relay is the mailbox simulator, all in the test's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.mailbox import Mailbox
from redrive.wiring import load


@pytest.fixture
async def inbox() -> AsyncIterator[Mailbox]:
    async with Mailbox() as running:
        yield running


def make_gateway(folder: Path, relay: str, **flags: object) -> Redrive:
    given = {"store": f"sqlite:///{folder}/redrive.db", "profile": "development", "mail": relay} | flags
    app = Redrive(settings=load(given, environ={}, folder=folder))
    app.serve_mail()
    return app


@pytest.fixture
async def gateway(tmp_path: Path, inbox: Mailbox) -> AsyncIterator[Redrive]:
    async with make_gateway(tmp_path, inbox.url) as app:
        yield app
