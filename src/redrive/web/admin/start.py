"""Starting an operation, or only saying what it would take: the same for every route that does.

With an Idempotency-Key a request starts one operation, however often it is sent. The key's record names the
operation before there is one, so that a repeat goes on where a crash or a lost answer left the first. It
belongs to the caller's API key, stands for address and body, and is kept for a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from redrive.core.errors import VersionConflict
from redrive.core.records import Record
from redrive.office.documents.operations import preview_document
from redrive.office.operations import NoOperation, Order
from redrive.office.operations.listing import new_id
from redrive.office.ports import Books
from redrive.web.access import Call
from redrive.web.admin.route import AdminRoom, DryRun, Parameters
from redrive.web.documents import milliseconds, respond
from redrive.web.idempotency import REPLAYED, IdempotencyKey, idempotency_key

BODY_BYTES: Final = 1024 * 1024
KEY_RECORDS: Final = "operation_key"
_KEEP_S: Final = 86_400.0


class StartParameters(Parameters, frozen=True):
    """Whether it is only to be said what would happen."""

    dry_run: DryRun = "false"


class StartingRoom(AdminRoom):
    """A room whose routes start operations."""

    async def start(
        self, call: Call, order: Order, raw: bytes, *, body: bytes | None = None, dry_run: bool = False
    ) -> Response:
        """202 with where its progress can be asked; a dry run: 200 with what it would take.

        `raw` is the body of the request.
        """
        operations = self.acting(call).operations
        if dry_run:
            return respond(200, preview_document(await operations.preview(order)))
        again = await self.repeated(call, raw)
        if again is not None:
            return again
        key = _request_key(call, raw)
        operation_id = None if key is None else await key.claim(self._office.store)
        started = await operations.start(order, body=body, operation_id=operation_id)
        return await self._answer(call, started.id, {})

    async def repeated(self, call: Call, raw: bytes) -> Response | None:
        """The answer to a request whose operation was started before, or None."""
        key = _request_key(call, raw)
        operation_id = None if key is None else await key.find(self._office.store)
        if operation_id is None:
            return None
        try:
            return await self._answer(call, operation_id, {REPLAYED: "true"})
        except NoOperation:
            return None

    async def _answer(self, call: Call, operation_id: str, headers: dict[str, str]) -> Response:
        operations = self.acting(call).operations
        document = operations.document(await operations.show(operation_id))
        return respond(202, document, {"Location": f"/admin/dlq/operations/{operation_id}", **headers})


def as_of(given: datetime | None) -> int | None:
    """The instant of a dry run that an order is of."""
    return milliseconds(given, "asOf", "nothing was started: see errors")


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of one request of one caller."""

    record_id: str
    key: IdempotencyKey

    async def find(self, store: Books) -> str | None:
        """The operation that an earlier request named; Refusal when that was another request."""
        record = await store.get_record(KEY_RECORDS, self.record_id)
        return None if record is None else self._operation(record)

    async def claim(self, store: Books) -> str:
        """The operation that this request and its repeats start; Refusal as above."""
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


def _request_key(call: Call, body: bytes) -> RequestKey | None:
    """The key of a call with this body, or None when it has none."""
    url = call.request.url
    key = idempotency_key(call.request, f"{call.request.method} {url.path}?{url.query}\n".encode() + body)
    if key is None:
        return None
    return RequestKey(sha256(f"{call.credential.id} {key.text}".encode()).hexdigest(), key)
