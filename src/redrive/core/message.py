"""The nouns that travel: what was accepted (Message), how far it is (Progress), who holds it (Lease).

A Message is frozen at acceptance and knows nobody. Everything that changes lives in Progress, and
only the stores write it. A Delivery is the three together, as a worker receives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b

from msgspec import Struct

from redrive.core.errors import InvalidMessage
from redrive.core.lifecycle import State
from redrive.core.values import as_span

DEFAULT_TENANT = "default"

_TENANT = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_QUEUE = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_DEDUPE_LENGTH = 512
_HEADERS_LENGTH = 16_384
_CONTENT_BYTES = 8

TRACE_HEADERS = frozenset({"traceparent", "tracestate"})
"""Who asked, not what for: a message that is submitted again in another trace is the same message."""


class Track(StrEnum):
    """The kinds of work that share one tenant's turn without starving one another."""

    MAIN = "main"
    BULK = "bulk"
    REDRIVE = "redrive"


class Lapse(StrEnum):
    """Why `reclaim` handed a message out: its lease ran out, or its time to live did."""

    LOST = "lost"
    EXPIRED = "expired"


class Message(Struct, frozen=True, gc=False):
    """What was accepted: the body as bytes, where it belongs, and how long it may live.

    A child names its `parent`, whose body then stays in the store until the last child is finished, so
    that what many messages share is kept once.
    """

    id: str
    queue: str
    tenant: str
    body: bytes
    enqueued_at: int
    ttl_s: float
    track: Track = Track.MAIN
    dedupe: str | None = None
    headers: Mapping[str, str] = {}
    parent: str | None = None


class Progress(Struct, frozen=True, gc=False):
    """How far a message is. `attempts` counts hand-outs of this generation, the running one included."""

    state: State
    due_at: int
    expires_at: int
    attempts: int = 0
    crashes: int = 0
    generation: int = 0
    operation: str | None = None


class Lease(Struct, frozen=True, gc=False):
    """The right to settle what one claim handed out: one lease a claim, shared by its batch."""

    queue: str
    token: str
    until_at: int


class Delivery(Struct, frozen=True, gc=False):
    """One message handed to one worker. `unreadable` says why its record could not be decoded.

    `parent_body` is the body of its parent, where it has one. `probe` says that its lane is held and this
    is the one message that tries whether the cause is gone. `mark` is the store's own, to find it again when
    it is settled; nobody else reads it.
    """

    message: Message
    progress: Progress
    lease: Lease
    lapse: Lapse | None = None
    unreadable: str | None = None
    parent_body: bytes | None = None
    probe: bool = False
    mark: int | None = None


class Entry(Struct, frozen=True, gc=False):
    """A message on its way in, with the instants that its first Progress starts from.

    `digest` is what its dedupe key stands for; without one, a hash of the body.
    """

    message: Message
    due_at: int
    expires_at: int
    digest: bytes | None = None


def expiry(enqueued_at: int, due_at: int, ttl_s: float) -> int:
    """The time to live counts from the moment the message may first run, so a delay never eats it."""
    return max(enqueued_at, due_at) + round(ttl_s * 1000)


def content_digest(message: Message) -> bytes:
    """Eight bytes that stand for body and headers, and outlive them: whether an id is used again."""
    digest = blake2b(message.body, digest_size=_CONTENT_BYTES)
    for name, value in sorted(message.headers.items()):
        if name in TRACE_HEADERS:
            continue
        for text in (name, value):
            raw = text.encode("utf-8", "replace")
            digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()


def check_queue(name: object) -> str:
    """The queue's name, or InvalidMessage when it is not one."""
    text = _as_text("queue", name)
    if not _QUEUE.fullmatch(text):
        raise InvalidMessage(f"queue {text!r} is not a name: use 1-128 of A-Z a-z 0-9 . _ - :")
    return text


def check_tenant(name: object) -> str:
    """The tenant's name, or InvalidMessage when it is not one."""
    text = _as_text("tenant", name)
    if not _TENANT.fullmatch(text):
        raise InvalidMessage(f"tenant {text!r} is not a name: use 1-128 of A-Z a-z 0-9 . _ -")
    return text


def check_dedupe(key: object) -> str:
    """The dedupe key, or InvalidMessage when it is empty, too long, or has control characters."""
    text = _as_text("dedupe", key)
    if not text or len(text) > _DEDUPE_LENGTH or _CONTROL.search(text):
        raise InvalidMessage(f"a dedupe key is 1-{_DEDUPE_LENGTH} characters without control characters")
    return text


def check_headers(headers: object) -> Mapping[str, str]:
    """The headers, or InvalidMessage when one is not plain text or all together are too long."""
    if not isinstance(headers, Mapping):
        raise InvalidMessage(f"headers is of type {type(headers).__name__}: give a mapping of names to texts")
    for name, value in headers.items():
        _as_text("a header's name", name)
        if not name or _CONTROL.search(name) or _CONTROL.search(_as_text(f"header {name!r}", value)):
            raise InvalidMessage(f"header {name!r} holds control characters or has no name")
    if sum(len(name) + len(value) for name, value in headers.items()) > _HEADERS_LENGTH:
        raise InvalidMessage(f"the headers are longer than {_HEADERS_LENGTH} characters together")
    return headers


def _as_text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise InvalidMessage(f"{what} is of type {type(given).__name__}: give a text, as with str(…)")
    return given


def check_span(name: str, value: object) -> timedelta:
    """A length of time that was handed in under this name, or InvalidMessage; a number is seconds."""
    try:
        return as_span(value)
    except ValueError as error:
        raise InvalidMessage(f"{name} {error}") from None


def check_ttl(ttl: object) -> float:
    """A time to live in seconds, or InvalidMessage."""
    span = check_span("ttl", ttl)
    if span <= timedelta():
        raise InvalidMessage("ttl is not more than 0 seconds: the message could never run")
    return span.total_seconds()
