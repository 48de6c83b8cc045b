"""What account.lua answered, as the ledger's nouns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redrive.core.failure import Failure
from redrive.core.letters import Account, DeadLetter, Redriven, Removal
from redrive.core.lifecycle import Move, State
from redrive.core.message import Message
from redrive.core.verdict import Reason
from redrive.stores.redis.packing import (
    StoredProgress,
    unpack_failure,
    unpack_message,
    unpack_progress,
    unpack_redriven,
)


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """Everything that is stored of one message."""

    message: Message
    stored: StoredProgress
    failures: tuple[Failure, ...]
    redrives: tuple[Redriven, ...]
    lease_until_at: int | None

    def account(self) -> Account:
        return Account(
            self.message,
            self.stored.progress(),
            self.failures,
            self.redrives,
            self.lease_until_at,
            Reason(self.stored.reason) if self.stored.reason else None,
            self.stored.died_at,
            self.stored.finished_at,
            self._removal(),
        )

    def letter(self) -> DeadLetter | None:
        """The dead letter, None when it has left that state since its id was read."""
        stored = self.stored
        if stored.state is not State.DEAD or stored.reason is None or stored.died_at is None:
            return None
        reason, died_at, fingerprint = Reason(stored.reason), stored.died_at, stored.fingerprint or ""
        return DeadLetter(
            self.message, stored.progress(), reason, died_at, fingerprint, self.failures, self.redrives
        )

    def _removal(self) -> Removal | None:
        stored = self.stored
        if stored.finished_at is None or stored.move is None:
            return None
        return Removal(stored.finished_at, Move(stored.move), stored.actor or "")


def read_account(queue: str, row: list[Any]) -> StoredAccount:
    """One row of account.lua."""
    message_id, frame, packed, failures, redrives, until_at, traces = row
    stored = unpack_progress(packed)
    message, _ = unpack_message(message_id.decode(), queue, frame, stored)
    texts = dict(zip(traces[0::2], traces[1::2], strict=True))
    return StoredAccount(
        message,
        stored,
        tuple(unpack_failure(failure, texts) for failure in failures),
        tuple(unpack_redriven(redriven) for redriven in redrives),
        until_at if until_at >= 0 else None,
    )
