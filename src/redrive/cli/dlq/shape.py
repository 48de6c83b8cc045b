"""`redrive dlq shape`: dead letters by tenant and age."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from redrive.cli.dlq.choice import (
    FilterText,
    asked,
    emptiness,
    emptiness_document,
    freshness_document,
    note_emptiness,
)
from redrive.cli.output import Output, command, name
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.office.filters.terms import Named, NameField
from redrive.office.shape import Shape
from redrive.office.shape import shape as shape_of


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
        read = await asked(current, filter, queue, tenant)
        found = await shape_of(current.index, read, limit=max(1, limit))
        empty = await emptiness(current, read, found.total)
        document = _shape_document(found) | {
            "empty": emptiness_document(empty),
            "index": freshness_document(current),
        }
        current.output.answer(document, lambda: _shape_table(current.output, found))
        note_emptiness(current, empty)
        if found.rows:
            tenant = str(Named(NameField.TENANT, (found.rows[0].tenant,)))
            current.output.note(f"its causes: {command('dlq', 'groups', '--filter', tenant)}")


def _shape_document(found: Shape) -> dict[str, Any]:
    return {
        "ages": list(found.labels),
        "total": found.total,
        "counts": list(found.counts),
        "tenants": [
            {"companyId": row.tenant, "total": row.total, "counts": list(row.counts)} for row in found.rows
        ],
        "others": found.others,
    }


def _shape_table(output: Output, found: Shape) -> RenderableType:
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
