"""A parcel of a dead-letter queue as a letter of the ledger: what is in it, under which id, and why it died.

Pure. What a broker or a re-drive adds to a message is none of its content: the same message has the same
content at each of its deaths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed
from hashlib import blake2b
from uuid import UUID, uuid4, uuid5

from msgspec.structs import replace

from redrive.brokers.returns import PARKED_BY
from redrive.core.carrier import BrokerDeath, Parcel
from redrive.core.failure import Failure, Kind
from redrive.core.fingerprint import fingerprint
from redrive.core.letters import DeadLetter
from redrive.core.lifecycle import State
from redrive.core.message import DEFAULT_TENANT, TRACE_HEADERS, Message, Progress
from redrive.core.verdict import Bury

COPY = "x-copy"
_COPIES = UUID("0e7a1f43-3f8c-5d53-8d2a-7b1f6f0a9c55")
_ADDED = {
    *TRACE_HEADERS,
    *(PARKED_BY, COPY, "amqp", "amqp-queue", "exchange", "routing-key", "software", "task", "hidden"),
}
_REDRIVEN = "x-redriven-"
_UNKNOWN = "nothing says why: what was written of its failures cannot be read"


def content(message: Message) -> str:
    """What stands for the body and the headers of the message itself."""
    digest = blake2b(message.body, digest_size=16)
    for name, value in sorted(message.headers.items()):
        if name in _ADDED or name.startswith(_REDRIVEN) or (name == "message-id" and value == message.id):
            continue
        for text in (name, value):
            raw = text.encode("utf-8", "replace")
            digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()


def copy_id(message: Message, digest: str, number: int) -> str:
    """The id of a letter: the message's own, or that of a copy, which no other queue and content has."""
    if not number:
        return message.id
    return str(uuid5(_COPIES, f"{message.queue}/{message.id}/{digest}/{number}"))


def bury_of(parcel: Parcel) -> Bury:
    """The verdict on a message that was sent back and died again."""
    death = _death(parcel)
    return Bury(death.reason, _failures(death)[-1])


def letter_of(parcel: Parcel, letter_id: str, copy: int = 0) -> DeadLetter:
    """The letter; the number of a copy stands in its headers."""
    death, message = _death(parcel), parcel.message
    headers = dict(message.headers)
    if parcel.parked:
        headers[PARKED_BY] = "redrive"
    if copy:
        headers[COPY] = str(copy)
    progress = Progress(
        State.DEAD,
        due_at=death.died_at,
        expires_at=death.died_at + round(message.ttl_s * 1000),
        attempts=parcel.attempts,
        crashes=parcel.crashes,
        generation=parcel.generation,
        operation=parcel.operation,
    )
    failures = _failures(death)
    return DeadLetter(
        message=replace(message, id=letter_id, headers=headers),
        progress=progress,
        reason=death.reason,
        died_at=death.died_at,
        first_died_at=death.died_at,
        fingerprint=failures[-1].fingerprint,
        failures=failures,
    )


def plainer_letters(parcel: Parcel, problem: Exception, now: int) -> Iterator[DeadLetter]:
    """For a letter that cannot be stored as it is: its body and why, with ever less of the rest."""
    letter = letter_of(parcel, str(uuid4()))
    why = f"{letter.failures[-1].reason} (stored without all that came with it: {_named(problem)})"
    failure = _failure(now, why)
    message = replace(letter.message, enqueued_at=now)
    progress = Progress(State.DEAD, due_at=now, expires_at=now + round(message.ttl_s * 1000))
    plain = changed(
        letter,
        message=message,
        progress=progress,
        died_at=now,
        first_died_at=now,
        fingerprint=failure.fingerprint,
        failures=(failure,),
    )
    yield plain
    yield changed(plain, message=replace(message, headers={}, tenant=DEFAULT_TENANT))


def _death(parcel: Parcel) -> BrokerDeath:
    assert parcel.death is not None  # noqa: S101 - it was taken from a dead-letter queue
    return parcel.death


def _failures(death: BrokerDeath) -> tuple[Failure, ...]:
    return death.failures or (_failure(death.died_at, _UNKNOWN),)


def _failure(at: int, reason: str) -> Failure:
    mark = fingerprint(Kind.PERMANENT.value, None, reason, "")
    return Failure(at=at, attempt=1, kind=Kind.PERMANENT, reason=reason, fingerprint=mark)


def _named(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
