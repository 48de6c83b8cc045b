"""Append's judging: what becomes of each entry, given what the store holds and what the call took so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from redrive.core.errors import InvalidMessage
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message, content_digest
from redrive.core.ports import APPEND_BYTES, APPEND_MESSAGES, Receipt, Status

Key = tuple[str, str]
"""A tenant and a dedupe key."""

Parents = dict[str, int | None]
"""The parents that a call names, with the size of their bodies; None for one that cannot have children."""


class Identity(NamedTuple):
    """What a message is, in the order and the words in which a difference is named."""

    queue: int
    tenant: str
    track: str
    dedupe_key: str | None
    parent: str | None
    content: bytes | None

    def difference(self, other: Identity) -> str | None:
        """The first thing in which the other one differs; what is not known of one does not differ."""
        for name, mine, theirs in zip(self._fields, self, other, strict=True):
            unknown = name == "content" and None in (mine, theirs)
            if mine != theirs and not unknown:
                return name.replace("_", " ")
        return None


class Known(msgspec.Struct, frozen=True, gc=False):
    """A message that has the id of an entry."""

    state: State
    identity: Identity


class Holder(msgspec.Struct, frozen=True, gc=False):
    """Who has a dedupe key. One whose record is gone was done: whatever else frees its key."""

    id: str
    hash: bytes
    state: State


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """An entry to be written; `size` counts what it shares with its siblings."""

    entry: Entry
    size: int
    content: bytes | None
    key_hash: bytes


def check_entries(groups: Sequence[Sequence[Entry]]) -> list[Entry]:
    """All entries, or InvalidMessage when they are too many, too large, or of several queues."""
    entries = [entry for group in groups for entry in group]
    if len(entries) > APPEND_MESSAGES:
        raise InvalidMessage(
            f"{len(entries)} messages in one append: at most {APPEND_MESSAGES}, send several"
        )
    if len(entries) > 1 and sum(len(entry.message.body) for entry in entries) > APPEND_BYTES:
        raise InvalidMessage(f"the bodies of one append pass {APPEND_BYTES} bytes: send several")
    if len({entry.message.queue for entry in entries}) > 1:
        raise InvalidMessage("one append holds messages of several queues: send one for each queue")
    return entries


def body_hash(body: bytes) -> bytes:
    """What a dedupe key remembers of a body, or of the digest that stands for one."""
    return blake2b(body, digest_size=16).digest()


def named_parents(messages: Iterable[Message]) -> Parents:
    """The parents of these messages, before anything is known of them."""
    return {message.parent: None for message in messages if message.parent is not None}


def shared_size(parents: Mapping[str, int | None], message: Message, index: int | None = None) -> int:
    """What a message shares with its siblings, in bytes; InvalidMessage when it has no such parent."""
    if message.parent is None:
        return 0
    size = parents[message.parent]
    if size is None:
        raise InvalidMessage(
            f"its parent {message.parent} is not in queue {message.queue}, or is finished and has lost "
            "its body: append the parent first, and children only while it lives",
            index,
        )
    return size


@dataclass(slots=True)
class Judge:
    """What is known while the entries of one queue are judged; `accepted` are to be written, in order."""

    queue: int
    known: dict[str, Known]
    holders: dict[Key, Holder]
    parents: Parents
    accepted: list[Accepted] = field(default_factory=list)
    _taken: dict[str, Accepted] = field(default_factory=dict)

    def judge(self, group: Sequence[Entry]) -> list[Receipt]:
        """The answers for a group, of which all or nothing is accepted."""
        before = len(self.accepted)
        receipts = [
            self._judge(entry, index if len(group) > 1 else None) for index, entry in enumerate(group)
        ]
        if all(receipt.status is not Status.CONFLICT for receipt in receipts):
            return receipts
        for accepted in self.accepted[before:]:
            self._forget(accepted.entry.message)
        del self.accepted[before:]
        return [
            receipt
            if receipt.status is Status.CONFLICT
            else Receipt(entry.message.id, State.WAITING, Status.WITHHELD)
            for entry, receipt in zip(group, receipts, strict=True)
        ]

    def _judge(self, entry: Entry, index: int | None) -> Receipt:
        message = entry.message
        content, fresh = content_digest(message), b""
        known = self._find(message.id)
        if known is not None:
            differs = known.identity.difference(self._identity(message, content))
            status = Status.ACCEPTED if differs is None else Status.CONFLICT
            return Receipt(message.id, known.state, status, differs)
        if message.dedupe is not None:
            key, fresh = (message.tenant, message.dedupe), _hash_of(entry)
            holder = self.holders.get(key)
            if holder is not None:
                status = Status.DUPLICATE if holder.hash == fresh else Status.CONFLICT
                return Receipt(holder.id, holder.state, status)
            self.holders[key] = Holder(message.id, fresh, State.WAITING)
        size = len(message.body)
        if self.parents:
            size += shared_size(self.parents, message, index)
            if message.id in self.parents:
                self.parents[message.id] = len(message.body)
        accepted = self._taken[message.id] = Accepted(entry, size, content, fresh)
        self.accepted.append(accepted)
        return Receipt(message.id, State.WAITING, Status.ACCEPTED)

    def _find(self, message_id: str) -> Known | None:
        """Who has an id: a message of the store, or one that this call took."""
        taken = self._taken.get(message_id)
        if taken is None:
            return self.known.get(message_id)
        return Known(State.WAITING, self._identity(taken.entry.message, taken.content))

    def _identity(self, message: Message, content: bytes | None) -> Identity:
        return Identity(self.queue, message.tenant, message.track, message.dedupe, message.parent, content)

    def _forget(self, message: Message) -> None:
        del self._taken[message.id]
        if message.id in self.parents:
            self.parents[message.id] = None
        if message.dedupe is not None:
            del self.holders[message.tenant, message.dedupe]


def _hash_of(entry: Entry) -> bytes:
    return body_hash(entry.message.body if entry.digest is None else entry.digest)
