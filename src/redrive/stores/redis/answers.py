"""What the scripts answered of messages: a batch as deliveries in hand-out order, rows as the ledger's nouns.

Most messages are handed out for the first time: their frame says everything. One bad record becomes
`unreadable` and spoils nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from redrive.core.failure import Failure
from redrive.core.letters import Account, DeadLetter, Listed, MessagePhase, Redriven, Removal, first_death
from redrive.core.lifecycle import Move, State
from redrive.core.message import Delivery, Lapse, Lease, Message, Progress
from redrive.stores.redis.frames import TRACKS, open_body, open_frame, unpack_id
from redrive.stores.redis.packed import (
    DAMAGED,
    StoredProgress,
    read_reason,
    track_of,
    unpack_failures,
    unpack_progress,
    unpack_redrives,
)

_TRIED, _CHILD, _CHARGED, _PROBE, _LOST, _EXPIRED = 1, 4, 16, 32, 64, 128
_HELD_SIZE = 3
_ENDED_AT_BYTES = 6
_ENDING_BYTES = 8
_FINISHED = frozenset((State.DONE, State.REMOVED))


def read_batch(queue: str, token: str, batch: list[Any]) -> list[Delivery]:
    """The deliveries of a batch."""
    until_at, parts, tried, frames = batch
    lease = Lease(queue, token, int(until_at))
    reader = _Reader(
        lease,
        dict(zip(tried[0::2], tried[1::2], strict=True)),
        {
            unpack_id(parent): open_body(frame)
            for parent, frame in zip(frames[0::2], frames[1::2], strict=True)
        },
    )
    return [reader.read(*row) for row in zip(parts[0::3], parts[1::3], parts[2::3], strict=True)]


class _Reader:
    """Reads the rows of one batch: progress of those that were tried, and bodies of parents, are by id."""

    def __init__(
        self, lease: Lease, tried: Mapping[bytes, bytes | None], parents: Mapping[str, bytes | None]
    ) -> None:
        self._lease, self._tried, self._parents = lease, tried, parents

    def read(self, raw_id: bytes, frame: bytes | None, held: bytes) -> Delivery:
        marks = held[0]
        message_id = unpack_id(raw_id)
        try:
            message, due_at, expires_at = open_frame(message_id, self._lease.queue, frame or b"")
        except (ValueError, msgspec.DecodeError) as error:
            return self._unreadable(raw_id, frame or b"", held, str(error))
        if marks == _CHARGED:
            return Delivery(message, Progress(State.CLAIMED, due_at, expires_at, 1), self._lease)
        stored = self._progress(raw_id, marks, due_at, expires_at)
        damaged = f"the progress of {message_id} cannot be decoded" if stored.damaged else None
        return self._deliver(message, stored, marks, damaged)

    def _progress(self, raw_id: bytes, marks: int, due_at: int, expires_at: int) -> StoredProgress:
        if marks & _TRIED:
            return unpack_progress(self._tried.get(raw_id))
        return StoredProgress(due_at=due_at, expires_at=expires_at, attempts=1 if marks & _CHARGED else 0)

    def _deliver(
        self, message: Message, stored: StoredProgress, marks: int, unreadable: str | None
    ) -> Delivery:
        parent_body = None if message.parent is None else self._parents.get(message.parent)
        if message.parent is not None and parent_body is None:
            unreadable = (
                unreadable or f"the body of its parent {message.parent} is missing or cannot be decoded"
            )
        return Delivery(
            message,
            stored.progress(State.CLAIMED),
            self._lease,
            _lapse(marks),
            unreadable,
            parent_body,
            bool(marks & _PROBE),
        )

    def _unreadable(self, raw_id: bytes, frame: bytes, held: bytes, why: str) -> Delivery:
        marks, track, size = held[:_HELD_SIZE]
        tenant = held[_HELD_SIZE : _HELD_SIZE + size].decode()
        stored = self._progress(raw_id, marks, 0, 0) if marks & _TRIED else DAMAGED
        message_id = unpack_id(raw_id)
        raw = Message(
            message_id, self._lease.queue, tenant, frame, 0, stored.ttl_ms / 1000, TRACKS[track - 1]
        )
        return self._deliver(raw, stored, marks, f"the record of {message_id} cannot be decoded: {why}")


def _lapse(marks: int) -> Lapse | None:
    if marks & _EXPIRED:
        return Lapse.EXPIRED
    return Lapse.LOST if marks & _LOST else None


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """Everything that is stored of one message."""

    message: Message
    stored: StoredProgress
    state: State
    failures: tuple[Failure, ...]
    redrives: tuple[Redriven, ...]
    lease_until_at: int | None
    shared: bytes | None = None

    def account(self) -> Account:
        return Account(
            self.message,
            self.stored.progress(self.state),
            self.failures,
            self.redrives,
            self.lease_until_at,
            read_reason(self.stored),
            self.stored.died_at or None,
            self.stored.finished_at or None,
            self._removal(),
            self.shared,
            self._first_died_at() or None,
        )

    def listed(self, phase: MessagePhase) -> Listed:
        return Listed(
            self.message.id,
            self.message.queue,
            self.message.tenant,
            phase,
            self.message.enqueued_at,
            self.stored.due_at,
            self.stored.attempts,
            self.stored.generation,
            self.lease_until_at,
            self.stored.finished_at or None,
            self._removal(),
        )

    def letter(self) -> DeadLetter | None:
        """The dead letter, None when it has left that state since its id was read."""
        reason = read_reason(self.stored)
        if self.state is not State.DEAD or reason is None:
            return None
        return DeadLetter(
            self.message,
            self.stored.progress(self.state),
            reason,
            self.stored.died_at,
            self._first_died_at(),
            self.stored.fingerprint,
            self.failures,
            self.redrives,
            self.shared,
        )

    def _first_died_at(self) -> int:
        """0 for what never died."""
        stored = self.stored
        return stored.first_died_at or first_death(stored.died_at, self.failures, self.redrives)

    def _removal(self) -> Removal | None:
        stored = self.stored
        return Removal(stored.finished_at, Move(stored.move), stored.actor) if stored.move else None


class _AccountRow(NamedTuple):
    """What account.lua answers for a message; empty where there is none, -1 for no deadline.

    `where` is messages, letters or finished, `content` the frame or the ending that lies there. `traces` are
    digests and tracebacks in turn. `parent` is the frame of its parent, which comes with the first child.
    """

    id: bytes
    where: bytes
    content: bytes
    progress: bytes
    held: bytes
    lease_until_at: int
    failures: bytes
    redrives: bytes
    traces: list[bytes]
    parent: bytes


def read_accounts(queue: str, rows: Iterable[list[Any]]) -> list[StoredAccount]:
    """Everything about some messages, with the bodies of their parents where those were asked for."""
    found: list[StoredAccount] = []
    bodies: dict[str, bytes | None] = {}
    for row in map(_AccountRow._make, rows):
        one = _read_account(queue, row)
        if one.message.parent is not None and one.state not in _FINISHED:
            if row.parent:
                bodies[one.message.parent] = open_body(row.parent)
            one = replace(one, shared=bodies.get(one.message.parent))
        found.append(one)
    return found


def read_listed(queue: str, phase: MessagePhase, row: list[Any]) -> Listed:
    """One row of messages.lua, which are the first six of account.lua."""
    return _read_account(queue, _AccountRow._make([*row, b"", b"", [], b""])).listed(phase)


def _read_account(queue: str, row: _AccountRow) -> StoredAccount:
    message_id = unpack_id(row.id)
    if row.where == b"finished":
        frame, packed, ended_at = _open_ending(row.content)
        message, stored = _read_message(message_id, queue, frame, packed or None, attempts=1)
        state = stored.state if packed else State.DONE
        stored = stored if packed else msgspec.structs.replace(stored, finished_at=ended_at)
    else:
        attempts = 1 if row.held and row.held[0] & _CHARGED else 0
        message, stored = _read_message(message_id, queue, row.content, row.progress or None, attempts)
        state = State.DEAD if row.where == b"letters" else State.CLAIMED if row.held else State.WAITING
    texts = dict(zip(row.traces[0::2], row.traces[1::2], strict=True))
    return StoredAccount(
        message,
        stored,
        state,
        unpack_failures(row.failures, texts),
        unpack_redrives(row.redrives),
        row.lease_until_at if row.lease_until_at >= 0 else None,
    )


def _open_ending(ending: bytes) -> tuple[bytes, bytes, int]:
    ended_at = int.from_bytes(ending[:_ENDED_AT_BYTES], "big")
    begins = _ENDING_BYTES + int.from_bytes(ending[_ENDED_AT_BYTES:_ENDING_BYTES], "big")
    return ending[begins:], ending[_ENDING_BYTES:begins], ended_at


def _read_message(
    message_id: str, queue: str, frame: bytes, packed: bytes | None, attempts: int
) -> tuple[Message, StoredProgress]:
    """The message and its progress, which follows from the frame where there is none of its own."""
    stored = unpack_progress(packed) if packed is not None else None
    try:
        message, due_at, expires_at = open_frame(message_id, queue, frame)
    except (ValueError, msgspec.DecodeError):
        stored = stored or unpack_progress(None)
        return Message(
            message_id, queue, stored.tenant, frame, 0, stored.ttl_ms / 1000, track_of(stored)
        ), stored
    if stored is None:
        stored = StoredProgress(due_at=due_at, expires_at=expires_at, attempts=attempts)
    return message, stored
