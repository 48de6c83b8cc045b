"""A port of a worker that answers Prometheus, `GET /metrics`, and a probe, `GET /health/ready`; nothing else.

So small that a worker needs no web server for it. It asks for no key, and therefore listens on this machine
alone unless the settings allow more. It never stands in the way of the work: a port that is taken is tried
again, and a scrape that fails is answered with 503.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from redrive.core.errors import ConfigurationError
from redrive.core.settings import MetricsSettings
from redrive.machine.addresses import is_local, parse_address, why_refused, write_address
from redrive.telemetry.metrics import MEDIA_TYPE

PATIENCE_S = 10.0
_HEAD_BYTES = 16 * 1024
_TRIED_AGAIN_S = 5.0
_TAKEN = (
    "the metrics cannot listen on %s: %s; stop what listens there, or choose another address with "
    f"REDRIVE_METRICS (metrics.listen; port 0 is any free one). Tried again every {_TRIED_AGAIN_S:g} s"
)
_log = logging.getLogger("redrive")

Answer = Callable[[], Awaitable[str]]
Ready = Callable[[], Awaitable[bool]]


@asynccontextmanager
async def answering(settings: MetricsSettings, answer: Answer, ready: Ready) -> AsyncIterator[None]:
    """Answer scrapes and probes while inside, where the settings say; ConfigurationError when that cannot be
    meant."""
    if settings.listen is None:
        yield
        return
    port = MetricsPort(*_checked(settings.listen, settings), answer, ready)
    task = asyncio.create_task(port.serve())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _checked(listen: str, settings: MetricsSettings) -> tuple[str, int]:
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise ConfigurationError(f"metrics.listen: {error}") from None
    if not is_local(host) and not settings.allow_remote:
        raise ConfigurationError(
            f"metrics.listen: {host} can be reached from other machines, and no key is asked for: listen on "
            "127.0.0.1, or set metrics.allow_remote"
        )
    return host, port


class MetricsPort:
    """One port; `answer` makes the text of the metrics, and `ready` says whether the work goes on."""

    def __init__(self, host: str, port: int, answer: Answer, ready: Ready) -> None:
        self._host = host
        self._port = port
        self._pages = {b"/metrics": self._metrics, b"/health/ready": self._readiness}
        self._answer = answer
        self._ready = ready

    async def serve(self) -> None:
        """Answer until cancelled."""
        server = await self._listen()
        host, port = server.sockets[0].getsockname()[:2]
        _log.info("metrics are on http://%s/metrics", write_address(host, port))
        async with server:
            await server.serve_forever()

    async def _listen(self) -> asyncio.Server:
        told = False
        while True:
            try:
                return await asyncio.start_server(self._serve_one, self._host, self._port, limit=_HEAD_BYTES)
            except OSError as error:
                if not told:
                    _log.error(_TAKEN, write_address(self._host, self._port), why_refused(error))
                told = True
            await asyncio.sleep(_TRIED_AGAIN_S)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection."""
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(PATIENCE_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._respond(head.partition(b"\r\n")[0].split(b" ")))
                    await writer.drain()
        finally:
            writer.close()

    async def _respond(self, words: list[bytes]) -> bytes:
        page = self._pages.get(words[1] if len(words) > 1 else b"")
        if page is None:
            return _response("404 Not Found", "there are only /metrics and /health/ready here\n")
        if words[0] != b"GET":
            return _response("405 Method Not Allowed", "only GET is answered\n")
        try:
            return await page()
        except Exception:  # noqa: BLE001 - whatever it is, the next scrape may do better
            _log.warning("a scrape of the metrics failed", exc_info=True)
            return _response("503 Service Unavailable", "the store cannot be read now\n")

    async def _metrics(self) -> bytes:
        return _response("200 OK", await self._answer(), MEDIA_TYPE)

    async def _readiness(self) -> bytes:
        if await self._ready():
            return _response("200 OK", "ready\n")
        return _response("503 Service Unavailable", "not ready\n")


def _response(status: str, text: str, media_type: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body
