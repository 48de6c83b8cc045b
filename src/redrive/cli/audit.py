"""`redrive audit`: who did what and when, and whether a row was changed or is missing."""

from __future__ import annotations

import re

from cyclopts import App

from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.audit import audit_table, verdict
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.cli.times import since as instant_since
from redrive.core.records import JournalRow
from redrive.office.audit import Query
from redrive.office.chain import Head
from redrive.office.documents.control import row_document, verification_document

audit = App(name="audit")
_HEAD = re.compile(r"(\d{1,18}):([0-9a-f]{64})", re.ASCII)


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
        document = {"rows": [row_document(row) for row in rows]}
        current.output.answer(document, lambda: audit_table(current.output, rows))


@audit.command(name="verify")
async def verify_rows(*, head: str | None = None, flags: Flags = NO_FLAGS) -> int:
    """Read the whole chain; 1 when a row was changed, is missing, or the end was cut off.

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
