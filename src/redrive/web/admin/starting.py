"""Starting an operation, or only saying what it would take: the same for every route that does."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from redrive.office.operations import NoOperation, Operations, Order
from redrive.office.operations.documents import operation_document, preview_document
from redrive.web.access import Call
from redrive.web.admin.office import Office
from redrive.web.admin.repeating import request_key
from redrive.web.answers import respond
from redrive.web.idempotency import REPLAYED

BODY_BYTES: Final = 1024 * 1024


async def start(
    office: Office, call: Call, order: Order, raw: bytes, *, body: bytes | None = None, dry_run: bool = False
) -> Response:
    """202 with where its progress can be asked; a dry run: 200 with what it would take.

    `raw` is the body of the request. The order is one that the desk takes: from here on its key is used up.
    """
    desk = office.operations(call)
    if dry_run:
        found = await desk.preview(order)
        wanted = office.filter(call, order.selection.filter)
        empty = await office.empty(call, wanted, found.count + found.expired)
        return respond(200, preview_document(found) | {"empty": empty})
    again = await repeated(office, call, raw)
    if again is not None:
        return again
    key = request_key(call, raw)
    operation_id = None if key is None else await key.claim(office.store)
    started = await desk.start(order, body=body, operation_id=operation_id)
    return await _answer(desk, started.id)


async def repeated(office: Office, call: Call, raw: bytes) -> Response | None:
    """The answer to a request whose operation was started before, or None."""
    key = request_key(call, raw)
    operation_id = None if key is None else await key.find(office.store)
    if operation_id is None:
        return None
    try:
        return await _answer(office.operations(call), operation_id, {REPLAYED: "true"})
    except NoOperation:
        return None


async def _answer(desk: Operations, operation_id: str, headers: dict[str, str] | None = None) -> Response:
    document = operation_document(await desk.show(operation_id))
    return respond(202, document, {"Location": f"/admin/dlq/operations/{operation_id}", **(headers or {})})
