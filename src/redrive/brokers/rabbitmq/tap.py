"""The bytes of a connection before the driver sees them: a channel's taker has the first look at its frames.

The driver connects, opens channels, declares, beats and closes. For each message it makes tasks, futures and
objects that cost more than all that Redrive does with one: what a taker takes costs none of them. Known
weakness: it reads no more of AMQP than where a frame ends, and leaves all that is wrong to the driver. Only
the broker's last words are noted, since the driver does not pass them on while it connects.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol

import aiormq
from aiormq.abc import AbstractChannel, ChannelFrame
from yarl import URL

from redrive.brokers.rabbitmq.frames import BEAT, CLOSE, END, FRAME

_BEAT_S = 1.0
_SEND_S = 10.0


class Taker(Protocol):
    """Has the first look at the frames of one channel."""

    def take(self, kind: int, payload: bytes) -> bool:
        """Whether the frame is taken; otherwise it is the driver's."""
        ...


class FrameTap(asyncio.StreamReader):
    """What the driver reads from: everything that no taker takes."""

    def __init__(self, closed: Callable[[int, str], None] = lambda code, text: None) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._closed = closed
        self.takers: dict[int, Taker] = {}
        self._partial = b""
        self._now_s = loop.time
        self._beat_s = 0.0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # it gets bytes
        data = self._partial + data
        at, size, passed = 0, len(data), []
        while size - at > FRAME.size:
            kind, channel, length = FRAME.unpack_from(data, at)
            end = at + FRAME.size + length + 1
            if end > size:
                break
            taker = self.takers.get(channel)
            if taker is None or data[end - 1] != END or not taker.take(kind, data[at + FRAME.size : end - 1]):
                passed.append(data[at:end])
                if not channel and data.startswith(CLOSE, at + FRAME.size):
                    self._closed(*_read_close(data[at + FRAME.size : end - 1]))
            at = end
        self._partial = data[at:]
        if passed:
            super().feed_data(b"".join(passed))
        elif at:
            self._beat()

    def feed_eof(self) -> None:
        """Said at the end of the bytes, and again at the end of the connection."""
        if self._partial:
            super().feed_data(self._partial)
            self._partial = b""
        super().feed_eof()

    def _beat(self) -> None:
        """A driver all of whose frames are taken counts on a sign of life now and then."""
        now_s = self._now_s()
        if now_s - self._beat_s > _BEAT_S:
            self._beat_s = now_s
            super().feed_data(BEAT)


class TappedTransport(aiormq.TransportFactory):
    """Connects as the driver does, with a tap in between. `last_words`: by which code and text the broker
    closed the connection that was made last."""

    tap: FrameTap
    last_words: tuple[int, str] | None = None

    async def create(self, url: URL, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        provider: aiormq.SSLContextProvider = options.pop("ssl_context_provider")
        secured = await provider.get_context() if url.scheme == "amqps" else None
        loop = asyncio.get_running_loop()
        self.tap, self.last_words = FrameTap(self._note), None
        protocol = asyncio.StreamReaderProtocol(self.tap, loop=loop)
        try:
            transport, _ = await loop.create_connection(
                lambda: protocol, url.host or "localhost", url.port or 5672, ssl=secured, **options
            )
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            raise aiormq.AMQPConnectionError(*error.args) from error
        return self.tap, asyncio.StreamWriter(transport, protocol, self.tap, loop)

    def _note(self, code: int, text: str) -> None:
        self.last_words = code, text


def _read_close(payload: bytes) -> tuple[int, str]:
    code, text = payload[len(CLOSE) :][:2], payload[len(CLOSE) + 2 :]
    return int.from_bytes(code), text[1 : 1 + text[0]].decode("utf-8", "replace") if text else ""


async def send(channel: AbstractChannel, payload: bytes, *, drained: bool = False) -> None:
    """Write frames of a channel in the driver's turn; `drained`: return when the network has taken them."""
    if channel.is_closed:
        raise aiormq.ChannelInvalidStateError("the channel is closed")
    future = channel.create_future() if drained else None
    async with asyncio.timeout(_SEND_S):
        await channel.connection.write_queue.put(ChannelFrame(payload, False, future))
    if future is not None:
        await future
