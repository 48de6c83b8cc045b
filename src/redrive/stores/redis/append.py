"""Outbox on Redis: one script call an append; the answer comes after the server has applied it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from redrive.core.errors import InvalidMessage
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message
from redrive.core.ports import Receipt, Status
from redrive.stores.redis.client import Argument, Client, whole_call
from redrive.stores.redis.frames import digest_of, pack_frame, pack_id, unpack_id
from redrive.stores.rules.append import check_entries


class RedisOutbox:
    """core.ports.Outbox."""

    _client: Client

    @property
    def appends_at_once(self) -> int:
        """One is made here while the server works on another."""
        return 2

    @whole_call
    async def append(self, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        entries = check_entries(groups)
        if not entries:
            return [[] for _ in groups]
        queue = entries[0].message.queue
        answers, *orphan = await self._append(queue, _pack_sizes(groups), entries)
        if orphan:
            raise _refuse_orphan(groups, unpack_id(orphan[0]))
        receipts = iter(_read_receipts(entries, answers))
        return [[next(receipts) for _ in group] for group in groups]

    async def _append(self, queue: str, sizes: bytes, entries: Sequence[Entry]) -> Any:
        """Append to a listed queue: the script refuses one that is not there, as after a loss of data."""
        if self._client.is_listed(queue):
            answer = await self._run(queue, sizes, entries, listed=0)
            if answer is not None:
                return answer
        async with self._client.listed(queue):
            return await self._run(queue, sizes, entries, listed=1)

    async def _run(self, queue: str, sizes: bytes, entries: Sequence[Entry], listed: int) -> Any:
        """Run the script; what was due at once by a clock that was set back since is due at once."""
        root, now = self._client.queue_key(queue), self._client.now()
        answer = await self._client.run("append", root, sizes, listed, now, *_pack_entries(entries))
        if not isinstance(answer, int):
            return answer
        self._client.learn_now(answer)
        retimed = [_retime(entry, now - answer) for entry in entries]
        return await self._client.run("append", root, sizes, listed, answer, *_pack_entries(retimed))


def _pack_entries(entries: Sequence[Entry]) -> list[Argument]:
    arguments: list[Argument] = []
    for entry in entries:
        frame = pack_frame(entry.message, entry.due_at, entry.expires_at)
        arguments += (pack_id(entry.message.id), frame, digest_of(entry))
    return arguments


def _retime(entry: Entry, by_ms: int) -> Entry:
    """The same entry, earlier; one that was to wait keeps its instant."""
    if entry.due_at > entry.message.enqueued_at:
        return entry
    message = replace(entry.message, enqueued_at=entry.message.enqueued_at - by_ms)
    return replace(entry, message=message, due_at=entry.due_at - by_ms, expires_at=entry.expires_at - by_ms)


def _pack_sizes(groups: Sequence[Sequence[Entry]]) -> bytes:
    """Two bytes a group; empty when all are of one entry."""
    if all(len(group) == 1 for group in groups):
        return b""
    return b"".join(len(group).to_bytes(2, "big") for group in groups)


def _refuse_orphan(groups: Sequence[Sequence[Entry]], child_id: str) -> InvalidMessage:
    group, index = next(
        (group, index)
        for group in groups
        for index, entry in enumerate(group)
        if entry.message.id == child_id
    )
    return InvalidMessage(no_parent(group[index].message), index if len(group) > 1 else None)


def no_parent(message: Message) -> str:
    """Why a child cannot be taken in."""
    return (
        f"its parent {message.parent} is not in queue {message.queue}, or is finished and has lost its body: "
        "append the parent first, and children only while it lives"
    )


def _read_receipts(entries: Sequence[Entry], answers: list[Any]) -> list[Receipt]:
    receipts = [Receipt(entry.message.id, State.WAITING, Status.ACCEPTED) for entry in entries]
    for row in zip(*(answers[part::5] for part in range(5)), strict=True):
        number, status, first, state, differs = row
        receipts[number] = Receipt(
            unpack_id(first), State(state.decode()), Status(status.decode()), differs.decode() or None
        )
    return receipts
