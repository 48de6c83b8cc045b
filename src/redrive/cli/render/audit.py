"""The audit for people: a row a line, masked, and whether the chain is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.output import Output, clean, name
from redrive.cli.times import moment
from redrive.core.failure import clip
from redrive.core.records import JournalRow
from redrive.core.redaction import redact
from redrive.office.audit import instant_of
from redrive.office.chain import Verification

_LONGEST = 300
_EMPTY: tuple[object, ...] = (None, "", [], 0, False)
_HASHES = frozenset(("hash", "sha256"))
_OURS = frozenset(("why",))
"""Our own words, that name an actor and hold nothing unmasked: `ana@host` is no recipient."""
_HASH_SHOWN = 12


def audit_table(output: Output, rows: list[JournalRow]) -> RenderableType:
    """The rows in order, an intent before each action, an outcome after it."""
    if not rows:
        return Text("no rows")
    table = output.table("row", "at (UTC)", "who", "did", "", "what", numbers=("row",), words=("what",))
    for row in rows:
        document = row.document
        table.add_row(
            str(row.position),
            moment(instant_of(row)),
            name(f"{document.get('actor')} ({document.get('origin')})"),
            name(document.get("verb", "")),
            _step(document),
            name(_what(document)),
        )
    return table


def _step(document: Mapping[str, Any]) -> Text:
    step = clean(document.get("row", ""))
    if step != "outcome":
        return Text(step, "dim")
    return Text("done", "green") if document.get("ok") else Text("failed", "red")


def _what(document: Mapping[str, Any]) -> str:
    """The subject or the result, leaf by leaf, masked, without what is empty; a hash by its beginning."""
    content = document.get("subject") or document.get("result") or {}
    leaves = _leaves({**content, "error": document.get("error")})
    return clip(", ".join(_leaf(key, value) for key, value in leaves), _LONGEST)


def _leaf(key: str, value: str) -> str:
    text = clean(f"{key}={value}")
    return text if key in _OURS else redact(text)


def _leaves(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        elif value not in _EMPTY:
            text = value if isinstance(value, str) else json.dumps(value)
            yield key, text[:_HASH_SHOWN] if key in _HASHES else text


def verdict(found: Verification) -> RenderableType:
    """Whether every row is there as it was written."""
    if found.whole:
        return Text(f"{found.rows:,} rows, the chain is whole", "green")
    lines = [Text(f"{found.rows:,} rows, the chain is broken:", "bold red")]
    lines += [Text(f"  row {fault.position}: {clean(fault.what)}") for fault in found.faults]
    return Group(*lines)
