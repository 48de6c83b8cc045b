"""Where statements come from: `sql/<dialect>/<file>.sql`, `lua/<verb>.lua` and `lua/parts/<part>.lua`.

An SQL file is cut into its sections by `machine.statements`. This module never puts text together with
values; those are bound by whoever runs the statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from redrive.machine.statements import load_sections

_MIGRATION = re.compile(r"^(\d{4})_[a-z_]+\.sql$")


def load_sql(dialect: str, file: str) -> Mapping[str, str]:
    """The named statements of `sql/<dialect>/<file>.sql`."""
    return load_sections(__package__, f"sql/{dialect}/{file}.sql")


@cache
def load_migrations(dialect: str) -> tuple[str, ...]:
    """The scripts of `sql/<dialect>/migrations` in order; the n-th leads to schema number n."""
    folder = files(__package__).joinpath("sql", dialect, "migrations")
    found = sorted(entry.name for entry in folder.iterdir() if _MIGRATION.match(entry.name))
    for number, name in enumerate(found, 1):
        if int(name[:4]) != number:
            raise ValueError(f"sql/{dialect}/migrations/{name}: expected number {number:04d}")
    return tuple(_read("sql", dialect, "migrations", name) for name in found)


@cache
def load_lua(name: str) -> str:
    """The whole text of `lua/<name>.lua`: a verb, or `parts/` and a part."""
    return _read("lua", *f"{name}.lua".split("/"))


def _read(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text("utf-8")
