"""Scripts, put together once: a verb's file behind the parts that its `Composed after` line names.

A part may name others in the same way; each stands once, before whoever needs it. A verb's first line is its
shebang, which Redis wants first, so it goes to the front of the whole. Nothing is ever put into a script's
text but other scripts; values travel as ARGV.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha1

from redrive.stores.statements import load_lua

_COMPOSED = re.compile(r"^-- Composed after: ([a-z_, ]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script's whole text and the name that the server knows it by."""

    text: str
    sha: str


@cache
def load_script(verb: str) -> Script:
    """The script of a verb, ready to run."""
    shebang, _, rest = load_lua(verb).partition("\n")
    parts = parts_of(verb)
    if not parts or not shebang.startswith("#!lua"):
        raise ValueError(f"lua/{verb}.lua needs a shebang line and a line 'Composed after: ...'")
    text = "\n".join([shebang, *map(load_lua, parts), rest])
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def parts_of(name: str) -> list[str]:
    """The parts that a file stands behind, in order."""
    composed = _COMPOSED.search(load_lua(name))
    found: dict[str, None] = {}
    for part in composed[1].split(",") if composed else ():
        found |= dict.fromkeys([*parts_of(part.strip()), part.strip()])
    return list(found)
