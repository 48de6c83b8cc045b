"""What a broker cannot keep, in the store beside it: failures before a death, lone runs, what was given back.

Plain records that expire by themselves; a message's own history begins in the store with its first death.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from redrive.core.failure import Failure
from redrive.core.message import Message
from redrive.core.store import Records

FAILURE_RECORDS = "carried-failures"
ALONE_RECORDS = "carried-alone"
RETURNED_RECORDS = "carried-returned"
_DAY_S = 86_400.0
_RETURNED_S = 3_600.0
_KEPT = 20


class Notes:
    """The records of messages that a broker carries."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def add_failure(self, message: Message, generation: int, failure: Failure) -> None:
        """Keep a failed attempt of a message that will be tried again, once however often it is told."""
        name = _name(message, generation)
        known = await self.failures(message, generation)
        if failure in known:
            return
        document = {"failures": msgspec.to_builtins((*known, failure)[-_KEPT:])}
        await self._records.put_record(FAILURE_RECORDS, name, document, expected=None, ttl_s=_DAY_S)

    async def failures(self, message: Message, generation: int) -> tuple[Failure, ...]:
        """The failed attempts of this generation so far."""
        record = await self._records.get_record(FAILURE_RECORDS, _name(message, generation))
        if record is None:
            return ()
        return msgspec.convert(record.document["failures"], tuple[Failure, ...])

    async def runs_alone(self, message: Message, crashes: int) -> None:
        """Said before a suspect runs: who finds it again knows that it was this message."""
        name = _name(message, 0)
        await self._records.put_record(ALONE_RECORDS, name, {"crashes": crashes}, expected=None, ttl_s=_DAY_S)

    async def crashes(self, message: Message) -> int:
        """How many workers had been lost with a message before it last ran alone."""
        record = await self._records.get_record(ALONE_RECORDS, _name(message, 0))
        return 0 if record is None else int(record.document["crashes"])

    async def ran_alone(self, message: Message) -> None:
        """A suspect came to an end."""
        await self._records.delete_record(ALONE_RECORDS, _name(message, 0), expected=None)

    async def returned(self, ids: Sequence[str]) -> None:
        """Said before messages are given back: whoever has them next knows that nobody was lost."""
        name = os.urandom(8).hex()
        await self._records.put_record(
            RETURNED_RECORDS, name, {"ids": list(ids)}, expected=None, ttl_s=_RETURNED_S
        )

    async def all_returned(self) -> Iterable[str]:
        """The ids that were given back lately."""
        found: list[str] = []
        after: str | None = None
        while page := await self._records.list_records(RETURNED_RECORDS, after=after):
            found += (one for record in page for one in record.document["ids"])
            after = page[-1].id
        return found


def _name(message: Message, generation: int) -> str:
    return f"{message.queue}/{message.id}/{generation}"
