"""What is asked of a broker: the port `Carrier`, and the nouns that pass through it.

A broker carries messages and knows nothing of attempts, tenants or letters; the ledger beside it does. A
carrier never decides: it hands over what arrived, and does with it what it is told. Its errors come out as
StoreUnavailable where the same call may succeed later, else as StoreError.

The suite in tests/brokers is the other half of this contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from redrive.core.condition import Description, Finding
from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.failure import Failure
from redrive.core.message import Message
from redrive.core.verdict import Reason


class Abilities(Struct, frozen=True):
    """What a broker can do by itself: let tenants take turns, wait for a chosen time, prolong a hand-over."""

    fair: bool = False
    delay: bool = False
    extend: bool = False


class BrokerDeath(Struct, frozen=True):
    """How a message died, as the broker's dead-letter queue tells it; `failures` in order."""

    reason: Reason
    died_at: int
    failures: tuple[Failure, ...] = ()


class Parcel(Struct, frozen=True, gc=False):
    """One message that a broker handed over and has not been told about.

    `attempts` are those that ended before, in this generation; `crashes` the workers lost with it, as far as
    the broker knows; `postponed` says how often it was put off without an attempt. `actor` sent it back,
    where anyone did. `fresh`: nobody had it before. `redelivered`: whoever had it last may have been lost
    with it. `own`: its id was made by Redrive, so that the same id is the same message; another id may come
    again as another message. `parked`: Redrive gave it up. `receipt` is the carrier's own.
    """

    message: Message
    receipt: Any
    attempts: int = 0
    crashes: int = 0
    postponed: int = 0
    generation: int = 0
    operation: str | None = None
    actor: str | None = None
    fresh: bool = False
    redelivered: bool = False
    own: bool = False
    parked: bool = False
    death: BrokerDeath | None = None


class ParcelStanding(StrEnum):
    """Whether a parcel may still be told about: yes, once the broker is back, or no more."""

    HELD = "held"
    WAITING = "waiting"
    LOST = "lost"


class Retry(Struct, frozen=True, gc=False):
    """Another try after `delay_s`, or after the broker's own delay where it has one. Not `counted`: the
    attempt is given back."""

    parcel: Parcel
    delay_s: float
    counted: bool = True


class Parking(Struct, frozen=True, gc=False):
    """A parcel for its dead-letter queue, with how it died."""

    parcel: Parcel
    death: BrokerDeath


class Return(Struct, frozen=True, gc=False):
    """A dead letter on its way back to the queue it came from, under its next generation."""

    message: Message
    generation: int
    actor: str
    at: int
    operation: str | None = None


class Depth(Struct, frozen=True, gc=False):
    """How many messages a queue and its dead-letter queue hold at the broker; None: no such queue.

    `retrying` are those that wait for another try, `consumers` whoever is handed messages of the queue.
    """

    waiting: int | None
    dead: int | None
    retrying: int = 0
    consumers: int = 0


class MessagesRefused(StoreError):
    """A broker will never take some messages of a call: `reasons` has its words, by their places in the call.
    Those at the places `confirmed` it has; the rest no queue takes now."""

    def __init__(
        self, why: str, reasons: Mapping[int, str] = {}, confirmed: AbstractSet[int] = frozenset()
    ) -> None:
        super().__init__(why)
        self.reasons, self.confirmed = reasons, confirmed


class PublishingInterrupted(StoreUnavailable):
    """Messages of a call may not have been published: all but those at the places `confirmed` go again."""

    def __init__(self, why: str, confirmed: AbstractSet[int] = frozenset()) -> None:
        super().__init__(why)
        self.confirmed = confirmed


class Carrier(Protocol):
    """One broker. Opened once, used from one event loop, closed once."""

    @property
    def abilities(self) -> Abilities: ...

    async def open(self) -> None:
        """Connect and declare; StoreError says what is wrong and what to do."""
        ...

    async def close(self) -> None:
        """Let go; what was handed over and not told about is the broker's again."""
        ...

    def abandon(self) -> None:
        """Let go at once: the event loop it was used from is closed."""
        ...

    async def describe(self) -> Description: ...

    async def examine(self) -> list[Finding]: ...

    async def keep_ledger(self, ledger: str) -> str:
        """Say which ledger the broker's dead letters go to; the one that was said first."""
        ...

    def queues(self) -> Sequence[str]:
        """The queues that are known from configuration."""
        ...

    def dead_letter_queues(self) -> Sequence[str]:
        """The queues to collect dead letters from: collecting empties them."""
        ...

    async def collect(self, queue: str, limit: int) -> list[Parcel]:
        """What has arrived, without waiting; the first call begins to consume the queue."""
        ...

    async def collect_dead(self, queue: str, limit: int) -> list[Parcel]:
        """What has arrived from a dead-letter queue; the parcels' queue is where they came from."""
        ...

    def untaken(self, queue: str) -> Sequence[Parcel]:
        """What has arrived and was not collected."""
        ...

    async def stop(self, queue: str) -> None:
        """Consume a queue no more; what arrived and was not collected is the broker's again."""
        ...

    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        """Return soon after something arrived, or the connection was lost; a hint, never the truth."""
        ...

    def standing(self, parcel: Parcel) -> ParcelStanding:
        """Who is answered LOST forgets the parcel: should it come again, it is a new one."""
        ...

    async def acknowledge(self, parcels: Sequence[Parcel]) -> None:
        """The broker may forget these. Where that fails, they are still to be told about, or given back."""
        ...

    async def give_back(self, parcels: Sequence[Parcel]) -> None:
        """The broker may hand these to anyone, at once; those that it has again by itself included."""
        ...

    async def retry(self, retries: Sequence[Retry]) -> None:
        """Bring these back to their own queue later; nothing is nowhere meanwhile."""
        ...

    async def park(self, parkings: Sequence[Parking]) -> None:
        """Publish to the dead-letter queue, confirmed; only then acknowledge."""
        ...

    async def send_back(self, returns: Sequence[Return]) -> AbstractSet[str]:
        """Publish letters to the queues they came from, confirmed; the ids that no queue takes. Otherwise
        MessagesRefused or PublishingInterrupted."""
        ...

    async def publish(self, messages: Sequence[Message]) -> AbstractSet[str]:
        """Publish new messages to the queue or exchange they name, confirmed; the ids that no queue takes.
        Otherwise MessagesRefused or PublishingInterrupted."""
        ...

    async def depths(self, queues: Sequence[str]) -> Mapping[str, Depth]: ...
