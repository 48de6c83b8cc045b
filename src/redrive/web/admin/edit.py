"""Edit and re-drive: one letter comes back with another payload, as a new message; off unless enabled.

The caller says with If-Match which death was read; a letter that came back and died again meanwhile is not
touched.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.lifecycle import State
from redrive.office.messages import NotDead
from redrive.office.operations import OperationKind, Order, Selection
from redrive.web.access import Call, Route
from redrive.web.admin.operations import target
from redrive.web.admin.query import NoParameters, asked
from redrive.web.admin.route import OPERATE, AdminRoute, if_match
from redrive.web.admin.start import StartingRoom
from redrive.web.admin.tags import demand
from redrive.web.documents import check_payload, decode
from redrive.web.limits import read_json
from redrive.web.problems import CHANGED, FORBIDDEN, NO_IF_MATCH, TOO_LARGE, Refusal

_AROUND = 1_024


class LetterEdit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The whole new payload, and the queue it goes to if it is another."""

    payload: msgspec.Raw
    to_queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


_EDIT = AdminRoute(
    method="POST",
    path="/letters/{id}/edit",
    name="editLetter",
    summary="Re-drive one letter with another payload, where editing is enabled",
    allowed=OPERATE,
    body="LetterEdit",
    document="OperationDocument",
    started=True,
    problems=(CHANGED, NO_IF_MATCH),
    parameters=(if_match(required=True),),
)
_BODY = msgspec.json.Decoder(LetterEdit)


class EditRoom(StartingRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [_EDIT.to(self.edit)]

    async def edit(self, call: Call) -> Response:
        asked(call, NoParameters)
        if not self._office.settings.edit:
            raise Refusal(FORBIDDEN, "editing letters is off: set office.edit to true to allow it")
        raw = await read_json(call.request, self._body_bytes + _AROUND)
        again = await self.repeated(call, raw)
        if again is not None:
            return again
        acting = self.acting(call)
        account = await acting.messages.find(call.request.path_params["id"])
        if account.state is not State.DEAD:
            raise NotDead(account)
        generation = account.progress.generation
        demand(call, generation, required=True)
        body = decode(_BODY, raw)
        payload = self._checked(bytes(body.payload))
        order = Order(
            OperationKind.REDRIVE,
            Selection(ids=(account.message.id,), generation=generation),
            expired=True,
            edited=True,
            to_queue=None if body.to_queue is None else await target(acting.queues, body.to_queue),
        )
        return await self.start(call, order, raw, body=payload)

    def _checked(self, payload: bytes) -> bytes:
        if len(payload) > self._body_bytes:
            raise Refusal(TOO_LARGE, f"a payload has more than {self._body_bytes:,} bytes")
        check_payload(msgspec.Raw(payload))
        return payload
