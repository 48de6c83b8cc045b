"""What the engine and the office ask of a store about messages, cut by who asks; `core.store` has the rest.

Common to all ports, here and there:
- Every call is one atomic step (over a batch: compare-and-set for each id). Nothing is written before
  everything has been checked, and a call that raises has changed nothing.
- Ids and tokens are made by the caller, so a call repeated after a lost reply answers the same.
- Instants are read from the store's own clock, never from an argument, except the ones that a Message,
  Entry or Verdict carries. A test moves that clock by `skew_ms`.
- Statements guard and move; what to do about an attempt is `core.verdict.decide`'s alone.
- Errors of the driver come out as StoreError and its kinds.

The conformance suite in tests/conformance is the other half of this contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from redrive.core.lanes import QUANTUM
from redrive.core.lifecycle import Move, State
from redrive.core.limits import Rate
from redrive.core.message import Delivery, Entry, Lease
from redrive.core.verdict import Settlement

if TYPE_CHECKING:
    from redrive.core.letters import (
        Account,
        DeadLetter,
        LetterKey,
        LetterPage,
        MessagePage,
        MessagePhase,
        OperationTally,
    )

APPEND_MESSAGES = 1_000
APPEND_BYTES = 8 * 1024 * 1024
PAGE = 500


def batches_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries in order, cut so that no append has more than APPEND_BYTES; a larger one goes alone."""
    batches: list[list[Entry]] = []
    size = 0
    for entry in entries:
        size += len(entry.message.body)
        if not batches or size > APPEND_BYTES:
            batches.append([])
            size = len(entry.message.body)
        batches[-1].append(entry)
    return batches


class Status(StrEnum):
    """What became of one entry of an append."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    WITHHELD = "withheld"


class Receipt(Struct, frozen=True, gc=False):
    """The answer for one entry: the id that holds its place (the first one's, for a duplicate).

    `differs` names what differs from the first message, where a conflict is about the id.
    """

    id: str
    state: State
    status: Status
    differs: str | None = None


class Outbox(Protocol):
    """Where messages are accepted."""

    @property
    def appends_at_once(self) -> int:
        """How many appends are faster together than one after the other."""
        ...

    async def append(self, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        """Deduplicate and enqueue; answer for each entry, in order, after the durable write.

        Each group is all or nothing: where one entry is a CONFLICT, the rest of its group is WITHHELD
        and nothing of it is written. Groups do not affect one another. An id that is already known is
        ACCEPTED again (a repeat after a lost reply) and changes nothing, whatever became of the first, when
        queue, tenant, track, dedupe key, parent, body and headers are the same; otherwise it is a CONFLICT,
        also within one call. When it is due and expires does not count, because a repeat is made later. A
        store whose queues lie apart knows the ids of one queue only. A dedupe key in use by (queue, tenant)
        is a DUPLICATE with the first id and its state, or a CONFLICT when the body differs, also within one
        call; what is compared is the entry's `digest`, or the body's hash. A child is counted with its
        parent, whose body stays until its last child is finished. All entries of a call are of one queue;
        at most APPEND_MESSAGES and APPEND_BYTES a call, a larger single message alone.
        """
        ...


class Claim(Struct, frozen=True):
    """What a worker asks for: a token of its own making, and how much it can run soon.

    `alone` asks for one suspect (a message whose worker crashed) and nothing else; without it,
    suspects are left where they are. Not `fair`: tenants do not take turns, the earliest due message comes
    first, whosever it is and on whatever track. `max_bytes` bounds the bodies, but one message always fits.
    """

    queue: str
    token: str
    limit: int
    lease_s: float
    max_bytes: int = APPEND_BYTES
    quantum: int = QUANTUM
    rate: Rate | None = None
    alone: bool = False
    fair: bool = True


class Claimed(Struct, frozen=True):
    """The batch in hand-out order. `suspects`: due suspects wait. `next_at`: when more may be due."""

    deliveries: tuple[Delivery, ...] = ()
    suspects: bool = False
    next_at: int | None = None


class StoreClock(Protocol):
    """The instant that everything in a store goes by."""

    def now(self) -> int:
        """The store's clock as best known here, without asking it."""
        ...


class Source(StoreClock, Protocol):
    """Where a worker gets messages and says what came of them."""

    async def claim(self, claim: Claim) -> Claimed:
        """Hand out due messages, over tenants in turn or by due instant, attempt + 1, under its token.

        The same token again returns what of that batch is still held. A paused queue hands out nothing.
        A message past its time to live may be handed out: the worker buries it without running it. A
        record that cannot be decoded comes with `unreadable` and its raw bytes as the body; one bad
        record never spoils a batch.
        """
        ...

    async def take(self, queue: str, keys: Sequence[LetterKey], token: str, lease_s: float) -> list[Delivery]:
        """Hand out waiting messages by name, due or not, paused or not, attempt + 1, under a token: what
        became of them is known already, because a broker carried them. What does not wait, or is of another
        generation, is left out. The same token again returns what of that batch is still held."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> AbstractSet[str]:
        """Apply verdicts; return the ids refused because their token no longer holds them.

        Bury on a re-driven message, and Complete, also write what came of its last re-drive. Hold gives
        the message back and holds its lane; Complete, RetryAt and Bury end the hold of their lane.
        """
        ...

    async def extend(self, leases: Sequence[Lease], lease_s: float) -> AbstractSet[str]:
        """Prolong leases to now + lease_s; return the tokens that are no longer held by anyone."""
        ...

    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        """Return soon after work may be due in one of the queues, at the latest after timeout_s.

        A hint, never the truth: it may return early, and a missed hint costs one poll.
        """
        ...


class Cleanup(Struct, frozen=True):
    """What may go: finished records from before an instant or beyond a count, and what people discarded or
    replaced before `discarded_before_at`; never a dead letter."""

    finished_before_at: int
    keep: int | None = None
    limit: int = PAGE
    discarded_before_at: int = 0


class KnownQueues(Protocol):
    """Which queues there are."""

    async def queue_names(self) -> list[str]:
        """Every queue that ever had a message or a setting, cheaply.

        A store that has lost its list of queues lists a queue again when it is appended to or reclaimed.
        """
        ...


class Upkeep(KnownQueues, Protocol):
    """What any process may do for the store, all the time, in pages."""

    async def reclaim(self, queue: str, token: str, lease_s: float, limit: int) -> list[Delivery]:
        """Take over what nobody holds any more, under a new token: expired leases (lapse LOST) and
        waiting messages past their time to live (lapse EXPIRED; attempts unchanged, paused or not).

        Their fate is then decided and settled like any attempt. Attempts are not raised here. The same
        token again returns what of that batch is still held. A live lease is never touched.
        """
        ...

    async def cleanup(self, cleanup: Cleanup) -> int:
        """Remove finished records and ended dedupe keys, a page at a time; return how many went.

        No record goes before the store's `remember_s` has passed since its end, nor while it is a child of
        a message that is not settled: what is repeated then must be known.
        """
        ...


class Ledger(Protocol):
    """What people ask about single messages."""

    async def get(self, message_id: str) -> Account | None:
        """The whole life of one message, finished and removed ones included while they are kept."""
        ...

    async def accounts(self, queue: str, ids: Sequence[str]) -> list[Account]:
        """The whole lives of some messages of a queue, in the order asked; unknown ids are left out."""
        ...

    async def family(self, parent_id: str) -> list[Account]:
        """The children of a message, in the order in which they were appended."""
        ...

    async def letters(self, queue: str | None, *, after: str | None = None, limit: int = PAGE) -> LetterPage:
        """Dead letters, oldest first, of one queue or of all; `after` is a page's cursor."""
        ...

    async def messages(
        self,
        queue: str,
        phase: MessagePhase,
        *,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> MessagePage:
        """A queue's messages in a phase, of one tenant or of all; `after` is a page's cursor.

        What waits comes by tenant, each tenant's in the order it is due within a track; what is finished, the
        newest first. What stays in its phase from the first page to the last is listed; what moves meanwhile
        may be left out or come twice. A call looks at a bounded number of messages, so a page may be short.
        """
        ...

    async def tally(self, operation: str) -> OperationTally:
        """What was counted for an operation so far, over all queues; zeros when it is unknown."""
        ...


class Moves(Protocol):
    """What people do to single messages.

    Every move is compare-and-set: what is in another state, or of another generation than named, is skipped,
    and the ids that moved are returned.
    """

    async def redrive(
        self, queue: str, letters: Sequence[LetterKey], *, actor: str, operation: str | None = None
    ) -> AbstractSet[str]:
        """Dead to waiting: generation + 1, attempts and crashes 0, time to live renewed, due now, on the
        `redrive` track; the failures stay and a Redriven is added. Counted for the operation."""
        ...

    async def remove(
        self,
        queue: str,
        letters: Sequence[LetterKey],
        move: Move,
        *,
        actor: str,
        operation: str | None = None,
    ) -> AbstractSet[str]:
        """Dead to removed, by DISCARD, REPLACE or ARCHIVE; the dedupe key is freed, the operation counts it.

        Its progress then names the operation. A discarded or replaced letter keeps its content until
        `cleanup` takes it. An archived one loses its body and failures at once; its bare record ages like any
        finished one, and `bury` may replace it.
        """
        ...

    async def undiscard(
        self, queue: str, letters: Sequence[LetterKey], *, operation: str | None = None
    ) -> AbstractSet[str]:
        """Removed by DISCARD to dead, as it was while its content is kept; counted for the operation. Its
        dedupe key, which may be another's by now, stays free."""
        ...

    async def bury(self, letters: Sequence[DeadLetter]) -> AbstractSet[str]:
        """Take in dead letters from elsewhere, as they are; ids already known are skipped, except
        those whose record says they were archived, and not at a later generation: these are dead again,
        as they were. A child whose parent is gone, or has lost its body, brings what they share back with it;
        without that it is refused."""
        ...

    async def cancel(self, queue: str, ids: Sequence[str], *, actor: str) -> AbstractSet[str]:
        """Waiting to removed; the body goes, its dedupe key is freed."""
        ...

    async def purge(self, queue: str, *, actor: str, tenant: str | None = None, limit: int = PAGE) -> int:
        """Cancel a page of a queue's waiting messages, of one tenant or of all; return how many, 0 when none
        is left."""
        ...

    async def run_now(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        """Make waiting messages due now."""
        ...
