"""How a file of statements is cut: a head of comments, then sections that begin with `-- name: verb_of_it`.

A section that begins with `-- part: columns_of_it` is no statement: where a later one says `{columns_of_it}`,
its text stands, so that a list of columns is written once. Lines of comment are left out, so they may stand
before or inside a section. Whoever runs the statements binds the values; text and values are never put
together here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_SECTION = re.compile(r"^-- (name|part): *([a-z_]+) *$", re.MULTILINE)


@cache
def load_sections(package: str, path: str) -> Mapping[str, str]:
    """The statements of a file in a package, by name."""
    return sections(files(package).joinpath(*path.split("/")).read_text("utf-8"), path)


def sections(text: str, origin: str) -> Mapping[str, str]:
    """The statements of a file by name; `origin` names the file in an error."""
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    cut = _SECTION.split(text)
    for kind, name, body in zip(cut[1::3], cut[2::3], cut[3::3], strict=True):
        if name in found[kind]:
            raise ValueError(f"{origin} names a section twice: give each its own name")
        statement = _without_comments(body)
        for part, words in found["part"].items():
            statement = statement.replace(f"{{{part}}}", words)
        found[kind][name] = statement
    return MappingProxyType(found["name"])


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("--"))
