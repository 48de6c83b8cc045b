"""Scripts, put together once: a verb's file behind the files that its `Composed after` line names.

A verb's first line is its shebang, which Redis wants first, so it goes to the front of the whole. Nothing
is ever put into a script's text but other scripts; values travel as ARGV.
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
    composed = _COMPOSED.search(rest)
    if composed is None or not shebang.startswith("#!lua"):
        raise ValueError(f"lua/{verb}.lua needs a shebang line and a line 'Composed after: ...'")
    parts = [load_lua(name.strip()) for name in composed[1].split(",")]
    text = "\n".join([shebang, *parts, rest])
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
