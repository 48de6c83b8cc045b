"""What a person's SQL may do: read `dlq` and call plain functions, for a while, within bounds.

Everything that is not listed is refused: no other table, no PRAGMA, ATTACH or extension, no recursion. Known
weakness: time and memory are looked at between steps of SQLite's machine; a single step is bounded by the
length of a value alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import apsw

from redrive.core.errors import RedriveError

TABLE = "dlq"
_READABLE = frozenset((TABLE, "json_each", "json_tree"))
_ALLOWED = """
-> ->> abs avg ceil ceiling char coalesce concat concat_ws count cume_dist current_date current_time
current_timestamp date datetime dense_rank exp first_value floor format glob group_concat hex if ifnull
iif instr json json_array json_array_length json_extract json_group_array json_group_object json_object
json_quote json_type json_valid julianday lag last_value lead length like ln log log10 log2 lower ltrim
max median min mod nth_value ntile nullif octet_length percent_rank percentile percentile_cont
percentile_disc pow power printf quote random rank replace round row_number rtrim sign sqrt strftime
string_agg substr substring sum time timediff total trim trunc typeof unhex unicode unixepoch upper
"""
_FUNCTIONS = frozenset(_ALLOWED.split())
_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: 1024 * 1024,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_COLUMN: 200,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    apsw.SQLITE_LIMIT_VDBE_OP: 25_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 20,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_STEPS = 5_000


class SqlError(RedriveError):
    """SQL that cannot be answered: where (counted from 0, where known), what is wrong, what to do."""

    def __init__(self, position: int | None, problem: str, advice: str) -> None:
        self.position, self.problem, self.advice = position, problem, advice
        where = "" if position is None else f", character {position + 1}"
        super().__init__(f"sql{where}: {problem}: {advice}")


@dataclass(slots=True)
class Guard:
    """Asked by SQLite about all that a statement would do; remembers what it reads, and why it said no."""

    columns: set[str] = field(default_factory=set)
    refused: str | None = None

    def __call__(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        problem = self._problem(action, first, second)
        if problem is None:
            return apsw.SQLITE_OK
        self.refused = self.refused or problem
        return apsw.SQLITE_DENY

    def _problem(self, action: int, first: str | None, second: str | None) -> str | None:
        match action:
            case apsw.SQLITE_SELECT:
                return None
            case apsw.SQLITE_READ:
                return self._reading(first or "", second or "")
            case apsw.SQLITE_FUNCTION:
                allowed = (second or "").lower() in _FUNCTIONS
                return None if allowed else f"the function {second} may not be used"
            case apsw.SQLITE_RECURSIVE:
                return "a recursive query may not be used"
        name = apsw.mapping_authorizer_function[action]
        return f"{str(name).removeprefix('SQLITE_').replace('_', ' ')} may not be used, only SELECT"

    def _reading(self, table: str, column: str) -> str | None:
        """Without a column only the number of rows is read, also of what the statement itself names."""
        if table == TABLE:
            self.columns.add(column)
        hidden = table.lower().startswith(("sqlite_", "pragma_"))
        if table in _READABLE or (not column and not hidden):
            return None
        return f"there is no table {table} here"


class Bounds:
    """Stops the machine when its time is over, when it takes too much memory, or when its asker has left."""

    def __init__(self, time_s: float, memory_bytes: int, left: Callable[[], bool]) -> None:
        self._ends_s = time.monotonic() + time_s
        self._time_s = time_s
        self._memory = apsw.memory_used() + memory_bytes
        self._left = left
        self.problem: str | None = None

    def __call__(self) -> bool:
        if time.monotonic() > self._ends_s:
            self.problem = f"it took longer than {self._time_s:g} s"
        elif apsw.memory_used() > self._memory:
            self.problem = "it took too much memory"
        elif self._left():
            self.problem = "its asker has left"
        return self.problem is not None


def watch(db: apsw.Connection, bounds: Bounds) -> None:
    """From now on within these bounds."""
    db.set_progress_handler(bounds, _STEPS)


def restrict(db: apsw.Connection, guard: Guard) -> None:
    """From now on only what the guard lets through."""
    for limit, value in _LIMITS.items():
        db.limit(limit, value)
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
    db.authorizer = guard
