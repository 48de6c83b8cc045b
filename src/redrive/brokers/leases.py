"""Leases of what a broker handed over: who made them, and how long the thread that keeps leases keeps them.

A broker knows no lease: what nobody tells it about is held for as long as the connection. `KeptLeases` is
shared by a store and its twins, which are used from other threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from redrive.core.message import Lease

_ISSUED = "broker/"
"""Before the token of whoever claims: a lease of the ledger never has it."""


def issue(queue: str, token: str, until_at: int) -> Lease:
    """A lease for one batch that a broker handed over."""
    return Lease(queue, _ISSUED + token, until_at)


def is_issued(lease: Lease) -> bool:
    """Whether a lease is for what a broker handed over."""
    return lease.token.startswith(_ISSUED)


class KeptLeases:
    """The leases that were extended lately."""

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def extend(self, leases: Sequence[Lease], lease_s: float) -> None:
        """These are held for so long from now on."""
        now_s = time.monotonic()
        with self._lock:
            kept = {token: until_s for token, until_s in self._until_s.items() if until_s > now_s}
            self._until_s = kept | {lease.token: now_s + lease_s for lease in leases}

    def holds(self, lease: Lease) -> bool:
        """Whether somebody keeps it still."""
        return self._until_s.get(lease.token, 0.0) > time.monotonic()
