"""Append: deduplicate and enqueue, each group all or nothing.

First every entry is judged against what the file holds and what this call has taken so far; then the accepted
ones are written, in a handful of statements for the whole call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from redrive.core.errors import InvalidMessage
from redrive.core.lifecycle import State
from redrive.core.message import Entry, content_digest
from redrive.core.ports import APPEND_BYTES, APPEND_MESSAGES, Receipt, Status
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.content import Parents, find_parents, open_children, shared_size
from redrive.stores.sqlite.lane_book import LaneBook
from redrive.stores.sqlite.rows import encode_headers, encode_list
from redrive.stores.sqlite.writer import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "append")

Key = tuple[str, str]
Holder = tuple[str, bytes]


class _Identity(NamedTuple):
    """What a message is, in the order and the words in which a difference is named."""

    queue: int
    tenant: str
    track: str
    dedupe_key: str | None
    parent: str | None
    content: bytes | None

    def difference(self, other: _Identity) -> str | None:
        """The first thing in which the other one differs; what is not known of one does not differ."""
        for name, mine, theirs in zip(self._fields, self, other, strict=True):
            unknown = name == "content" and None in (mine, theirs)
            if mine != theirs and not unknown:
                return name.replace("_", " ")
        return None


class _Known(NamedTuple):
    state: State
    identity: _Identity


def body_hash(body: bytes) -> bytes:
    """What a dedupe key remembers of a body, or of the digest that stands for one."""
    return blake2b(body, digest_size=16).digest()


def _hash_of(entry: Entry) -> bytes:
    return body_hash(entry.message.body if entry.digest is None else entry.digest)


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


@dataclass(slots=True)
class _Judge:
    """What is known while entries are judged: messages by id, keys with their holder, parents."""

    unit: Unit
    book: LaneBook
    known: dict[str, _Known]
    parents: Parents
    keys: dict[Key, Holder | None] = field(default_factory=dict)

    def holder(self, key: Key) -> Holder | None:
        """Who has a dedupe key, in the file or earlier in this call."""
        if key not in self.keys:
            lane = self.book.tenant(key[0]).lane
            row = self.unit.db.execute(SQL["dedupe_holder"], (lane, key[1], self.unit.now)).fetchone()
            self.keys[key] = row
        return self.keys[key]

    def state(self, message_id: str) -> State:
        """A holder's state. One whose record is gone was done: whatever else frees its key."""
        if message_id in self.known:
            return self.known[message_id].state
        found = self.unit.db.execute(SQL["state_of"], (message_id,)).get
        return State(found) if found else State.DONE

    def identity(self, entry: Entry) -> _Identity:
        message = entry.message
        queue, content = self.book.queue.queue, content_digest(message)
        return _Identity(queue, message.tenant, message.track, message.dedupe, message.parent, content)


def append(unit: Unit, groups: Sequence[Sequence[Entry]], entries: Sequence[Entry]) -> list[list[Receipt]]:
    """The write of `Outbox.append`; `entries` are those of all groups."""
    book = LaneBook.named(unit, entries[0].message.queue)
    book.read_ahead(tenants=(entry.message.tenant for entry in entries))
    wanted = encode_list([entry.message.id for entry in entries])
    rows: list[Any] = unit.db.execute(SQL["known"], (wanted,)).fetchall()
    known = {row[0]: _Known(State(row[1]), _Identity(*row[2:])) for row in rows}
    parents = find_parents(unit.db, book.queue.queue, (entry.message for entry in entries))
    judge = _Judge(unit, book, known, parents)
    accepted: list[Entry] = []
    receipts = [_judge_group(judge, group, accepted) for group in groups]
    if accepted:
        _write(judge, accepted)
        book.close()
    return receipts


def _judge_group(judge: _Judge, group: Sequence[Entry], accepted: list[Entry]) -> list[Receipt]:
    taken: list[Entry] = []
    receipts: list[Receipt] = []
    conflict = False
    for index, entry in enumerate(group):
        receipt = _judge_entry(judge, entry, taken, index if len(group) > 1 else None)
        conflict = conflict or receipt.status is Status.CONFLICT
        receipts.append(receipt)
    if not conflict:
        accepted += taken
        return receipts
    for entry in taken:
        del judge.known[entry.message.id]
        if entry.message.id in judge.parents:
            judge.parents[entry.message.id] = None
        if entry.message.dedupe is not None:
            judge.keys[entry.message.tenant, entry.message.dedupe] = None
    return [
        receipt
        if receipt.status is Status.CONFLICT
        else Receipt(entry.message.id, State.WAITING, Status.WITHHELD)
        for entry, receipt in zip(group, receipts, strict=True)
    ]


def _judge_entry(judge: _Judge, entry: Entry, taken: list[Entry], index: int | None) -> Receipt:
    message, identity = entry.message, judge.identity(entry)
    known = judge.known.get(message.id)
    if known is not None:
        differs = known.identity.difference(identity)
        status = Status.ACCEPTED if differs is None else Status.CONFLICT
        return Receipt(message.id, known.state, status, differs)
    if message.dedupe is not None:
        key, fresh = (message.tenant, message.dedupe), _hash_of(entry)
        holder = judge.holder(key)
        if holder is not None:
            status = Status.DUPLICATE if holder[1] == fresh else Status.CONFLICT
            return Receipt(holder[0], judge.state(holder[0]), status)
        judge.keys[key] = (message.id, fresh)
    if judge.parents:
        shared_size(judge.parents, message, index)
        if message.id in judge.parents:
            judge.parents[message.id] = len(message.body)
    judge.known[message.id] = _Known(State.WAITING, identity)
    taken.append(entry)
    return Receipt(message.id, State.WAITING, Status.ACCEPTED)


def _write(judge: _Judge, accepted: Sequence[Entry]) -> None:
    unit, book, parents = judge.unit, judge.book, judge.parents
    queue, first = book.queue.queue, 1 + unit.db.execute(SQL["last_seq"]).get
    messages, bodies, keys = [], [], []
    for seq, entry in enumerate(accepted, first):
        message, lane = entry.message, book.tenant(entry.message.tenant)
        track, dedupe, body = message.track.value, message.dedupe, message.body
        lane.add(track, entry.due_at)
        messages.append(
            (
                seq,
                message.id,
                queue,
                lane.lane,
                track,
                entry.due_at,
                entry.expires_at,
                len(body) + shared_size(parents, message) if parents else len(body),
                message.enqueued_at,
                message.ttl_s,
                dedupe,
                message.parent,
                judge.known[message.id].identity.content,
            )
        )
        bodies.append((seq, encode_headers(message.headers), body))
        if dedupe is not None:
            keys.append((lane.lane, dedupe, message.id, _hash_of(entry)))
    unit.db.executemany(SQL["add_message"], messages)
    unit.db.executemany(SQL["add_body"], bodies)
    unit.db.executemany(SQL["take_key"], keys)
    if parents:
        open_children(unit.db, (entry.message for entry in accepted))
