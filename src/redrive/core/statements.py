"""How a file of statements is cut: a head of comments, then sections that begin with `-- name: verb_of_it`.

Lines of comment are left out, so they may stand before or inside a section. Whoever reads the file and runs
the statements binds the values; text and values are never put together here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_SECTION = re.compile(r"^-- name: *([a-z_]+) *$", re.MULTILINE)


def sections(text: str, origin: str) -> Mapping[str, str]:
    """The statements of a file by name; `origin` names the file in an error."""
    parts = _SECTION.split(text)
    found = {name: _without_comments(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    if 2 * len(found) + 1 != len(parts):
        raise ValueError(f"{origin} names a section twice: give each its own name")
    return MappingProxyType(found)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("--"))
