"""What is known of a message afterwards: the dead letter, and the whole account of one life.

These are what the ledger answers with. The wire names belong to the office, not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

from redrive.core.failure import Failure
from redrive.core.lifecycle import Move, State
from redrive.core.message import Message, Progress
from redrive.core.verdict import Reason

_REPLACEMENTS = UUID("6c1f0b52-7d0e-5c43-9f0a-3f3d5f1f7b21")


class RedriveResult(StrEnum):
    """What came of a re-drive."""

    PENDING = "pending"
    DONE = "done"
    DEAD = "dead"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Redriven:
    """One re-drive of a letter; `generation` is the one it began."""

    at: int
    generation: int
    actor: str
    operation: str | None = None
    result: RedriveResult = RedriveResult.PENDING


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead message with everything that led there. `failures` are in order, of all generations.

    `died_at` is its latest death, `first_died_at` the one before any re-drive: the same for most. `shared` is
    the body of its parent, where it has one: what it needs to run again besides its own.
    """

    message: Message
    progress: Progress
    reason: Reason
    died_at: int
    first_died_at: int
    fingerprint: str
    failures: tuple[Failure, ...] = ()
    redrives: tuple[Redriven, ...] = ()
    shared: bytes | None = None

    @property
    def died_again(self) -> bool:
        """Whether it came back and died once more."""
        return self.died_at != self.first_died_at


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some dead letters, oldest first; `cursor` continues after them, None at the end."""

    letters: tuple[DeadLetter, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LetterKey:
    """One death of a message: what a move names, so that it never hits a later death.

    Without a generation, whichever letter the id has now.
    """

    id: str
    generation: int | None = None


def replacement_id(key: LetterKey, operation_id: str) -> str:
    """The id of the message that takes a letter's place in an operation: the same whenever it is made."""
    return str(uuid5(_REPLACEMENTS, f"{key.id}/{key.generation}/{operation_id}"))


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a letter: itself as it is now, or None when it is no longer dead."""

    id: str
    letter: DeadLetter | None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Some changes of a queue's letters, each id once, in order; `position` continues after them.

    `reset`: the store no longer knows what left since the position asked for; what follows is from the
    beginning, and whoever reads drops what they knew of the queue first.
    """

    changes: tuple[Change, ...]
    position: int
    more: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class OperationTally:
    """What the store counted for an operation, in the same statement as the move itself.

    `moved`: letters that it re-drove or removed. Of the re-driven ones, judged by the first attempt that was
    settled after it: `passed` or `failed`. And where they ended: `done`, `dead` again, `removed`.
    """

    moved: int = 0
    passed: int = 0
    failed: int = 0
    done: int = 0
    dead: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """Who removed a message, when, and by which move."""

    at: int
    move: Move
    actor: str


@dataclass(frozen=True, slots=True)
class Account:
    """The whole life of one message. A finished one keeps its headers and has lost its body.

    `shared` is the body of its parent, where it has one and is not finished.
    """

    message: Message
    progress: Progress
    failures: tuple[Failure, ...] = ()
    redrives: tuple[Redriven, ...] = ()
    lease_until_at: int | None = None
    reason: Reason | None = None
    died_at: int | None = None
    finished_at: int | None = None
    removal: Removal | None = None
    shared: bytes | None = None
    first_died_at: int | None = None

    @property
    def state(self) -> State:
        return self.progress.state

    @property
    def lost_workers(self) -> int:
        """How many workers were lost in a row while they ran it; the loss that buried it is no crash of its
        progress, which is as it was handed out."""
        return self.progress.crashes + (self.reason is Reason.WORKER_LOST)

    @property
    def replaced_by(self) -> str | None:
        """The id of the message made in its place, edited or in another queue; None: there is none."""
        operation = self.progress.operation
        if self.removal is None or self.removal.move is not Move.REPLACE or operation is None:
            return None
        return replacement_id(LetterKey(self.message.id, self.progress.generation), operation)


class MessagePhase(StrEnum):
    """What people list messages by: `waiting` is due now, `scheduled` later; a dead one is a letter."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    DONE = "done"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Listed:
    """One message of a list: where it stands, without its body, headers and history."""

    id: str
    queue: str
    tenant: str
    phase: MessagePhase
    enqueued_at: int
    due_at: int
    attempts: int
    generation: int
    lease_until_at: int | None = None
    finished_at: int | None = None
    removal: Removal | None = None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Some messages; `cursor` continues after them, None at the end. A short page is not the last one."""

    messages: tuple[Listed, ...]
    cursor: str | None


def as_letter(account: Account) -> DeadLetter:
    """A dead message's account as a letter."""
    reason, died_at, first_died_at = account.reason, account.died_at, account.first_died_at
    if reason is None or died_at is None or first_died_at is None:
        raise ValueError(f"{account.message.id} is {account.state}, not dead")
    last = account.failures[-1] if account.failures else None
    return DeadLetter(
        message=account.message,
        progress=account.progress,
        reason=reason,
        died_at=died_at,
        first_died_at=first_died_at,
        fingerprint=last.fingerprint if last else "",
        failures=account.failures,
        redrives=account.redrives,
        shared=account.shared,
    )


def first_death(died_at: int, failures: Sequence[Failure], redrives: Sequence[Redriven]) -> int:
    """When a message first died, told from its history where nobody wrote it down: the last failure before
    its first re-drive is what it died of."""
    if not redrives:
        return died_at
    return max((one.at for one in failures if one.at <= redrives[0].at), default=died_at)
