"""The frames of AMQP that pass by the thousand, as bytes: deliveries, publications, confirms and answers.

All other frames are the driver's. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import Struct

from redrive.brokers.rabbitmq.properties import (
    Properties,
    read_content_header,
    read_short_text,
    short_text,
    write_content_header,
)

METHOD, HEADER, BODY, END = 1, 2, 3, 0xCE
FRAME = Struct(">BHI")
BEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
DELIVER, RETURN, ACK, NACK = (
    b"\x00\x3c\x00\x3c",
    b"\x00\x3c\x00\x32",
    b"\x00\x3c\x00\x50",
    b"\x00\x3c\x00\x78",
)
CLOSE = b"\x00\x0a\x00\x32"
"""Of a connection, on channel 0: the broker says why, and is gone."""

_ACK, _REJECT = int.from_bytes(ACK), 0x003C005A
_SIZE, _TAG = Struct(">Q"), Struct(">QB")
_ANSWER = Struct(">BHIIQBB")
_ANSWER_SIZE = 13
_OVERHEAD = FRAME.size + 1
_END = b"\xce"
_PUBLISH, _MANDATORY = b"\x00\x3c\x00\x28\x00\x00", b"\x01"

Complete = Callable[[bytes, Properties, bytes], None]
"""What is called with a method that has a content: the method's bytes, the properties, the body."""


class ContentTaker:
    """Takes the frames of one method of a channel, with the content that follows; others are not its own."""

    def __init__(self, method: bytes, complete: Complete) -> None:
        self._method = method
        self._complete = complete
        self._began: bytes | None = None
        self._properties = Properties()
        self._missing = 0
        self._parts: list[bytes] = []

    def take(self, kind: int, payload: bytes) -> bool:
        """Whether the frame was one of ours."""
        if kind == METHOD:
            if not payload.startswith(self._method):
                return False
            self._began = payload
            return True
        if self._began is None:
            return False
        if kind == HEADER:
            self._properties, self._missing = read_content_header(payload)
        elif kind == BODY:
            self._parts.append(payload)
            self._missing -= len(payload)
        else:
            return False
        if self._missing <= 0:
            self._end(self._began)
        return True

    def _end(self, method: bytes) -> None:
        parts, self._parts, self._began = self._parts, [], None
        self._complete(method, self._properties, parts[0] if len(parts) == 1 else b"".join(parts))


def read_deliver(method: bytes) -> tuple[int, bool, str, str]:
    """Tag, whether it was handed out before, exchange and routing key of a delivery."""
    at = 5 + method[4]
    tag, again = _TAG.unpack_from(method, at)
    exchange, at = read_short_text(method, at + _TAG.size)
    return tag, bool(again & 1), exchange, read_short_text(method, at)[0]


def read_return(method: bytes) -> tuple[str, str]:
    """Exchange and routing key of a publication that came back."""
    exchange, at = read_short_text(method, 7 + method[6])
    return exchange, read_short_text(method, at)[0]


def read_confirm(method: bytes) -> tuple[int, bool]:
    """Tag of a confirm, and whether it is for all before it too."""
    tag, flags = _TAG.unpack_from(method, 4)
    return tag, bool(flags & 1)


def acknowledgement(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """The frame that lets the broker forget a message, or all up to it."""
    return _ANSWER.pack(METHOD, channel, _ANSWER_SIZE, _ACK, tag, multiple, END)


def rejection(channel: int, tag: int, *, requeue: bool) -> bytes:
    """The frame that gives a message back, or lets it die."""
    return _ANSWER.pack(METHOD, channel, _ANSWER_SIZE, _REJECT, tag, requeue, END)


def publication(
    channel: int, frame_max: int, exchange: str, routing_key: str, properties: Properties, body: bytes
) -> Iterator[bytes]:
    """The frames of a mandatory publication; ValueError or TypeError for what AMQP has no place for."""
    yield _publish(channel, exchange, routing_key)
    header = write_content_header(properties, len(body))
    if len(header) + _OVERHEAD > frame_max:
        raise ValueError(f"the headers take {len(header):,} bytes, a frame holds {frame_max:,}")
    yield FRAME.pack(HEADER, channel, len(header)) + header + _END
    for part in _parts(body, frame_max - _OVERHEAD):
        yield FRAME.pack(BODY, channel, len(part))
        yield part
        yield _END


def _parts(body: bytes, size: int) -> Sequence[bytes]:
    if len(body) <= size:
        return (body,) if body else ()
    return [body[start : start + size] for start in range(0, len(body), size)]


@lru_cache(maxsize=512)
def _publish(channel: int, exchange: str, routing_key: str) -> bytes:
    method = _PUBLISH + short_text(exchange) + short_text(routing_key) + _MANDATORY
    return FRAME.pack(METHOD, channel, len(method)) + method + _END
