"""Outbox on Redis: one script call an append; the answer comes after the server has applied it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redrive.core.errors import InvalidMessage
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message
from redrive.core.ports import APPEND_BYTES, APPEND_MESSAGES, Receipt, Status
from redrive.stores.redis.client import Argument, Client, whole_call
from redrive.stores.redis.frames import digest_of, pack_frame
from redrive.stores.redis.ids import pack_id, unpack_id


class RedisOutbox:
    """core.ports.Outbox."""

    _client: Client

    @whole_call
    async def append(self, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        entries = [entry for group in groups for entry in group]
        if not entries:
            return [[] for _ in groups]
        queue = _check_call(entries)
        arguments: list[Argument] = []
        for entry in entries:
            message = entry.message
            frame = pack_frame(message, entry.due_at, entry.expires_at)
            arguments += (pack_id(message.id), frame, digest_of(entry))
        answers, *orphan = await self._append(queue, _pack_sizes(groups), arguments)
        if orphan:
            raise _refuse_orphan(groups, unpack_id(orphan[0]))
        receipts = iter(_read_receipts(entries, answers))
        return [[next(receipts) for _ in group] for group in groups]

    async def _append(self, queue: str, sizes: bytes, arguments: Sequence[Argument]) -> Any:
        """Append to a listed queue: the script refuses one that is not there, as after a loss of data."""
        root, listed = self._client.queue_key(queue), self._client.is_listed(queue)
        if listed:
            answer = await self._client.run("append", root, sizes, 0, *arguments)
            if answer is not None:
                return answer
        await self._client.list_queue(queue)
        return await self._client.run("append", root, sizes, 1, *arguments)


def _pack_sizes(groups: Sequence[Sequence[Entry]]) -> bytes:
    """Two bytes a group; empty when all are of one entry."""
    if all(len(group) == 1 for group in groups):
        return b""
    return b"".join(len(group).to_bytes(2, "big") for group in groups)


def _check_call(entries: Sequence[Entry]) -> str:
    queues = {entry.message.queue for entry in entries}
    if len(queues) > 1:
        raise InvalidMessage(f"one append is for one queue, not for {len(queues)}: append to each by itself")
    size = sum(len(entry.message.body) for entry in entries)
    if len(entries) > APPEND_MESSAGES or (size > APPEND_BYTES and len(entries) > 1):
        raise InvalidMessage(
            f"{len(entries)} messages of {size} bytes are too much for one append: at most "
            f"{APPEND_MESSAGES} and {APPEND_BYTES} bytes, a larger one alone"
        )
    return queues.pop()


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
