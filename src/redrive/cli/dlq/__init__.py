"""`redrive dlq`: find dead letters, read one, and the commands of its other files."""

from __future__ import annotations

from cyclopts import App

from redrive.cli.dlq.choice import FilterText, asked, note_emptiness, with_freshness
from redrive.cli.messages import BRIEFLY, Detail, answer_life
from redrive.cli.output import command
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.letter import letter_lines
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.core.ports import PAGE
from redrive.office.index import LetterOrder

dlq = App(name="dlq")


@dlq.command(name="list")
async def list_letters(
    *,
    filter: FilterText = None,  # noqa: A002 - the flag's name
    queue: str | None = None,
    tenant: str | None = None,
    limit: int = 20,
    newest: bool = False,
    discarded: bool = False,
    after: str | None = None,
    reveal: bool = False,
    flags: Flags = NO_FLAGS,
) -> None:
    """Dead letters, oldest first.

    Parameters
    ----------
    filter
        Only those that match a filter, such as 'tenant:acme code:550 age:>2h'.
    queue
        Only those of this queue.
    tenant
        Only those of this tenant.
    limit
        How many at most, up to 500; default 20.
    newest
        Newest first.
    discarded
        Those that were discarded and are kept, the latest first; redrive dlq undiscard brings them back.
    after
        Continue from this cursor.
    reveal
        Show in --json what is masked; the audit records who did.
    """
    if not 1 <= limit <= PAGE:
        raise CommandError(f"--limit is {limit}: 1 to {PAGE}", Exit.USAGE)
    async with session(flags) as current:
        text = await asked(current, filter, queue, tenant)
        place = LetterOrder.NEWEST if newest else LetterOrder.OLDEST
        answer = await current.office.letters.find(
            text,
            order=place,
            after=after,
            limit=limit,
            reveal=reveal,
            whole=True,
            discarded=discarded,
        )
        page, found, now = answer.document, answer.found, current.store.now()
        current.output.answer(with_freshness(current, page), lambda: letter_lines(current.output, found, now))
        if page.empty is not None:
            await note_emptiness(current, text)
        if page.looked is not None and page.cursor is not None:
            current.output.note(f"looked at {page.looked.letters:,} of {page.looked.of:,} letters so far")
        if page.cursor is not None:
            kept = ["--filter", text] if text else []
            kept += ["--newest"] if newest else []
            kept += ["--discarded"] if discarded else []
            more = command("dlq", "list", *kept, "--limit", limit, "--after", page.cursor)
            if page.total is not None:
                current.output.note(f"{len(found):,} of {page.total:,}")
            current.output.note(f"more: {more}")
        elif found and discarded:
            back = command("dlq", "undiscard", found[0].message.id)
            current.output.note(f"bring one back: {back}")
        elif found:
            one = command("dlq", "show", found[0].message.id)
            current.output.note(f"read one: {one}; by cause: redrive dlq groups")


@dlq.command
async def show(message_id: str, /, *, detail: Detail = BRIEFLY, flags: Flags = NO_FLAGS) -> None:
    """One dead letter with everything that led there.

    Parameters
    ----------
    message_id
        The letter; the beginning of its id where no other begins so.
    """
    async with session(flags) as current:
        letter_id = await current.office.messages.whole_id(message_id)
        answer = await current.office.letters.show(letter_id, reveal=detail.reveal)
        answer_life(current, answer, detail)
        if answer.document.fingerprint:
            others = command("dlq", "group", "show", answer.document.fingerprint)
            current.output.note(f"others like it: {others}")


for place in (
    "groups:groups",
    "groups:group",
    "shape:shape",
    "sql:sql",
    "redrive:redrive",
    "redrive:discard",
    "redrive:undiscard",
    "redrive:edit",
    "files:export",
    "files:archive",
    "files:restore",
):
    dlq.command(f"redrive.cli.dlq.{place}")
