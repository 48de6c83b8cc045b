"""Ids and the frozen message as they lie in Redis (lua/parts/frame.lua reads the same bytes).

A canonical UUID is its 16 bytes; any other text stands behind a byte that says so, in any length but 16, so
that the two never meet. A frame is head and body: the head has fixed fields first, so that a script reads
them with one call; tenant and dedupe key stand together as the field of the queue's keys. A body can be cut
off without reading the rest.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct, error

import msgspec

from redrive.core.errors import InvalidMessage
from redrive.core.message import Entry, Message, Track, content_digest

_UUID_TEXT = 36
_UUID_BYTES = 16
_TEXT = b"\x01"
_TEXT_OF_FIFTEEN = b"\x02\x02"
FORMAT = 2
TRACKS = (Track.MAIN, Track.BULK, Track.REDRIVE)

_HEAD = Struct(">BIIQQQd8sBBHH")
_HEAD_SIZE = _HEAD.size
_INSTANT_BITS = 48
_DIGEST_SIZE = 14
_CODES = {track: code for code, track in enumerate(TRACKS, 1)}

_encoder = msgspec.msgpack.Encoder()
_headers = msgspec.msgpack.Decoder(dict[str, str])


def pack_id(text: str) -> bytes:
    """The id as it is stored."""
    if len(text) == _UUID_TEXT and text[8] == text[13] == text[18] == text[23] == "-":
        digits = text.replace("-", "")
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            return _pack_text(text)
        if len(raw) == _UUID_BYTES and raw.hex() == digits:
            return raw
    return _pack_text(text)


def unpack_id(raw: bytes) -> str:
    """The id as the submitter wrote it."""
    if len(raw) == _UUID_BYTES:
        digits = raw.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return raw[len(_TEXT_OF_FIFTEEN) if raw.startswith(_TEXT_OF_FIFTEEN) else len(_TEXT) :].decode()


def _pack_text(text: str) -> bytes:
    raw = text.encode("utf-8", "replace")
    return (_TEXT_OF_FIFTEEN if len(raw) == _UUID_BYTES - 1 else _TEXT) + raw


def pack_frame(message: Message, due_at: int, expires_at: int) -> bytes:
    """The frame of a message that is first due and expires at these instants."""
    if due_at >> _INSTANT_BITS or expires_at >> _INSTANT_BITS:
        raise InvalidMessage(f"message {message.id} is due or expires at an instant that cannot be stored")
    try:
        tenant = message.tenant.encode()
        key = message.dedupe.encode() if message.dedupe is not None else b""
        parent = pack_id(message.parent) if message.parent is not None else b""
        headers = _encoder.encode(dict(message.headers)) if message.headers else b""
        head = _HEAD.pack(
            FORMAT,
            _HEAD_SIZE + len(tenant) + 1 + len(key) + len(parent) + len(headers),
            len(message.body),
            message.enqueued_at,
            due_at,
            expires_at,
            message.ttl_s,
            content_digest(message),
            _CODES[message.track],
            len(tenant),
            len(key),
            len(parent),
        )
    except UnicodeEncodeError as caught:
        raise InvalidMessage(
            f"message {message.id} holds text that is not Unicode: {caught.reason}"
        ) from caught
    except error as caught:
        raise InvalidMessage(
            f"message {message.id} has a tenant, key, parent or instant that cannot be stored: {caught}"
        ) from caught
    return b"".join((head, tenant, b"\0", key, parent, headers, message.body))


def digest_of(entry: Entry) -> bytes:
    """Fourteen bytes of what its dedupe key stands for; empty when it has none."""
    if entry.message.dedupe is None:
        return b""
    return digest_body(entry.message.body if entry.digest is None else entry.digest)


def digest_body(content: bytes) -> bytes:
    """Fourteen bytes: with the 16 of an id they fill what the server allocates for both anyway."""
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


def open_frame(message_id: str, queue: str, frame: bytes) -> tuple[Message, int, int]:
    """The message in a frame, when it was first due, when it expires; ValueError where it is unreadable."""
    if len(frame) < _HEAD_SIZE:
        raise ValueError("it is cut short")
    form, length, _, enqueued_at, due_at, expires_at, ttl_s, _, track, tenant_size, key_size, parent_size = (
        _HEAD.unpack_from(frame)
    )
    if form != FORMAT:
        raise ValueError(f"its format is {form}, newer than {FORMAT} or damaged: upgrade Redrive")
    tenant_ends = _HEAD_SIZE + tenant_size
    key_ends = tenant_ends + 1 + key_size
    headers_begin = key_ends + parent_size
    if not headers_begin <= length <= len(frame) or not 1 <= track <= len(TRACKS):
        raise ValueError("it is cut short or damaged")
    message = Message(
        message_id,
        queue,
        frame[_HEAD_SIZE:tenant_ends].decode(),
        frame[length:],
        enqueued_at,
        ttl_s,
        TRACKS[track - 1],
        frame[tenant_ends + 1 : key_ends].decode() if key_size else None,
        _headers.decode(frame[headers_begin:length]) if headers_begin < length else {},
        unpack_id(frame[key_ends:headers_begin]) if parent_size else None,
    )
    return message, due_at, expires_at


def open_body(frame: bytes | None) -> bytes | None:
    """The body alone; None when the frame is missing or damaged."""
    if frame is None or len(frame) < _HEAD_SIZE or frame[0] != FORMAT:
        return None
    _, length, *_ = _HEAD.unpack_from(frame)
    return frame[length:] if length <= len(frame) else None
