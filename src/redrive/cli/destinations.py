"""`redrive mail destinations`: where mail did not arrive, by domain and code."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from redrive.cli.dlq.choice import FilterText, asked, note_emptiness, with_freshness
from redrive.cli.output import Output, command, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.mail.stored import QUEUE
from redrive.office.destinations import DestinationCount
from redrive.office.documents.destinations import DestinationList
from redrive.office.filters import Filter
from redrive.office.filters.terms import Text as TextTerm
from redrive.office.queues import queue_term

_MOST = 10_000


async def destinations(
    *,
    filter: FilterText = None,  # noqa: A002 - the flag's name
    queue: str = QUEUE,
    tenant: str | None = None,
    limit: int = 20,
    flags: Flags = NO_FLAGS,
) -> None:
    """Dead mails by the domain that they were for and by code, the most first.

    Parameters
    ----------
    filter
        Only the letters that match a filter, such as 'code:5xx age:<2h'.
    queue
        The queue of the mails; default email:send.
    tenant
        Only this tenant's letters.
    limit
        How many rows at most; default 20.
    """
    if not 1 <= limit <= _MOST:
        raise CommandError(f"--limit is {limit}: 1 to {_MOST:,}", Exit.USAGE)
    async with session(flags) as current:
        text = await asked(current, filter, queue, tenant)
        answer = await current.office.destinations.count(text, limit=limit)
        shown = answer.document
        current.output.answer(with_freshness(current, shown), lambda: _table(current.output, shown))
        _note_limits(current, shown)
        if shown.empty is not None:
            await note_emptiness(current, text)
        if answer.found.rows:
            _advise(current, await current.office.queues.named(queue), answer.found.rows[0])


def _table(output: Output, shown: DestinationList) -> RenderableType:
    if not shown.destinations:
        return Text("no dead mails")
    table = output.table("destination", "code", "letters", numbers=("letters",))
    for one in shown.destinations:
        table.add_row(name(one.domain or "-"), name(one.code or "-"), Text(f"{one.count:,}", "red"))
    if shown.others:
        table.caption = f"{shown.others:,} more: --limit shows more"
    return table


def _note_limits(current: Session, shown: DestinationList) -> None:
    """What the table does not have."""
    if shown.masked:
        current.output.note("no destination is shown: the setting office.masked hides addresses")
    elif not shown.whole:
        current.output.note(f"of the newest {shown.looked:,} letters only: narrow it with --filter")


def _advise(current: Session, queue: str, most: DestinationCount) -> None:
    if most.domain:
        chosen = Filter((queue_term(queue), TextTerm(f"@{most.domain}")))
        current.output.note(f"read them: {command('dlq', 'list', '--filter', chosen)}")
