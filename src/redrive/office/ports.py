"""What the office asks of a store, no more than each of its parts needs.

Python has no "both of these", so what several parts ask together has a name here.
"""

from __future__ import annotations

from typing import Protocol

from redrive.core.ports import KnownQueues, Ledger, Moves, Outbox, StoreClock
from redrive.core.store import Feed, Inspection, Journal, Lanes, OwnIndex, Records, Totals


class Searchable(StoreClock, KnownQueues, Protocol):
    """For the index: which queues there are, and where their letters can be read."""

    @property
    def index(self) -> OwnIndex | Feed: ...


class Books(StoreClock, Records, Journal, Protocol):
    """For what is written down: records and the audit, by the store's clock."""


class Switchboard(Books, Lanes, Protocol):
    """For queues and tenants: their counters and switches, with the audit of each change."""


class LetterStore(Switchboard, Ledger, Moves, Inspection, Protocol):
    """For letters: read, moved and archived."""


class OfficeStore(LetterStore, Totals, Outbox, Protocol):
    """For the whole office: what is edited or sent to another queue is a new message."""
