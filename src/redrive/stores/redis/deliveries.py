"""What leases.answer_batch answered, as deliveries in hand-out order.

Most messages are handed out for the first time: their frame says everything. One bad record becomes
`unreadable` and spoils nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse, Lease, Message, Progress
from redrive.stores.redis.frames import TRACKS, open_body, open_frame
from redrive.stores.redis.ids import unpack_id
from redrive.stores.redis.packing import DAMAGED, StoredProgress, unpack_progress

_TRIED, _CHILD, _CHARGED, _PROBE, _LOST, _EXPIRED = 1, 4, 16, 32, 64, 128
_HELD_SIZE = 3


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
