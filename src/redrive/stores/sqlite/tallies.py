"""What was counted for operations, as the file keeps it."""

from __future__ import annotations

import apsw

from redrive.core.letters import OperationTally
from redrive.stores.rules.tallies import Tallies
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "tallies")

KEPT_MS = 30 * 86_400_000


def write_tallies(unit: Unit, tallies: Tallies) -> None:
    """Add what one write counted."""
    unit.db.executemany(SQL["count"], [(*row, unit.now) for row in tallies.rows()])


def tally(db: apsw.Connection, operation: str) -> OperationTally:
    """The work of `Ledger.tally`."""
    row = db.execute(SQL["tally"], (operation,)).fetchone()
    return OperationTally() if row is None else OperationTally(*row)


def remove_tallies(unit: Unit, limit: int) -> None:
    """Tallies of operations for which nothing was counted for long."""
    unit.db.execute(SQL["remove_tallies"], (unit.now - KEPT_MS, limit))
