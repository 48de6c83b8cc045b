"""Letters as a download, JSON lines or CSV: streamed, so that memory does not grow with them.

The audit says who took what, and how many letters went out; a download that breaks off has an outcome that
says so, as does one whose client takes nothing for a minute. While a client reads, no read of the store or
of the index is under way for it. Known weakness: one that takes a little each minute may go on for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from redrive.core.ports import PAGE
from redrive.office.audit import action
from redrive.office.export import Export, Format
from redrive.office.filters import Filter
from redrive.office.index import Found
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import FilterText, Query, Reveal, asked
from redrive.web.admin.description import READ, Route
from redrive.web.admin.office import Office, actor_of, check_reveal
from redrive.web.problem_types import BAD_QUERY

_MEDIA = {Format.JSON: "application/jsonl", Format.CSV: "text/csv"}
_MOST = 1_000_000
PATIENCE_S = 60.0


class ExportLetters(Query, frozen=True):
    """Which letters, and how they are written."""

    filter: FilterText = ""
    format: Annotated[Literal["jsonl", "csv"], msgspec.Meta(description="How they are written.")] = "jsonl"
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST, description="How many at most.")] = _MOST
    reveal: Reveal = "false"


_EXPORT = Route(
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

    def __init__(self, call: Call, chunks: AsyncGenerator[bytes], name: str, media_type: str) -> None:
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._call = call
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        try:
            async for chunk in self._chunks:
                await self._send(send, chunk)
        except BrokenOff:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, chunk: bytes) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            await self._chunks.athrow(BrokenOff())


class Exports:
    """The route."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [_EXPORT.operation(self.export)]

    async def export(self, call: Call) -> Response:
        query = asked(call, ExportLetters)
        if query.reveal == "true":
            check_reveal(call)
        wanted, form = self._office.filter(call, query.filter), Format(query.format)
        await self._office.index.catch_up()
        chunks = self._chunks(call, query, wanted, form)
        return Download(call, chunks, f"dead-letters.{form}", _MEDIA[form])

    async def _chunks(
        self, call: Call, query: ExportLetters, wanted: Filter, form: Format
    ) -> AsyncGenerator[bytes]:
        reveal = query.reveal == "true"
        written = Export(form, None if reveal else self._office.mask)
        subject = {
            "filter": query.filter,
            "scope": call.credential.tenant,
            "format": form.value,
            "limit": query.limit,
            "reveal": reveal,
        }
        async with action(self._office.store, actor_of(call), "export", subject) as current:
            yield written.head()
            count = 0
            async for found in self._pages(call, query.limit, wanted):
                async for letters in self._office.letters(call, found):
                    if await call.request.is_disconnected():
                        raise BrokenOff
                    yield await asyncio.to_thread(written.rows, letters)
                    count += len(letters)
                    current.result["letters"] = count

    async def _pages(self, call: Call, limit: int, wanted: Filter) -> AsyncIterator[tuple[Found, ...]]:
        cursor, left = None, limit
        while left > 0:
            page = await self._office.index.find(
                wanted, scope=call.credential.tenant, after=cursor, limit=min(PAGE, left)
            )
            yield page.letters
            left -= len(page.letters)
            cursor = page.cursor
            if cursor is None:
                return
