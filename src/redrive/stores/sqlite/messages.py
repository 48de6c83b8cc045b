"""Pages of messages by phase: what waits, runs or is finished, read along the indexes that keep it in order.

A cursor is a place in such an order. What waits is walked lane by lane and track by track, then the suspects
of the queue. A call looks at a bounded number of lanes and of finished records, whatever the store holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import apsw

from redrive.core.errors import InvalidMessage
from redrive.core.letters import Listed, MessagePage, MessagePhase, Removal
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE
from redrive.stores.sqlite.bulk import encode_list
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_book import SQL as BOOK
from redrive.stores.sqlite.lane_book import find_queue
from redrive.stores.sqlite.ledger import snapshot
from redrive.stores.sqlite.rows import TRACKS
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "messages")

_LANES = 1_000
_LOOKS = 10_000
_FIRST, _LAST = -(1 << 62), 1 << 62
_SUSPECTS = "suspects"
_TRACKS = list(TRACKS)

Row = tuple[Any, ...]


def messages(
    db: apsw.Connection,
    queue: str,
    phase: MessagePhase,
    tenant: str | None,
    after: str | None,
    limit: int,
    now: int,
) -> MessagePage:
    """The work of `Ledger.messages`."""
    limit = max(1, min(limit, PAGE))
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return MessagePage((), None)
        match phase:
            case MessagePhase.WAITING:
                rows, cursor = _waiting(db, found.queue, tenant, after, limit, (_FIRST, now))
            case MessagePhase.SCHEDULED:
                rows, cursor = _waiting(db, found.queue, tenant, after, limit, (now + 1, _LAST))
            case MessagePhase.RUNNING:
                rows, cursor = _running(db, found.queue, tenant, after, limit)
            case MessagePhase.DONE | MessagePhase.REMOVED:
                rows, cursor = _ended(db, found.queue, phase, tenant, after, limit)
            case _:
                assert_never(phase)
    return MessagePage(tuple(_listed(queue, phase, row) for row in rows), cursor)


def _waiting(
    db: apsw.Connection, queue: int, tenant: str | None, after: str | None, limit: int, due: tuple[int, int]
) -> tuple[list[Row], str | None]:
    first, begun, *place = _read_cursor(after, 2, 2) if after is not None else ("", _TRACKS[0], _FIRST, 0)
    rows: list[Row] = []
    if begun != _SUSPECTS:
        lanes: list[Row] = db.execute(SQL["waiting_lanes"], (queue, first, tenant, _LANES)).fetchall()
        for lane, name, track in _places(lanes, first, str(begun)):
            since = place if (name, track) == (first, begun) else (_FIRST, 0)
            bindings = (lane, track, *due, *since, limit - len(rows))
            rows += db.execute(SQL["waiting"], bindings).fetchall()
            if len(rows) == limit:
                return rows, _write_cursor(name, track, rows[-1][4], rows[-1][0])
        if len(lanes) == _LANES:
            return rows, _write_cursor(lanes[-1][1], _TRACKS[-1], _LAST, 0)
        place = [_FIRST, 0]
    found: list[Row] = db.execute(
        SQL["waiting_suspects"], (queue, tenant, *due, *place, limit - len(rows))
    ).fetchall()
    rows += found
    if len(rows) < limit:
        return rows, None
    return rows, _write_cursor("", _SUSPECTS, found[-1][4], found[-1][0])


def _places(lanes: Sequence[Row], first: str, begun: str) -> Iterator[tuple[int, str, str]]:
    """Lanes and tracks in order, from where the page before ended."""
    for lane, name in lanes:
        for track in _TRACKS[_TRACKS.index(begun) if name == first else 0 :]:
            yield lane, name, track


def _running(
    db: apsw.Connection, queue: int, tenant: str | None, after: str | None, limit: int
) -> tuple[list[Row], str | None]:
    place = _read_cursor(after, 0, 2) if after is not None else (0, 0)
    rows: list[Row] = db.execute(SQL["running"], (queue, tenant, *place, limit)).fetchall()
    return rows, _write_cursor(rows[-1][11], rows[-1][0]) if len(rows) == limit else None


def _ended(
    db: apsw.Connection, queue: int, phase: MessagePhase, tenant: str | None, after: str | None, limit: int
) -> tuple[list[Row], str | None]:
    place = _read_cursor(after, 0, 3) if after is not None else (_LAST, 0, 0)
    lane = None if tenant is None else db.execute(BOOK["lane_of_tenant"], (queue, tenant)).get
    if tenant is not None and lane is None:
        return [], None
    looks = limit if lane is None else _LOOKS
    looked: list[Row] = db.execute(SQL["ended_places"], (queue, phase.value, *place, looks)).fetchall()
    chosen = [one for one in looked if lane is None or one[1] == lane][:limit]
    rows: list[Row] = db.execute(SQL["ended"], (encode_list([one[2] for one in chosen]),)).fetchall()
    if len(chosen) == limit:
        return rows, _write_cursor(*chosen[-1])
    return rows, _write_cursor(*looked[-1]) if len(looked) == looks else None


def _listed(queue: str, phase: MessagePhase, row: Row) -> Listed:
    _, message_id, tenant, enqueued_at, due_at, attempts, generation, until_at, finished_at, move, actor = (
        row[:11]
    )
    removal = None if move is None else Removal(finished_at, Move(move), actor)
    return Listed(
        message_id,
        queue,
        tenant,
        phase,
        enqueued_at,
        due_at,
        attempts,
        generation,
        until_at,
        finished_at,
        removal,
    )


def _write_cursor(*place: int | str) -> str:
    return "/".join(map(str, place))


def _read_cursor(cursor: str, names: int, numbers: int) -> list[Any]:
    """The place that a cursor stands for: so many names, then so many numbers."""
    parts: list[Any] = cursor.split("/")
    try:
        if len(parts) != names + numbers or (names and parts[1] not in (*_TRACKS, _SUSPECTS)):
            raise ValueError
        return [*parts[:names], *map(int, parts[names:])]
    except ValueError:
        raise InvalidMessage(
            f"{cursor[:40]!r} is not a cursor: use the one that the last page gave"
        ) from None
