"""Whether a ledger is its broker's: one broker has one, which the broker names to whoever asks.

The first process that asks makes its ledger the broker's. A process with another one is refused: what it
accepts would lie in a file that nobody relays, its dead letters in a second place. That the broker accepted
a ledger is kept in the ledger: later submits need no broker. Known weakness: a ledger that was never accepted
takes submits while the broker is down; if it turns out to be the wrong one, that is told from then on.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

from redrive.core.carrier import Carrier
from redrive.core.errors import StoreError, VersionConflict
from redrive.core.store import Store

LEDGER_RECORDS = "ledger"
_ID, _ACCEPTED = "id", "accepted"
_CONTACT_S = 3.0
_ASKED_AGAIN_S = 5.0


class AnotherLedger(StoreError):
    """The broker has another ledger than this one."""


class Pairing:
    """One ledger and one broker."""

    def __init__(self, carrier: Carrier, ledger: Store) -> None:
        self._carrier = carrier
        self._ledger = ledger
        self._checked = False
        self._accepted = False
        self._refusal: str | None = None
        self._asked_again_s = 0.0
        self._asking = asyncio.Lock()

    async def check(self) -> None:
        """AnotherLedger where this is not the broker's; it is, once the broker knows of none."""
        if self._checked:
            return
        mine = await self._ledger_id()
        first = await self._carrier.keep_ledger(mine)
        if first != mine:
            await self._ledger.delete_record(LEDGER_RECORDS, _ACCEPTED, expected=None)
            described = await self._ledger.describe()
            raise AnotherLedger(
                f"the broker's dead letters are kept in another ledger than {described.url}: processes on "
                "several machines share one, such as broker.ledger = redis://…; when the other one is gone "
                "for good, delete the queue redrive.ledger"
            )
        if await self._ledger.get_record(LEDGER_RECORDS, _ACCEPTED) is None:
            await self._ledger.put_record(LEDGER_RECORDS, _ACCEPTED, {"id": mine}, expected=None)
        self._checked = self._accepted = True

    async def admit(self) -> None:
        """Before a submit: AnotherLedger where this is known not to be the broker's. A broker that cannot be
        asked refuses nothing. What it answered, or not, holds for some seconds."""
        if self._accepted:
            return
        async with self._asking:
            if time.monotonic() > self._asked_again_s:
                self._refusal = await self._ask()
                self._asked_again_s = time.monotonic() + _ASKED_AGAIN_S
        if self._refusal is not None:
            raise AnotherLedger(self._refusal)

    async def _ask(self) -> str | None:
        self._accepted = await self._ledger.get_record(LEDGER_RECORDS, _ACCEPTED) is not None
        if not self._accepted:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CONTACT_S):
                    return await self._refused()
        return None

    async def trouble(self) -> str | None:
        """What is wrong, for whoever looks. Looking makes no ledger the broker's: it is not asked about one
        that was never used."""
        if self._checked or await self._ledger.get_record(LEDGER_RECORDS, _ID) is None:
            return None
        return await self._refused()

    async def _refused(self) -> str | None:
        """Why this is not the broker's ledger; None where it is, or nobody can say."""
        try:
            await self.check()
        except AnotherLedger as error:
            return str(error)
        except (StoreError, TimeoutError):
            return None
        return None

    async def _ledger_id(self) -> str:
        record = await self._ledger.get_record(LEDGER_RECORDS, _ID)
        if record is None:
            with suppress(VersionConflict):
                await self._ledger.put_record(LEDGER_RECORDS, _ID, {"id": os.urandom(12).hex()}, expected=0)
            record = await self._ledger.get_record(LEDGER_RECORDS, _ID)
        return "" if record is None else str(record.document["id"])
