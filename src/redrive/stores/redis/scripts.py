"""Scripts, put together once, and the keys that they write.

A verb's file stands behind the parts that its `Composed after` line names. A part may name others in the
same way; each stands once, before whoever needs it. A verb's first line is its shebang, which Redis wants
first, so it goes to the front of the whole. Nothing is ever put into a script's text but other scripts;
values travel as ARGV.

Each file stands in a function inside the one before it. A call runs the whole text and so builds every
function anew, and for each variable that one captures Lua looks through those that are open in the same
function: in one flat text of 150 functions that cost more than the work of most calls.

The keys are the table at the head of lua/parts/root.lua, and the few that belong to no queue. The
documentation shows them and the tests hold every key against them, so that none is left undocumented. A word
in capitals stands for a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha1

from redrive.stores.statements import load_lua

_COMPOSED = re.compile(r"^-- Composed after: ([a-z_, ]+)$", re.MULTILINE)
_ROW = re.compile(r"^--   ([:(]\S*(?: :\S+)*)\s+(string|hash|list|set|zset|stream)\s+(.+)$")
_MORE = re.compile(r"^--\s{10,}(\S.*)$")


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
    nested = "\nreturn (function()\n".join([*map(load_lua, parts), rest]) + "end)()\n" * len(parts)
    text = f"{shebang}\n{nested}"
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def parts_of(name: str) -> list[str]:
    """The parts that a file stands behind, in order."""
    composed = _COMPOSED.search(load_lua(name))
    found: dict[str, None] = {}
    for part in composed[1].split(", ") if composed else ():
        found |= dict.fromkeys([*parts_of(f"parts/{part}"), f"parts/{part}"])
    return list(found)


@dataclass(frozen=True, slots=True)
class Key:
    """A key below the prefix, its type and what it holds; one that ends by itself says that it expires."""

    name: str
    kind: str
    meaning: str

    @property
    def may_expire(self) -> bool:
        return re.search(r"\bexpires\b", self.meaning) is not None

    @property
    def must_expire(self) -> bool:
        return self.may_expire and "expires when" not in self.meaning

    def matches(self, name: str) -> bool:
        """Whether a key (without its prefix) is one of these."""
        parts = re.split(r"[A-Z]+", self.name)
        return re.fullmatch(".+".join(map(re.escape, parts)), name, re.DOTALL) is not None


_OTHERS = (
    Key(":format", "string", "the number of this layout"),
    Key(":queues", "set", "every queue that ever had a message or a setting"),
    Key("/records:{KIND}", "zset", "ids of a kind of records: API keys, operations, workers, …"),
    Key("/records:{KIND}:r:ID", "hash", "one record: its version and JSON document; expires when it says so"),
    Key("/journal:{NAME}", "stream", "a journal, such as the audit: one JSON document a row"),
    Key("/totals:{all}", "hash", "name, label and part -> how many, of all that processes counted"),
    Key("/totals:{all}:labels:KIND", "set", "the labels of a kind that were given: queues, tenants, codes"),
    Key(
        "/totals:{all}:minutes:HOUR:QUEUE",
        "hash",
        "minute of that hour -> accepted, done, retried, dead, released; expires",
    ),
    Key("/totals:{all}:from:PROCESS", "string", "the number of the last batch that a process added; expires"),
)


def read_layout() -> list[Key]:
    """Every key, the common ones first."""
    return [*_OTHERS, *_queue_keys()]


def markdown_table() -> str:
    """The layout as the documentation shows it."""
    rows = [f"| `PREFIX{key.name}` | {key.kind} | {key.meaning} |" for key in read_layout()]
    return "\n".join(["| key | type | what it holds |", "| --- | --- | --- |", *rows])


def _queue_keys() -> list[Key]:
    rows: list[tuple[list[str], str, str]] = []
    for line in load_lua("parts/root").splitlines():
        if row := _ROW.match(line):
            rows.append((row[1].split(), row[2], row[3]))
        elif rows and (more := _MORE.match(line)):
            names, kind, meaning = rows[-1]
            rows[-1] = names, kind, f"{meaning} {more[1]}"
        elif rows:
            break
    return [
        Key("{QUEUE}".join((":", name.replace("(root)", ""))), kind, meaning)
        for names, kind, meaning in rows
        for name in names
    ]
