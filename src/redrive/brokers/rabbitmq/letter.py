"""A dead letter as the broker's queue has it: parked by Redrive, or left there by the broker or others.

What other software left has an identity of its own: two that are equal in everything are told apart by
whoever collects them. Pure.
"""

from __future__ import annotations

import re

from redrive.brokers.rabbitmq import wire
from redrive.brokers.rabbitmq.foreign import ForeignLetter, read_foreign
from redrive.core.carrier import BrokerDeath, Parcel
from redrive.core.failure import Failure, Kind
from redrive.core.fingerprint import fingerprint
from redrive.core.message import Message
from redrive.core.verdict import Reason

_DEATHS = {
    "expired": (Reason.EXPIRED, Kind.EXPIRED),
    "maxlen": (Reason.EXPIRED, Kind.EXPIRED),
    "delivery_limit": (Reason.WORKER_LOST, Kind.LOST),
}
_GIVEN_UP = (Reason.PERMANENT, Kind.PERMANENT)
CAME_FROM = "amqp-queue"
"""The header of a letter whose queue has another name at the broker than the ledger takes."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_QUEUE_LENGTH = 128
_MOST_ATTEMPTS = 1_000_000


def read_letter(
    queue: str, origin: str | None, body: bytes, envelope: wire.AmqpEnvelope, redelivered: bool, now: int
) -> Parcel:
    """A parcel of a dead-letter queue; `origin` is where its letters come from, where that is known."""
    properties = envelope.properties
    table: wire.Table = properties.headers or {}
    death, headers = wire.letter_death(table, now), wire.headers(envelope)
    attempts = wire.number(table.get(wire.ATTEMPTS))
    if death is None:
        foreign = read_foreign(table, properties, body)
        origin, attempts = origin or foreign.origin, min(attempts + foreign.attempts, _MOST_ATTEMPTS)
        death = _death(foreign, attempts, now)
        headers |= _about(foreign)
    came_from, parked = origin or queue, wire.REASON in table
    ours = parked or wire.is_own(table)
    message = Message(
        id=wire.identity(came_from, properties, body) if ours else wire.foreign_id(queue, body, properties),
        queue=queue_name(came_from),
        tenant=wire.tenant(table),
        body=body,
        enqueued_at=wire.instant(properties.timestamp, death.died_at),
        ttl_s=wire.TTL_S,
        headers=_placed(headers, came_from) | {wire.PLACE: wire.keep(envelope)},
    )
    return Parcel(
        message,
        envelope,
        attempts=attempts,
        generation=wire.number(table.get(wire.GENERATION)),
        operation=wire.text(table.get(wire.OPERATION)),
        actor=wire.text(table.get(wire.ACTOR)),
        redelivered=redelivered,
        own=wire.is_own(table),
        parked=parked,
        death=death,
    )


def queue_name(name: str) -> str:
    """The name as the ledger takes it: a broker's queue may have any, also one that is the ledger's own."""
    return _FORBIDDEN.sub("-", name)[:_QUEUE_LENGTH] or "-"


def origin_of(message: Message) -> str:
    """The queue of the broker that a letter goes back to."""
    return message.headers.get(CAME_FROM) or message.queue


def _death(foreign: ForeignLetter, attempts: int, now: int) -> BrokerDeath:
    reason, kind = _DEATHS.get(foreign.death or "", _GIVEN_UP)
    died_at = min(now, foreign.died_at or now)
    place = foreign.task or foreign.origin or ""
    failure = Failure(
        at=died_at,
        attempt=max(1, attempts),
        kind=kind,
        reason=foreign.reason,
        fingerprint=fingerprint(kind.value, None, foreign.reason, place),
        traceback=foreign.traceback,
    )
    return BrokerDeath(reason, died_at, (failure,))


def _placed(headers: dict[str, str], came_from: str) -> dict[str, str]:
    """Its headers, and the name of its queue where the ledger has another; nothing that it says itself."""
    others = {name: value for name, value in headers.items() if name != CAME_FROM}
    return others if queue_name(came_from) == came_from else {**others, CAME_FROM: came_from}


def _about(foreign: ForeignLetter) -> dict[str, str]:
    """What a letter is shown with besides its own headers."""
    told = {"software": foreign.software, "task": foreign.task, "hidden": foreign.hidden}
    return {name: value for name, value in told.items() if value is not None}
