"""One SELECT on its way: looked at, a copy made of what it reads, asked, its answer cut to size.

All of it is blocking and belongs in a thread. Nothing of the copy outlives the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import apsw

from redrive.office.index.read import translate
from redrive.office.sql.copy import Copied, Mask, fill_table, make_table
from redrive.office.sql.guard import Bounds, Guard, SqlError, restrict, watch

Value = str | int | float | None
LENGTH = 20_000
_ADVICE = "`redrive docs sql` has the table and what may be asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """How much a question may cost."""

    letters: int = 100_000
    payload_bytes: int = 64 * 1024 * 1024
    rows: int = 1_000
    result_bytes: int = 4 * 1024 * 1024
    time_s: float = 5.0
    memory_bytes: int = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The rows found. `more`: the answer was cut at its limit. `copied`: of how many letters it speaks."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    more: bool
    copied: Copied

    @property
    def complete(self) -> bool:
        """Whether nothing was left out, neither letters nor rows."""
        return not self.more and self.copied.letters == self.copied.of


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of a statement before it runs."""

    text: str
    names: tuple[str, ...]
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """A text, where its letters are, and what it may cost. `left` says whether its asker has gone."""

    text: str
    address: str
    scope: str | None
    limits: SqlLimits
    mask: Mask | None
    ttl_ms: int | None
    left: Callable[[], bool]

    def answer(self) -> SqlAnswer:
        """The answer, or SqlError."""
        seen = examine(self.text)
        bounds = Bounds(self.limits.time_s, self.limits.memory_bytes, self.left)
        db = apsw.Connection(":memory:", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        try:
            watch(db, bounds)
            make_table(db)
            copied = self._copy(db, seen)
            return self._ask(db, seen, copied)
        except apsw.InterruptError:
            raise SqlError(None, bounds.problem or "it was stopped", "ask for less at a time") from None
        finally:
            db.close()

    def _copy(self, db: apsw.Connection, seen: _Seen) -> Copied:
        try:
            return fill_table(
                db,
                self.address,
                seen.reads,
                scope=self.scope,
                letters=self.limits.letters,
                payload_bytes=self.limits.payload_bytes,
                mask=self.mask,
                ttl_ms=self.ttl_ms,
            )
        except apsw.InterruptError:
            raise
        except apsw.Error as error:
            raise translate(error) from error

    def _ask(self, db: apsw.Connection, seen: _Seen, copied: Copied) -> SqlAnswer:
        guard = Guard()
        restrict(db, guard)
        try:
            rows, more = self._cut(db.execute(seen.text))
        except apsw.InterruptError:
            raise
        except apsw.Error as error:
            raise _refusal(error, guard, self.text) from None
        return SqlAnswer(seen.names, tuple(rows), more, copied)

    def _cut(self, found: Iterable[tuple[object, ...]]) -> tuple[list[tuple[Value, ...]], bool]:
        """The rows that fit, and whether there were more."""
        rows: list[tuple[Value, ...]] = []
        size = 0
        for row in found:
            values = tuple(map(_value, row))
            size += sum(len(value) if isinstance(value, str) else 8 for value in values)
            if len(rows) == self.limits.rows or size > self.limits.result_bytes:
                return rows, True
            rows.append(values)
        return rows, False


def examine(text: str) -> _Seen:
    """The one statement of a text and what it reads, without running it; SqlError when it is refused."""
    if len(text) > LENGTH:
        raise SqlError(LENGTH, f"longer than {LENGTH} characters", "make it shorter")
    guard = Guard()
    db = apsw.Connection(":memory:")
    try:
        make_table(db)
        restrict(db, guard)
        seen = _prepare(db, text)
        if seen is None:
            raise SqlError(None, "there is no SELECT in it", "write one")
        rest = text[len(seen.text) :]
        if rest and _prepare(db, rest) is not None:
            raise SqlError(len(seen.text), "there is a second statement", "ask one SELECT at a time")
        return _Seen(seen.text, seen.names, frozenset(guard.columns))
    except apsw.Error as error:
        raise _refusal(error, guard, text) from None
    except ValueError:
        raise SqlError(
            None, "the text holds what SQL cannot: NUL or broken Unicode", "leave it out"
        ) from None
    finally:
        db.close()


def _prepare(db: apsw.Connection, text: str) -> _Seen | None:
    """The first statement of a text, or None where there are only comments."""
    found: list[_Seen] = []

    def stop(cursor: apsw.Cursor, statement: str, _: object) -> bool:
        names = tuple(column[0] for column in cursor.get_description())
        if names:
            found.append(_Seen(statement, names))
        return False

    db.exec_trace = stop
    try:
        db.execute(text)
    except apsw.ExecTraceAbort:
        pass
    finally:
        db.exec_trace = None
    return found[0] if found else None


def _refusal(error: apsw.Error, guard: Guard, text: str) -> SqlError:
    if guard.refused is not None:
        return SqlError(None, guard.refused, _ADVICE)
    offset = getattr(error, "error_offset", -1)
    position = None if offset < 0 else len(text.encode()[:offset].decode(errors="ignore"))
    return SqlError(position, str(error), _ADVICE)


def _value(value: object) -> Value:
    """A value that JSON can carry: a blob in hex, what is not finite as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float) else None
