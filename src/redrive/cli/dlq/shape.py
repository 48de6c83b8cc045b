"""`redrive dlq shape`: dead letters by tenant and age."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from redrive.cli.dlq.choice import FilterText, asked, note_emptiness, with_freshness
from redrive.cli.output import Output, command, name
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.office.filters.terms import Named, NameField
from redrive.office.shape import Shape


async def shape(
    *,
    filter: FilterText = None,  # noqa: A002 - the flag's name
    queue: str | None = None,
    tenant: str | None = None,
    limit: int = 20,
    flags: Flags = NO_FLAGS,
) -> None:
    """Dead letters by tenant and age: a wide column says when it began, a long row who is hit.

    Parameters
    ----------
    filter
        Only the letters that match a filter.
    queue
        Only this queue's letters.
    tenant
        Only this tenant's letters.
    limit
        How many tenants at most; default 20.
    """
    async with session(flags) as current:
        text = await asked(current, filter, queue, tenant)
        answer = await current.office.letters.shape(text, limit=max(1, limit))
        found = answer.found
        document = with_freshness(current, answer.document)
        current.output.answer(document, lambda: _table(current.output, found))
        if answer.document.empty is not None:
            await note_emptiness(current, text)
        if found.rows:
            tenant = str(Named(NameField.TENANT, (found.rows[0].tenant,)))
            current.output.note(f"its causes: {command('dlq', 'groups', '--filter', tenant)}")


def _table(output: Output, found: Shape) -> RenderableType:
    if not found.rows:
        return Text("no dead letters")
    numbers = ("total", *found.labels)
    table = output.table("tenant", *numbers, numbers=numbers)
    table.add_row(Text("all", "bold"), *_counts(found.total, found.counts, "bold"))
    for row in found.rows:
        table.add_row(name(row.tenant), *_counts(row.total, row.counts))
    if found.others:
        table.caption = f"{found.others:,} more tenants: --limit shows more"
    return table


def _counts(total: int, counts: tuple[int, ...], style: str = "") -> list[Text]:
    return [Text(f"{total:,}", style or "red"), *(Text(f"{one:,}" if one else "·", style) for one in counts)]
