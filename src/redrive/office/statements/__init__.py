"""The office's statements on the index; each file's head says what is put in and what is bound."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from redrive.core.statements import sections


@cache
def load_sql(file: str) -> Mapping[str, str]:
    """The named statements of `office/statements/<file>.sql`."""
    return sections(
        files(__package__).joinpath(f"{file}.sql").read_text("utf-8"), f"office/statements/{file}.sql"
    )
