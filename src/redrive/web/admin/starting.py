"""Starting an operation, or only saying what it would take: the same for every route that does."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from redrive.office.operations import Order
from redrive.office.operations.documents import operation_document, preview_document
from redrive.web.access import Call
from redrive.web.admin.office import Office
from redrive.web.answers import respond

BODY_BYTES: Final = 1024 * 1024


async def start(
    office: Office, call: Call, order: Order, *, body: bytes | None = None, dry_run: bool = False
) -> Response:
    """202 with where its progress can be asked; a dry run: 200 with what it would take."""
    desk = office.operations(call)
    if dry_run:
        return respond(200, preview_document(await desk.preview(order)))
    started = await desk.start(order, body=body)
    document = operation_document(await desk.show(started.id))
    return respond(202, document, {"Location": f"/admin/dlq/operations/{started.id}"})
