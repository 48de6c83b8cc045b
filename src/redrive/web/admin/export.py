"""Letters as a download, JSON lines or CSV: streamed, so that memory does not grow with them.

The audit says who took what, and how many letters went out; a download that breaks off has an outcome that
says so, as does one whose client takes nothing for a minute. While a client reads, no read of the store or
of the index is under way for it. Known weakness: one that takes a little each minute may go on for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from redrive.office.export import Format
from redrive.office.letters import Exported
from redrive.office.operations import Selection
from redrive.web.access import Call, Route
from redrive.web.admin.route import READ, AdminRoom, AdminRoute, FilterText, Parameters, Reveal, asked
from redrive.web.problems import BAD_QUERY

_MEDIA = {Format.JSONL: "application/jsonl", Format.CSV: "text/csv"}
_MOST = 1_000_000
PATIENCE_S = 60.0


class ExportLetters(Parameters, frozen=True):
    """Which letters, and how they are written."""

    filter: FilterText = ""
    format: Annotated[Literal["jsonl", "csv"], msgspec.Meta(description="How they are written.")] = "jsonl"
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST, description="How many at most.")] = _MOST
    reveal: Reveal = "false"


_EXPORT = AdminRoute(
    method="GET",
    path="/export",
    name="exportLetters",
    summary="Letters as a file to download; nothing moves",
    allowed=READ,
    query=ExportLetters,
    document="",
    download=tuple(_MEDIA.values()),
    problems=(BAD_QUERY,),
)


class BrokenOff(Exception):
    """The client has gone."""


class Download(Response):
    """A file that is made while it is sent."""

    def __init__(self, call: Call, first: Exported, rest: AsyncGenerator[Exported], form: Format) -> None:
        headers = {"Content-Disposition": f'attachment; filename="dead-letters.{form}"'}
        super().__init__(media_type=_MEDIA[form], headers=headers)
        del self.headers["content-length"]
        self._call = call
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        try:
            await self._send(send, self._first)
            async for piece in self._rest:
                await self._send(send, piece)
        except BrokenOff:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, piece: Exported) -> None:
        if await self._call.request.is_disconnected():
            await self._rest.athrow(BrokenOff())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await send({"type": "http.response.body", "body": piece.data, "more_body": True})
        except TimeoutError:
            await self._rest.athrow(BrokenOff())


class ExportRoom(AdminRoom):
    """The route."""

    def routes(self) -> list[Route]:
        return [_EXPORT.to(self.export)]

    async def export(self, call: Call) -> Response:
        query = asked(call, ExportLetters)
        form = Format(query.format)
        pieces = self.acting(call).letters.export(
            Selection(filter=query.filter, limit=query.limit), form, reveal=query.reveal == "true"
        )
        return Download(call, await anext(pieces), pieces, form)
