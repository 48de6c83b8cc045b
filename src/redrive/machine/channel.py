"""The line between a process and the children it started: words as JSON, one a line, over a pair of sockets.

A child tells what it has come to and answers what it is asked; it notices by the end of the line that its
parent is gone. Known weakness: a child whose event loop is blocked does not answer, which is not waited for.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Self

Words = dict[str, Any]
Answers = Mapping[str, Callable[[], Awaitable[Words]]]

_LINE_BYTES = 64 * 1024 * 1024
_ANSWER_S = 5.0


class Channel:
    """One end of a line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Words | None]] = {}

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        """On an open socket, which is the channel's from now on."""
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end, limit=_LINE_BYTES))

    def tell(self, words: Words) -> None:
        """Say something; nobody may be there any more to hear it."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(words).encode() + b"\n")

    async def ask(self, what: str) -> Words | None:
        """What the other end answers; None when it does not, or not in time."""
        number = next(self._numbers)
        answer: asyncio.Future[Words | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self.tell({"ask": what, "number": number})
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._asked[number]

    async def listen(self, told: Callable[[Words], None], answers: Answers) -> None:
        """Hear and answer until the other end is gone."""
        try:
            while line := await self._reader.readline():
                await self._hear(json.loads(line), told, answers)
        except ConnectionError:
            return

    async def _hear(self, words: Words, told: Callable[[Words], None], answers: Answers) -> None:
        if (what := words.get("ask")) is not None:
            self.tell({"answer": await _answered(answers[what]), "number": words["number"]})
        elif "answer" in words:
            asked = self._asked.get(words["number"])
            if asked is not None and not asked.done():
                asked.set_result(words["answer"])
        else:
            told(words)

    async def close(self) -> None:
        """Let what was told go out, and end the line."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


async def _answered(answer: Callable[[], Awaitable[Words]]) -> Words | None:
    try:
        return await answer()
    except Exception:  # noqa: BLE001 - what was asked about may be gone already, and the line goes on
        return None
