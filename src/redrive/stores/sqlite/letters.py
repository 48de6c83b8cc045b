"""The office's index of dead letters, kept in the store's own file.

`settle` and `bury` add a letter after its failures are written; whatever takes it from the dead removes it,
in the same step. Messages that do not die cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.rows import encode_list
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "letters")


def add_letters(db: apsw.Connection, seqs: Sequence[int]) -> None:
    """These messages are dead now, and their failures are written."""
    if seqs:
        db.execute(SQL["add_letters"], (encode_list(seqs),))


def remove_letters(db: apsw.Connection, ids: Iterable[str]) -> None:
    """These messages are not dead any more."""
    db.executemany(SQL["remove_letter"], [(each,) for each in ids])
