"""A virtual host for each test, on the one broker of the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from tests.brokers.apps import RabbitBroker
from tests.brokers.server import RabbitServer

_numbers = count(1)


@pytest.fixture(autouse=True)
def first_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody kills the broker of the session: its new queues need no time to outlive that."""
    monkeypatch.setattr("redrive.brokers.rabbitmq.declare.FIRST_SECOND_S", 0.1)


@pytest.fixture
def broker_url(rabbitmq: RabbitServer) -> str:
    """The address of an empty virtual host."""
    return rabbitmq.virtual_host(f"test-{next(_numbers)}")


@pytest.fixture
async def broker(broker_url: str, tmp_path: Path) -> AsyncIterator[RabbitBroker]:
    """An empty broker; most tests know no more of it than tests.brokers.apps.Broker says."""
    made = RabbitBroker(broker_url, tmp_path)
    yield made
    await made.close()
