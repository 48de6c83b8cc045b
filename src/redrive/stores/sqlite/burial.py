"""Taking in dead letters from elsewhere, and back from an archive.

A letter that is not known gets a new row; one that was archived gets its own row back, unless that is the
record of a later death. Everything else that is known is skipped. A child whose parent is gone, or has
lost its body, brings both back: a record that its children keep, and that its own letter may replace.
"""

from __future__ import annotations

from collections.abc import Sequence

from redrive.core.letters import DeadLetter
from redrive.core.message import Message, content_digest
from redrive.stores.sqlite.append import body_hash
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.failures import add_failures
from redrive.stores.sqlite.families import find_parents, open_children, shared_size
from redrive.stores.sqlite.lanes import LaneBook
from redrive.stores.sqlite.letters import add_letters
from redrive.stores.sqlite.rows import encode_headers
from redrive.stores.sqlite.writer import Step
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "burial")
MOVES = load_sql(DIALECT, "moves")
LAST_SEQ = load_sql(DIALECT, "append")["last_seq"]


def bury(step: Step, letters: Sequence[DeadLetter]) -> set[str]:
    """The step of `Moves.bury`."""
    return _Burial(step).run(letters)


class _Burial:
    """One call of bury: the lanes it touches, and the numbers it gives."""

    def __init__(self, step: Step) -> None:
        self._step, self._db = step, step.db
        self._books: dict[str, LaneBook] = {}
        self._taken: dict[str, int] = {}
        self._last: int = step.db.execute(LAST_SEQ).get

    def run(self, letters: Sequence[DeadLetter]) -> set[str]:
        for letter in letters:
            self._take_in(letter)
        add_letters(self._db, list(self._taken.values()))
        for book in self._books.values():
            book.close()
        return set(self._taken)

    def _book(self, queue: str) -> LaneBook:
        if queue not in self._books:
            self._books[queue] = LaneBook.named(self._step, queue)
        return self._books[queue]

    def _take_in(self, letter: DeadLetter) -> None:
        message = letter.message
        row = self._db.execute(SQL["known"], (message.id, message.queue, letter.progress.generation))
        known: tuple[int, int] | None = row.fetchone()
        if known is None:
            self._last += 1
            self._write("take_in", self._last, letter, self._shared(letter))
        elif known[1]:
            self._write("restore", known[0], letter, self._shared(letter))

    def _shared(self, letter: DeadLetter) -> int:
        """What it shares with its siblings, in bytes; InvalidMessage when nobody has it."""
        message = letter.message
        parents = find_parents(self._db, self._book(message.queue).queue.queue, [message])
        if (
            None in parents.values()
            and letter.shared is not None
            and self._bring_back(message, letter.shared)
        ):
            return len(letter.shared)
        return shared_size(parents, message)

    def _bring_back(self, message: Message, shared: bytes) -> bool:
        """Give a parent its body again, or the store its parent; False when another message has its id."""
        book = self._book(message.queue)
        known: tuple[int, int] | None = self._db.execute(SQL["parent"], (message.parent,)).fetchone()
        if message.parent == message.id or (known is not None and known[1] != book.queue.queue):
            return False
        if known is None:
            self._last += 1
            lane = book.tenant(message.tenant).lane
            row = (self._last, message.parent, book.queue.queue, lane, message.track, message.enqueued_at)
            self._db.execute(SQL["add_parent"], (*row, message.ttl_s, len(shared), self._step.now))
        self._db.execute(SQL["write_shared"], (self._last if known is None else known[0], shared))
        return True

    def _write(self, statement: str, seq: int, letter: DeadLetter, shared: int) -> None:
        message, progress = letter.message, letter.progress
        book = self._book(message.queue)
        lane = book.tenant(message.tenant)
        lane.dead += 1
        self._db.execute(
            SQL[statement],
            (
                seq,
                message.id,
                book.queue.queue,
                lane.lane,
                message.track,
                progress.due_at,
                progress.expires_at,
                progress.attempts,
                progress.crashes,
                progress.generation,
                len(message.body) + shared,
                message.enqueued_at,
                message.ttl_s,
                message.dedupe,
                progress.operation,
                letter.died_at,
                letter.reason,
                letter.fingerprint,
                message.parent,
                content_digest(message),
            ),
        )
        self._taken[message.id] = seq
        open_children(self._db, [message])
        self._write_content(seq, lane.lane, letter)

    def _write_content(self, seq: int, lane: int, letter: DeadLetter) -> None:
        message = letter.message
        self._db.execute(SQL["write_body"], (seq, encode_headers(message.headers), message.body))
        if message.dedupe is not None:
            key = (lane, message.dedupe, message.id, body_hash(message.body), self._step.now)
            self._db.execute(SQL["take_free_key"], key)
        add_failures(self._db, [(seq, failure) for failure in letter.failures])
        redrives = [
            (seq, each.generation, each.at, each.actor, each.operation, each.result)
            for each in letter.redrives
        ]
        self._db.executemany(MOVES["add_redrive"], redrives)
