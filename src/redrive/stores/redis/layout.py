"""Which keys there are: the table at the head of lua/queue.lua, and the few that belong to no queue.

The documentation shows it and the tests hold every key against it, so that none is left undocumented. A word
in capitals stands for a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from redrive.stores.statements import load_lua

_ROW = re.compile(r"^--   ([:(]\S*(?: :\S+)*)\s+(string|hash|list|set|zset|stream)\s+(.+)$")
_MORE = re.compile(r"^--\s{10,}(\S.*)$")


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
    for line in load_lua("queue").splitlines():
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
