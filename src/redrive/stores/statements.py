"""Where statements come from: SQL in `sql/<dialect>/<file>.sql`, Lua in `lua/<name>.lua`.

An SQL file is a head of comments, then sections that each begin with `-- name: verb_of_it`; lines of
comment are left out of what is handed to the engine, so they may stand before or inside a section.
This module never puts text together with values; those are bound by whoever runs the statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_SECTION = re.compile(r"^-- name: *([a-z_]+) *$", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_[a-z_]+\.sql$")


@cache
def load_sql(dialect: str, file: str) -> Mapping[str, str]:
    """The named statements of `sql/<dialect>/<file>.sql`."""
    parts = _SECTION.split(_read("sql", dialect, f"{file}.sql"))
    sections = {name: _without_comments(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    if 2 * len(sections) + 1 != len(parts):
        raise ValueError(f"sql/{dialect}/{file}.sql names a section twice: give each its own name")
    return MappingProxyType(sections)


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
    """The whole script `lua/<name>.lua`."""
    return _read("lua", f"{name}.lua")


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("--"))


def _read(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text("utf-8")
