"""Append: deduplicate and enqueue, each group all or nothing.

First every entry is judged against what the file holds and what this call has taken so far; then the accepted
ones are written, in a handful of statements for the whole call.
"""

from __future__ import annotations

from collections.abc import Sequence

from redrive.core.lifecycle import State
from redrive.core.message import Entry
from redrive.core.ports import Receipt
from redrive.stores.rules.append import Accepted, Holder, Identity, Judge, Key, Known
from redrive.stores.sqlite.bulk import encode_list, insert_rows
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.content import find_parents, open_children
from redrive.stores.sqlite.lane_book import LaneBook
from redrive.stores.sqlite.rows import encode_headers
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "append")


def append(unit: Unit, groups: Sequence[Sequence[Entry]], entries: Sequence[Entry]) -> list[list[Receipt]]:
    """The write of `Outbox.append`; `entries` are those of all groups."""
    book = LaneBook.named(unit, entries[0].message.queue)
    queue = book.queue.queue
    parents = find_parents(unit.db, queue, (entry.message for entry in entries))
    judge = Judge(queue, _known(unit, entries), _holders(unit, queue, entries), parents)
    receipts = [judge.judge(group) for group in groups]
    if judge.accepted:
        _write(unit, book, judge.accepted)
        if parents:
            open_children(unit.db, (accepted.entry.message for accepted in judge.accepted))
        book.close()
    return receipts


def _known(unit: Unit, entries: Sequence[Entry]) -> dict[str, Known]:
    rows = unit.db.execute(SQL["known"], (encode_list([entry.message.id for entry in entries]),))
    return {
        message_id: Known(State(state), Identity._make(identity)) for message_id, state, *identity in rows
    }


def _holders(unit: Unit, queue: int, entries: Sequence[Entry]) -> dict[Key, Holder]:
    messages = (entry.message for entry in entries)
    keys = [(message.tenant, message.dedupe) for message in messages if message.dedupe is not None]
    rows = unit.db.execute(SQL["holders"], (queue, encode_list(keys), unit.now)) if keys else ()
    return {
        (tenant, key): Holder(message_id, digest, State(state))
        for tenant, key, message_id, digest, state in rows
    }


def _write(unit: Unit, book: LaneBook, accepted: Sequence[Accepted]) -> None:
    book.read_ahead(tenants=(each.entry.message.tenant for each in accepted))
    queue, first = book.queue.queue, 1 + unit.db.execute(SQL["last_seq"]).get
    messages, bodies, keys = [], [], []
    for seq, each in enumerate(accepted, first):
        entry = each.entry
        message, lane = entry.message, book.tenant(entry.message.tenant)
        track = message.track.value
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
                each.size,
                message.enqueued_at,
                message.ttl_s,
                track,
                message.dedupe,
                message.parent,
                each.content,
            )
        )
        bodies.append((seq, encode_headers(message.headers), message.body))
        if message.dedupe is not None:
            keys.append((lane.lane, message.dedupe, message.id, each.key_hash))
    insert_rows(unit.db, SQL["add_message"], messages)
    insert_rows(unit.db, SQL["add_body"], bodies)
    insert_rows(unit.db, SQL["take_key"], keys)
