"""`redrive dlq sql`: one SELECT over a copy of the dead letters, written or kept by name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.problems import CommandError, Exit, PlacedError
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.office.documents.findings import sql_document
from redrive.office.sql import SAVED, SqlAnswer, SqlError, Value

_BESIDE = 2


async def sql(
    text: str | None = None,
    /,
    *,
    saved: str | None = None,
    reveal: bool = False,
    flags: Flags = NO_FLAGS,
) -> int:
    """Ask in SQL: one SELECT from the table dlq, such as "SELECT reason, count(*) FROM dlq GROUP BY 1".

    Parameters
    ----------
    text
        The SELECT.
    saved
        One that is kept: by-code, by-company, by-reason, by-hour, failed-again or oldest.
    reveal
        Have originalData without masks; the audit records who did.
    """
    statement = _statement(text, saved)
    async with session(flags) as current:
        answer = await _ask(current, statement, reveal=reveal)
        document = {"sql": statement, **msgspec.to_builtins(sql_document(answer))}
        current.output.answer(document, lambda: _table(current.output, answer.columns, answer.rows))
        _note_cuts(current.output, answer)
        return Exit.OK


def _statement(text: str | None, saved: str | None) -> str:
    known = ", ".join(SAVED)
    if (text is None) == (saved is None):
        raise CommandError(f"write one SELECT in quotes, or --saved with one of {known}", Exit.USAGE)
    if text is not None:
        return text
    if saved not in SAVED:
        raise CommandError(f"--saved {saved!r} is not kept; there is: {known}", Exit.NOT_FOUND)
    return SAVED[str(saved)]


async def _ask(current: Session, statement: str, *, reveal: bool) -> SqlAnswer:
    try:
        return await current.office.sql.ask(statement, reveal=reveal)
    except SqlError as error:
        if error.position is None:
            raise
        raise PlacedError(f"sql: {error.problem}: {error.advice}", statement, error.position) from error


def _table(output: Output, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> RenderableType:
    if not rows:
        return Text("no rows")
    if sum(len(header) + _BESIDE for header in columns) > output.console.width:
        return _records(columns, rows)
    table = output.table()
    for header, column in zip(columns, zip(*rows, strict=True), strict=True):
        number = all(isinstance(value, int | float | None) for value in column)
        table.add_column(name(header), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*("" if value is None else name(value) for value in row))
    return table


def _records(columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> RenderableType:
    """Rows that are too wide to stand side by side: a line a value, a blank line between two rows."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, row in enumerate(rows):
        if number:
            grid.add_row()
        for header, value in zip(columns, row, strict=True):
            grid.add_row(name(header), "" if value is None else name(value))
    return grid


def _note_cuts(output: Output, answer: SqlAnswer) -> None:
    if answer.more:
        output.note(f"only the first {len(answer.rows):,} rows: narrow it, or count and group")
    if answer.copied.letters < answer.copied.of:
        output.note(f"asked of the newest {answer.copied.letters:,} of {answer.copied.of:,} letters")
