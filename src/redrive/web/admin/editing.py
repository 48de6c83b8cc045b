"""Edit and re-drive: one letter comes back with another payload, as a new message; off unless enabled.

The caller says with If-Match which death was read; a letter that came back and died again meanwhile is not
touched. A payload in which masks stand was read without revealing it, and would overwrite what they hide.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.lifecycle import State
from redrive.core.redaction import MASKED
from redrive.office.operations import Kind, Order, Selection
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import NoQuery, asked
from redrive.web.admin.description import OPERATE, Route, if_match
from redrive.web.admin.letters import account_of
from redrive.web.admin.office import Office
from redrive.web.admin.operations import target
from redrive.web.admin.starting import repeated, start
from redrive.web.admin.tags import demand
from redrive.web.documents import check_payload, decode
from redrive.web.limits import read_json
from redrive.web.problem_types import CHANGED, FORBIDDEN, INVALID, NO_IF_MATCH, NOT_FOUND, TOO_LARGE
from redrive.web.problems import FieldError, Refused

_AROUND = 1_024


class LetterEdit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The whole new payload, and the queue it goes to if it is another."""

    payload: msgspec.Raw
    to_queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


_EDIT = Route(
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


class Editing:
    """The route."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [_EDIT.operation(self.edit)]

    async def edit(self, call: Call) -> Response:
        asked(call, NoQuery)
        if not self._office.settings.edit:
            raise Refused(FORBIDDEN, "editing letters is off: set office.edit to true to allow it")
        raw = await read_json(call.request, self._office.body_bytes + _AROUND)
        again = await repeated(self._office, call, raw)
        if again is not None:
            return again
        account = await account_of(self._office, call)
        if account.state is not State.DEAD:
            raise Refused(NOT_FOUND, f"this message is {account.state}, not a dead letter")
        generation = account.progress.generation
        demand(call, generation, required=True)
        body = decode(_BODY, raw)
        payload = self._checked(bytes(body.payload), account.message.body)
        order = Order(
            Kind.REDRIVE,
            Selection(ids=(account.message.id,), generation=generation),
            expired=True,
            edited=True,
            to_queue=None if body.to_queue is None else await target(self._office, call, body.to_queue),
        )
        return await start(self._office, call, order, raw, body=payload)

    def _checked(self, payload: bytes, before: bytes) -> bytes:
        if len(payload) > self._office.body_bytes:
            raise Refused(TOO_LARGE, f"a payload has more than {self._office.body_bytes:,} bytes")
        check_payload(msgspec.Raw(payload))
        mask = MASKED.encode()
        if mask in payload and mask not in before:
            error = FieldError("payload", f"holds {MASKED}, a mask: read the letter with ?reveal=true first")
            raise Refused(INVALID, "nothing was changed: see errors", [error])
        return payload
