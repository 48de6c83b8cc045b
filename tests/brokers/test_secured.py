"""A broker whose connections are encrypted: the certificate is checked, and messages go through as ever."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from redrive.core.errors import StoreError, StoreUnavailable
from tests.brokers.apps import RabbitBroker, working
from tests.brokers.server import RabbitServer
from tests.waiting import wait_until


@pytest.fixture
async def secured(rabbitmq: RabbitServer, broker_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """The address of an empty virtual host behind TLS; `authority.pem` in the folder is its authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with _unwrapping(context, rabbitmq.port) as port:
        yield broker_url.replace("amqp://", "amqps://").replace(f":{rabbitmq.port}/", f":{port}/")


async def test_messages_go_through_an_encrypted_connection(secured: str, tmp_path: Path) -> None:
    app, seen = RabbitBroker(f"{secured}?cafile={tmp_path}/authority.pem", tmp_path).make_app(), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen.append(payload["n"])

    async with working(app):
        for n in range(20):
            await app.submit("q.one", {"n": n, "text": "x" * 30_000})
        await wait_until(lambda: len(seen) == 20, 20, "all were relayed and handled")
    assert sorted(seen) == list(range(20))


async def test_a_certificate_that_nobody_vouches_for_is_refused(secured: str, tmp_path: Path) -> None:
    async with RabbitBroker(secured, tmp_path).make_app() as app:
        with pytest.raises(StoreError, match="cafile") as refusal:
            await app.store.carrier.open()  # type: ignore[attr-defined]
    assert not isinstance(refusal.value, StoreUnavailable)


@asynccontextmanager
async def _unwrapping(context: ssl.SSLContext, port: int) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
