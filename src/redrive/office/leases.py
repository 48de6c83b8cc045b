"""The right of one process to do what others could do too: for some seconds, renewed while it is used.

What is done under a lease stays safe without it: a process may be slower than its lease is long. The lease
saves double work, and keeps a rate or a round to one process.
"""

from __future__ import annotations

import os
import secrets
import socket

from redrive.core.errors import VersionConflict
from redrive.office.ports import Books


def holder_name() -> str:
    """A name for this process as a holder of leases."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


class DutyLease:
    """One right, kept as a record that expires by itself."""

    def __init__(self, store: Books, kind: str, name: str, holder: str, ttl_s: float) -> None:
        self._store = store
        self._kind = kind
        self._name = name
        self._holder = holder
        self._ttl_s = ttl_s
        self._version = 0
        self._renew_at = 0

    async def hold(self) -> bool:
        """Take the lease, or keep it; False when another has it."""
        now = self._store.now()
        if self._version and now < self._renew_at:
            return True
        if not await self._take(self._version) and (not self._version or not await self._take(0)):
            self._version = 0
            return False
        self._renew_at = now + round(self._ttl_s * 1000 / 3)
        return True

    async def release(self) -> None:
        """Let another take it at once."""
        version, self._version = self._version, 0
        if version:
            try:
                await self._store.delete_record(self._kind, self._name, expected=version)
            except VersionConflict:
                return

    async def _take(self, expected: int) -> bool:
        document = {"holder": self._holder}
        try:
            self._version = await self._store.put_record(
                self._kind, self._name, document, expected=expected, ttl_s=self._ttl_s
            )
        except VersionConflict:
            return False
        return True
