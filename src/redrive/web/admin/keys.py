"""Keys: listed without their text, made, rotated and revoked. The text of a new key is shown once."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from redrive.core.grants import MOST_NAMES, QueuePatterns, SenderDomains
from redrive.office.access import LONGEST, NAME_LENGTH, OVERLAP, Credential, Limits, Role
from redrive.office.documents.access import key_document, key_list, new_key
from redrive.web.access import Call, Route
from redrive.web.admin.route import ADMINISTER, AdminRoom, AdminRoute, Flag, NoParameters, Parameters, asked
from redrive.web.documents import decode, respond
from redrive.web.limits import read_json
from redrive.web.problems import NOT_FOUND, Refusal

_BODY_BYTES = 64 * 1024
_LONGEST_S = LONGEST.total_seconds()
Names = Annotated[list[Annotated[str, msgspec.Meta(max_length=255)]], msgspec.Meta(max_length=MOST_NAMES)]


class ListKeys(Parameters, frozen=True):
    """Which keys."""

    ended: Annotated[Flag, msgspec.Meta(description="Those that were revoked or have ended too.")] = "false"


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A new key. `expiresIn` is seconds; `reveal` is what the role has where it is not given."""

    role: Literal["submit", "viewer", "operator", "admin"]
    company_id: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    name: Annotated[str, msgspec.Meta(max_length=NAME_LENGTH)] = ""
    from_domains: Names = []
    queues: Names = []
    reveal: bool | None = None
    expires_in: Annotated[float, msgspec.Meta(gt=0, le=_LONGEST_S)] | None = None


class KeyRotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a key is followed by another: the old one is let in for `overlap` seconds more."""

    overlap: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_S)] = OVERLAP.total_seconds()


_LIST = AdminRoute(
    method="GET",
    path="/keys",
    name="listKeys",
    summary="The keys, without their texts",
    allowed=ADMINISTER,
    query=ListKeys,
    document="KeyList",
    unbound=True,
)
_CREATE = AdminRoute(
    method="POST",
    path="/keys",
    name="createKey",
    summary="Make a key; its text is in this answer and nowhere else",
    allowed=ADMINISTER,
    body="KeyBody",
    document="NewKey",
    unbound=True,
)
_ROTATE = AdminRoute(
    method="POST",
    path="/keys/{id}/rotate",
    name="rotateKey",
    summary="Make a key that may do the same, and end this one after an overlap",
    allowed=ADMINISTER,
    body="KeyRotation",
    document="NewKey",
    unbound=True,
)
_REVOKE = AdminRoute(
    method="POST",
    path="/keys/{id}/revoke",
    name="revokeKey",
    summary="End a key at once",
    allowed=ADMINISTER,
    document="KeyDocument",
    unbound=True,
)
_BODY = msgspec.json.Decoder(KeyBody)
_ROTATION = msgspec.json.Decoder(KeyRotation)


class KeyRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _LIST.to(self.every),
            _CREATE.to(self.create),
            _ROTATE.to(self.rotate),
            _REVOKE.to(self.revoke),
        ]

    async def every(self, call: Call) -> Response:
        ended = asked(call, ListKeys).ended == "true"
        return respond(200, key_list(await self.acting(call).access.list(ended=ended)))

    async def create(self, call: Call) -> Response:
        asked(call, NoParameters)
        body = decode(_BODY, await read_json(call.request, _BODY_BYTES))
        access = self.acting(call).access
        return _new(*await access.create(Role(body.role), body.company_id, body.name, _limits(body)))

    async def rotate(self, call: Call) -> Response:
        asked(call, NoParameters)
        body = decode(_ROTATION, await read_json(call.request, _BODY_BYTES))
        overlap = timedelta(seconds=body.overlap)
        made = await self.acting(call).access.rotate(call.request.path_params["id"], overlap)
        if made is None:
            raise _no_key()
        return _new(*made)

    async def revoke(self, call: Call) -> Response:
        asked(call, NoParameters)
        ended = await self.acting(call).access.revoke(call.request.path_params["id"])
        if ended is None:
            raise _no_key()
        return respond(200, key_document(ended))


def _limits(body: KeyBody) -> Limits:
    return Limits(
        senders=SenderDomains.parse(body.from_domains),
        queues=QueuePatterns.parse(body.queues),
        reveal=body.reveal,
        lifetime=None if body.expires_in is None else timedelta(seconds=body.expires_in),
    )


def _new(key: Credential, text: str) -> Response:
    return respond(200, new_key(key, text))


def _no_key() -> Refusal:
    return Refusal(NOT_FOUND, "there is no such key that is let in: GET /admin/dlq/keys lists them")
