"""A message between Redrive's terms and AMQP's: its id, attempts and generation, and how it died. Pure.

A rejection cannot change headers, so attempts are what our own header says plus the rejections that `x-death`
counts for the queue. Whatever is published here leaves `x-death` behind and says in our header what it stood
for: brokers differ in what they do with one that a client sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b, sha1
from typing import Any, Protocol
from uuid import UUID

import msgspec

from redrive.brokers.rabbitmq.plain import as_text, from_plain, to_plain
from redrive.brokers.rabbitmq.properties import Properties
from redrive.brokers.rabbitmq.room import HEADER_BYTES, fitted, pack_failures, size_of
from redrive.core.carrier import BrokerDeath, Parcel, Return
from redrive.core.errors import InvalidMessage
from redrive.core.failure import Failure
from redrive.core.message import DEFAULT_TENANT, Message, check_tenant
from redrive.core.verdict import Reason

Table = Mapping[str, Any]

ID, LETTER, TENANT = "x-redrive-id", "x-redrive-letter", "x-redrive-tenant"
ATTEMPTS, POSTPONED = "x-redrive-attempts", "x-redrive-postponed"
GENERATION, OPERATION = "x-redrive-generation", "x-redrive-operation"
REASON, FAILURES, DIED = "x-redrive-reason", "x-redrive-failures", "x-redrive-died-at"
EXCHANGE, KEY = "x-redrive-exchange", "x-redrive-key"
ACTOR = "x-redriven-by"
PLACE = "amqp"
"""The header under which a letter keeps the exact properties of its message."""

TTL_S = 10 * 365 * 86_400.0
_NAMESPACE = UUID("2b0f5a9e-6a0e-5c6b-9a44-0d6a5b8e3c11")
_PASSING = re.compile(
    r"x-(?:death|delivery-count|acquired-count|first-death-|last-death-|redrive-(?:attempts|postponed|reason|failures|died-at))"
)
_NOT_ITS_OWN = re.compile(r"x-(?:death|delivery-count|acquired-count|first-death-|last-death-|redrive-)")
_COUNT = "x-delivery-count"
_COUNTS = (_COUNT, "x-acquired-count")
_SUSPICIOUS = 2
"""Handed out again for the first time, a message may only have been on its way when a connection was lost."""

_DEAD_BY = ("rejected", "delivery_limit")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MOST_COUNT = 2**31 - 1
_NAMED = (
    ("message_id", "message-id"),
    ("correlation_id", "correlation-id"),
    ("message_type", "message-type"),
    ("content_type", "content-type"),
    ("reply_to", "reply-to"),
)
_KEPT = (
    "content_type",
    "content_encoding",
    "priority",
    "correlation_id",
    "reply_to",
    "message_id",
    "message_type",
    "app_id",
)
_failures = msgspec.json.Decoder(tuple[Failure, ...])


class AmqpEnvelope(Protocol):
    """What came with a body; it becomes the parcel's receipt."""

    properties: Properties
    exchange: str
    routing_key: str


def read(queue: str, body: bytes, envelope: AmqpEnvelope, redelivered: bool, now: int) -> Parcel:
    """A parcel of a queue that is consumed."""
    properties = envelope.properties
    table: Table = properties.headers or {}
    message = Message(
        id=identity(queue, properties, body),
        queue=queue,
        tenant=tenant(table),
        body=body,
        enqueued_at=instant(properties.timestamp, now),
        ttl_s=TTL_S,
        headers=headers(envelope),
    )
    if not table:
        return Parcel(message, envelope, fresh=not redelivered, redelivered=redelivered)
    attempts, crashes = deaths(table, queue) if "x-death" in table else (0, 0)
    attempts += number(table.get(ATTEMPTS))
    fresh = not redelivered and not attempts
    if redelivered and _COUNT in table:
        redelivered = number(table[_COUNT]) >= _SUSPICIOUS
        crashes = max(crashes, int(redelivered))
    return Parcel(
        message,
        envelope,
        attempts=attempts,
        crashes=crashes,
        postponed=number(table.get(POSTPONED)),
        generation=number(table.get(GENERATION)),
        operation=text(table.get(OPERATION)),
        actor=text(table.get(ACTOR)),
        fresh=fresh,
        redelivered=redelivered,
        own=is_own(table),
    )


def is_own(table: Table) -> bool:
    """Whether Redrive gave the message its id, so that the same id is the same message."""
    return LETTER in table or ID in table


def deaths(table: Table, queue: str) -> tuple[int, int]:
    """How often a message died in a queue by rejection or delivery limit, and how often by the limit."""
    counts = dict.fromkeys(_DEAD_BY, 0)
    for death in _death_entries(table):
        reason = text(death.get("reason"))
        if death.get("queue") == queue and reason in counts:
            counts[reason] += number(death.get("count"))
    return sum(counts.values()), counts["delivery_limit"]


def _death_entries(table: Table) -> list[Mapping[str, Any]]:
    """What `x-death` says, newest first; other software may have written anything there."""
    found = table.get("x-death")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def route(envelope: AmqpEnvelope) -> tuple[str, str]:
    """The exchange and the key that a message was first published with, before any retry or parking."""
    table: Table = envelope.properties.headers or {}
    if KEY in table:
        return text(table.get(EXCHANGE)) or "", text(table[KEY]) or ""
    for death in reversed(_death_entries(table)):
        keys = death.get("routing-keys")
        if isinstance(keys, list) and keys:
            return text(death.get("exchange")) or "", text(keys[0]) or ""
    return envelope.exchange, envelope.routing_key


def again(parcel: Parcel, envelope: AmqpEnvelope, *, counted: bool) -> Properties:
    """For another try that is published: the same message, and what stands behind it. Its original, should it
    come again, can be told apart by that."""
    more = {ATTEMPTS: parcel.attempts + counted, POSTPONED: parcel.postponed + (not counted)}
    return _published(envelope, more)


def parked(parcel: Parcel, envelope: AmqpEnvelope, death: BrokerDeath) -> Properties:
    """For the dead-letter queue: the same message, and how it died."""
    more: dict[str, Any] = {
        ATTEMPTS: parcel.attempts + 1,
        REASON: death.reason.value,
        DIED: death.died_at,
        FAILURES: pack_failures(death.failures),
    }
    return _published(envelope, more)


def letter_death(table: Table, now: int) -> BrokerDeath | None:
    """How a parked message died, where it was Redrive that parked it."""
    reason = text(table.get(REASON))
    if reason is None or reason not in set(Reason):
        return None
    try:
        failures = _failures.decode(text(table.get(FAILURES)) or "[]")
    except msgspec.DecodeError:
        failures = ()
    died_at = table.get(DIED)
    if not isinstance(died_at, int) or not 0 < died_at < now:
        died_at = now
    return BrokerDeath(Reason(reason), died_at, failures)


def keep(envelope: AmqpEnvelope) -> str:
    """The properties as text, so that a letter can be published as it was."""
    properties = envelope.properties
    kept = {name: value for name in _KEPT if (value := getattr(properties, name)) is not None}
    table = {
        name: value for name, value in (properties.headers or {}).items() if not _NOT_ITS_OWN.match(name)
    }
    place = {"properties": to_plain(kept), "headers": to_plain(table)}
    return msgspec.json.encode(place).decode()


def restored(letter: Return) -> Properties:
    """For a letter on its way back: as it was, with who sent it back, and its next generation."""
    message = letter.message
    try:
        place = msgspec.json.decode(message.headers.get(PLACE) or "{}")
    except msgspec.DecodeError:
        place = {}
    table = dict(from_plain(place.get("headers") or {}))
    table |= {
        LETTER: message.id,
        GENERATION: letter.generation,
        ACTOR: letter.actor,
        "x-redriven-at": datetime.fromtimestamp(letter.at / 1000, UTC).isoformat(),
        "x-redriven-count": letter.generation,
    }
    if letter.operation is not None:
        table |= {OPERATION: letter.operation, "x-redriven-operation": letter.operation}
    if "routing-key" in message.headers:
        table |= {EXCHANGE: message.headers.get("exchange", ""), KEY: message.headers["routing-key"]}
    if message.tenant != DEFAULT_TENANT:
        table[TENANT] = message.tenant
    kept = {
        name: as_text(value)
        for name, value in from_plain(place.get("properties") or {}).items()
        if name in _KEPT
    }
    kept.setdefault("message_id", message.id)
    return Properties(
        **kept,
        headers=table,
        delivery_mode=2,
        timestamp=datetime.fromtimestamp(message.enqueued_at / 1000, UTC),
    )


def fresh(message: Message) -> Properties:
    """For a message that was submitted here."""
    named: dict[str, Any] = {ours: message.headers[name] for ours, name in _NAMED if name in message.headers}
    theirs = {name for _, name in _NAMED} | {"routing-key"}
    table: dict[str, Any] = {name: value for name, value in message.headers.items() if name not in theirs}
    table[ID] = message.id
    if message.tenant != DEFAULT_TENANT:
        table[TENANT] = message.tenant
    named.setdefault("content_type", "application/json")
    named["message_id"] = message.id
    stamp = datetime.fromtimestamp(message.enqueued_at / 1000, UTC)
    return Properties(**named, headers=table, delivery_mode=2, timestamp=stamp)


def foreign_id(queue: str, body: bytes, properties: Properties) -> str:
    """The identity of a letter that other software left: queue, id, how it died, headers and body."""
    table = to_plain(
        {name: value for name, value in (properties.headers or {}).items() if name not in _COUNTS}
    )
    digest = blake2b(body, digest_size=16)
    digest.update(msgspec.json.encode([queue, properties.message_id, table], order="deterministic"))
    return _derived(digest.hexdigest())


def text(value: object) -> str | None:
    """A header's text, or None."""
    if isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and value else None


def number(value: object) -> int:
    """A header's count, 0 where it has none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_COUNT else 0


def identity(queue: str, properties: Properties, body: bytes) -> str:
    """The id of a message in the queue it came from: an exchange may have put it into others as well.

    A letter that was sent back has its own. Without any id, what is the same has the same.
    """
    table: Table = properties.headers or {}
    letter = text(table.get(LETTER))
    if letter is not None:
        return letter
    given = text(table.get(ID)) or properties.message_id
    if given:
        return _derived(f"{queue}/{given}")
    digest = blake2b(body, digest_size=16)
    digest.update(repr((properties.correlation_id, properties.timestamp)).encode())
    return _derived(f"{queue}//{digest.hexdigest()}")


def _derived(name: str) -> str:
    """A UUID of version 5, made without its module's detours: every message gets one."""
    written = name.encode("utf-8", "surrogateescape")
    raw = bytearray(sha1(_NAMESPACE.bytes + written, usedforsecurity=False).digest()[:16])
    raw[6], raw[8] = raw[6] & 0x0F | 0x50, raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _published(envelope: AmqpEnvelope, more: Mapping[str, Any]) -> Properties:
    properties, (exchange, key) = envelope.properties, route(envelope)
    more = {**more, EXCHANGE: exchange, KEY: key}
    table = {name: value for name, value in (properties.headers or {}).items() if not _PASSING.match(name)}
    kept = {name: value for name in _KEPT if (value := getattr(properties, name)) is not None}
    made = Properties(**kept, headers={**table, **more}, delivery_mode=2, timestamp=properties.timestamp)
    if size_of(made) > HEADER_BYTES:
        made.headers = fitted(table, more)
    return made


def unchanging(properties: Properties) -> list[Any]:
    """What is the same each time that a message is handed over."""
    table: Table = properties.headers or {}
    own = {name: value for name, value in table.items() if name not in _COUNTS}
    return [own, properties.timestamp, *(getattr(properties, name) for name in _KEPT)]


def headers(envelope: AmqpEnvelope) -> dict[str, str]:
    """What a handler and a log line see: the message's own headers as text, and its properties by name."""
    properties = envelope.properties
    exchange, key = route(envelope)
    found = {"routing-key": _CONTROL.sub(" ", key)}
    if exchange:
        found["exchange"] = _CONTROL.sub(" ", exchange)
    for ours, name in _NAMED:
        value = getattr(properties, ours)
        if value is not None:
            found[name] = _CONTROL.sub(" ", value)
    for name, value in (properties.headers or {}).items():
        if isinstance(value, str | int | float) and not _NOT_ITS_OWN.match(name):
            found[_CONTROL.sub(" ", name)] = _CONTROL.sub(" ", str(value))
    return found


def tenant(table: Table) -> str:
    """Whose message it is, by our header; a name that cannot be one is nobody's."""
    found = text(table.get(TENANT))
    try:
        return DEFAULT_TENANT if found is None else check_tenant(found)
    except InvalidMessage:
        return DEFAULT_TENANT


def instant(stamp: object, now: int) -> int:
    """When a message was published, where it says so."""
    if not isinstance(stamp, datetime):
        return now
    return min(now, round(stamp.timestamp() * 1000))
