"""An HTTP endpoint on loopback that takes what Slack, PagerDuty or a webhook would, or refuses it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class Endpoint:
    """What it received; it answers with `answer`, a status line and headers."""

    port: int = 0
    answer: str = "200 OK"
    received: list[Received] = field(default_factory=list)
    silent: bool = False

    @property
    def documents(self) -> list[Any]:
        return [one.document for one in self.received]

    async def serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await self._read(reader):
                self.received.append(request)
                if self.silent:
                    return
                writer.write(f"HTTP/1.1 {self.answer}\r\nContent-Length: 2\r\n\r\nok".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Received | None:
        line = await reader.readline()
        if not line:
            return None
        headers: dict[str, str] = {}
        while (text := (await reader.readline()).decode().strip()) != "":
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Received(line.split(b" ")[1].decode(), headers, body)


@asynccontextmanager
async def endpoint(context: ssl.SSLContext | None = None) -> AsyncIterator[Endpoint]:
    """An endpoint on a free port."""
    made = Endpoint()
    server = await asyncio.start_server(made.serve_one, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
