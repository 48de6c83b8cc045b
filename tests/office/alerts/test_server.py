"""Alerts about a real Redis server: its memory, its refusals, and connections that it rejects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from redrive.core.alert_rules import AlertSettings
from redrive.core.store import Store
from redrive.telemetry.events import AlertCleared
from redrive.wiring import load, make_store
from tests.conformance.makers import dead
from tests.office.alerts.desk import Watcher, alerts, rules
from tests.servers import RedisServer, ask, start_redis

WATCHED = rules("store_80", "store_90", "store_refusing", "rejected_connections")


@dataclass
class Place:
    """A server of the test's own, a store on it, and a process that watches."""

    server: RedisServer
    store: Store
    watcher: Watcher

    async def limit(self, share: float) -> None:
        """Set the server's memory limit so that this share of it is used."""
        used = int(ask(self.server.port, "INFO", "memory").split(b"used_memory:")[1].split(b"\r\n")[0])
        ask(self.server.port, "CONFIG", "SET", "maxmemory", str(round(used / share)))

    async def reject(self) -> None:
        """Have the server reject one connection; other connections are taken again afterwards."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as held:
            told = ask(self.server.port, "INFO", "clients")
            clients = int(told.split(b"connected_clients:")[1].split(b"\r\n")[0])
            ask(self.server.port, "CONFIG", "SET", "maxclients", str(clients - 1))
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
            assert b"max number of clients" in await reader.readline()
            writer.close()
            held.sendall(b"CONFIG SET maxclients 1000\r\n")
            assert held.recv(100) == b"+OK\r\n"

    async def firing(self) -> set[str]:
        await self.watcher.look()
        return {one.rule for one in (await alerts(self.store)).values() if one.firing}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    made = start_redis(tmp_path)
    yield made
    made.stop()


@pytest.fixture
async def place(server: RedisServer, tmp_path: Path) -> AsyncIterator[Place]:
    store = make_store(load({"store": server.url}, environ={}, folder=tmp_path))
    await store.open()
    made = Place(server, store, Watcher(store, AlertSettings(rules=WATCHED)))
    await dead(store, 1)
    yield made
    await made.watcher.close()
    await store.close()


async def test_a_server_that_fills_alerts_at_80_and_90_percent_and_when_it_refuses(place: Place) -> None:
    assert await place.firing() == set()
    await place.limit(0.85)
    assert await place.firing() == {"store_80"}
    await place.limit(0.95)
    assert await place.firing() == {"store_80", "store_90", "store_refusing"}
    await place.limit(1.05)
    assert await place.firing() == {"store_80", "store_90", "store_refusing"}
    await place.limit(0.5)
    assert await place.firing() == set()


async def test_connections_that_a_server_rejects_are_an_alert(place: Place) -> None:
    assert await place.firing() == set()
    await place.reject()
    assert await place.firing() == {"rejected_connections"}
    said = (await alerts(place.store))["rejected_connections/"].text
    assert said == "the server rejected 1 connection in the last 10 min"


async def test_rejected_connections_are_not_over_because_another_process_watches(place: Place) -> None:
    await place.firing()
    await place.reject()
    assert await place.firing() == {"rejected_connections"}
    place.watcher, first = Watcher(place.store, AlertSettings(rules=WATCHED)), place.watcher
    await first.close()
    assert await place.firing() == {"rejected_connections"}
    place.store.skew_ms += 599_000
    assert await place.firing() == {"rejected_connections"}
    place.store.skew_ms += 2_000
    assert await place.firing() == set()
    assert [type(one) for one in place.watcher.told] == [AlertCleared]


async def test_rejected_connections_are_not_over_because_the_server_counts_anew(place: Place) -> None:
    await place.firing()
    await place.reject()
    assert await place.firing() == {"rejected_connections"}
    ask(place.server.port, "CONFIG", "RESETSTAT")
    assert await place.firing() == {"rejected_connections"}
    place.store.skew_ms += 700_000
    assert await place.firing() == set()
