"""What account_rows.lua answered, as the ledger's nouns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from redrive.core.failure import Failure
from redrive.core.letters import Account, DeadLetter, Redriven, Removal
from redrive.core.lifecycle import Move, State
from redrive.core.message import Message
from redrive.stores.redis.frames import open_body, open_frame
from redrive.stores.redis.ids import unpack_id
from redrive.stores.redis.packing import (
    StoredProgress,
    read_reason,
    track_of,
    unpack_failures,
    unpack_progress,
    unpack_redrives,
)

_ENDED_AT_BYTES = 6
_ENDING_BYTES = 8
_CHARGED = 16
_FINISHED = frozenset((State.DONE, State.REMOVED))


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
            self.stored.fingerprint,
            self.failures,
            self.redrives,
            self.shared,
        )

    def _removal(self) -> Removal | None:
        stored = self.stored
        return Removal(stored.finished_at, Move(stored.move), stored.actor) if stored.move else None


def read_accounts(queue: str, rows: Iterable[list[Any]]) -> list[StoredAccount]:
    """Rows of account_rows.lua with the bodies of their parents, each of which came once."""
    found: list[StoredAccount] = []
    bodies: dict[str, bytes | None] = {}
    for row in rows:
        one, parent = read_account(queue, row), row[9]
        if one.message.parent is not None and one.state not in _FINISHED:
            if parent:
                bodies[one.message.parent] = open_body(parent)
            one = replace(one, shared=bodies.get(one.message.parent))
        found.append(one)
    return found


def read_account(queue: str, row: list[Any]) -> StoredAccount:
    """One row of account_rows.lua, without what it shares."""
    raw_id, place, content, packed, held, until_at, failures, redrives, traces = row[:9]
    if place == b"finished":
        frame, packed, ended_at = _open_ending(content)
        message, stored = _read_message(unpack_id(raw_id), queue, frame, packed or None, attempts=1)
        state = stored.state if packed else State.DONE
        stored = stored if packed else msgspec.structs.replace(stored, finished_at=ended_at)
    else:
        attempts = 1 if held and held[0] & _CHARGED else 0
        message, stored = _read_message(unpack_id(raw_id), queue, content, packed or None, attempts)
        state = State.DEAD if place == b"letters" else State.CLAIMED if held else State.WAITING
    texts = dict(zip(traces[0::2], traces[1::2], strict=True))
    return StoredAccount(
        message,
        stored,
        state,
        unpack_failures(failures, texts),
        unpack_redrives(redrives),
        until_at if until_at >= 0 else None,
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
