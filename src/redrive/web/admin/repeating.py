"""Idempotency-Key where an operation is started: however often a request is sent, it starts one.

The key's record names the operation before there is one, so that a repeat goes on where a crash or a lost
answer left the first. It belongs to the caller's API key, stands for address and body, and is kept for a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from redrive.core.errors import VersionConflict
from redrive.core.ports import Store
from redrive.core.records import Record
from redrive.office.operations.listing import new_id
from redrive.web.access import Call
from redrive.web.idempotency import IdempotencyKey, idempotency_key

KEY_RECORDS: Final = "operation_key"
_KEEP_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of one request of one caller."""

    record_id: str
    key: IdempotencyKey

    async def find(self, store: Store) -> str | None:
        """The operation that an earlier request named; Refused when that was another request."""
        record = await store.get_record(KEY_RECORDS, self.record_id)
        return None if record is None else self._operation(record)

    async def claim(self, store: Store) -> str:
        """The operation that this request and its repeats start; Refused as above."""
        while (found := await self.find(store)) is None:
            chosen = new_id(store.now())
            document = {"operation": chosen, "digest": self.key.digest.hex()}
            try:
                await store.put_record(KEY_RECORDS, self.record_id, document, expected=0, ttl_s=_KEEP_S)
            except VersionConflict:
                continue
            return chosen
        return found

    def _operation(self, record: Record) -> str:
        if record.document["digest"] != self.key.digest.hex():
            raise self.key.reused()
        return str(record.document["operation"])


def request_key(call: Call, body: bytes) -> RequestKey | None:
    """The key of a call with this body, or None when it has none."""
    url = call.request.url
    key = idempotency_key(call.request, f"{call.request.method} {url.path}?{url.query}\n".encode() + body)
    if key is None:
        return None
    return RequestKey(sha256(f"{call.credential.id} {key.text}".encode()).hexdigest(), key)
