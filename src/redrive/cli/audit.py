"""`redrive audit`: who did what and when, masked, and whether a row was changed or is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cyclopts import App
from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.output import Output, clean, moment, name
from redrive.cli.output import since as instant_since
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.failure import clip
from redrive.core.records import JournalRow
from redrive.core.redaction import redact
from redrive.office.audit import Query, instant_of
from redrive.office.chain import Head, Verification
from redrive.office.documents.findings import AuditPage, row_document, verification_document

audit = App(name="audit")
_HEAD = re.compile(r"(\d{1,18}):([0-9a-f]{64})", re.ASCII)

_LONGEST = 300
_EMPTY: tuple[object, ...] = (None, "", [], 0, False)
_HASHES = frozenset(("hash", "sha256"))
_OURS = frozenset(("why",))
"""Our own words, that name an actor and hold nothing unmasked: `ana@host` is no recipient."""
_HASH_SHOWN = 12


@audit.default
@audit.command(name="list")
async def list_rows(
    *,
    actor: str | None = None,
    verb: str | None = None,
    action: str | None = None,
    since: str | None = None,
    unfinished: bool = False,
    limit: int = 50,
    flags: Flags = NO_FLAGS,
) -> None:
    """The latest rows of the audit, in order: an intent before each action, an outcome after it.

    Parameters
    ----------
    actor
        Only those of this one, such as ana@host.
    verb
        Only this, such as redrive or reveal.
    action
        Only those of this action; an operation's id is one.
    since
        Only from then on: 30m, 2h or 7d ago, or 2026-01-31T08:00Z.
    unfinished
        Only actions without an outcome: under way, or their process died.
    limit
        How many at most, the latest; default 50.
    """
    if limit < 1:
        raise CommandError(f"--limit is {limit}: at least 1", Exit.USAGE)
    async with session(flags) as current:
        since_at = None if since is None else instant_since(since, current.store.now())
        query = Query(actor, verb, action, since_at)
        rows = await _rows(current, query, limit, unfinished=unfinished)
        document = AuditPage(rows=[row_document(row) for row in rows], cursor=None)
        current.output.answer(document, lambda: audit_table(current.output, rows))


@audit.command(name="verify")
async def verify_rows(*, head: str | None = None, flags: Flags = NO_FLAGS) -> int:
    """Read the whole chain; exits with 1 when a row was changed, is missing, or the end was cut off.

    Parameters
    ----------
    head
        The POSITION:HASH that an earlier verify printed and that was kept elsewhere: it must still be there.
    """
    known = None if head is None else _head(head)
    async with session(flags) as current:
        found = await current.office.audit.verify(known)
        current.output.answer(verification_document(found), lambda: verdict(found))
        if found.whole and found.rows:
            current.output.note(f"keep this elsewhere, and later: redrive audit verify --head {found.head}")
        return Exit.OK if found.whole else Exit.FAILED


async def _rows(current: Session, query: Query, limit: int, *, unfinished: bool) -> list[JournalRow]:
    if unfinished:
        return await current.office.audit.interrupted(query, limit)
    return (await current.office.audit.latest(query, limit))[::-1]


def _head(text: str) -> Head:
    match = _HEAD.fullmatch(text.strip())
    if match is None:
        raise CommandError("--head is not POSITION:HASH as `redrive audit verify` prints it", Exit.USAGE)
    return Head(int(match[1]), match[2])


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
