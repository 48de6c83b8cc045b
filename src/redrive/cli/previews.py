"""What an operation would do, before it is asked for: the count, the split, samples, and what stays."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, command, name
from redrive.office.operations import Preview

_GROUPS_SHOWN = 20


def preview_page(output: Output, verb: str, found: Preview) -> RenderableType:
    """The whole preview."""
    lines: list[RenderableType] = [Text(f"{found.count:,} to {verb}{_stay(found)}", "bold")]
    if found.split:
        lines.append(_table(output, found))
    if found.samples:
        lines.append(Text(f"look at one: {command('dlq', 'show', found.samples[0])}", "cyan"))
    return Group(*lines)


def nothing_text(verb: str, found: Preview) -> str:
    """Why there is nothing to do."""
    return f"nothing to {verb}{_stay(found)}"


def left_text(expired: int, gone: int, missing: int) -> str:
    """What was or would be left out, and why; each part begins with a comma."""
    parts = [
        (gone, "skipped (not dead any more)"),
        (expired, "left (own time to live has passed: --include-expired takes them too)"),
        (missing, "not found"),
    ]
    return "".join(f", {count:,} {text}" for count, text in parts if count)


def _stay(found: Preview) -> str:
    return left_text(found.expired, found.gone, found.missing)


def _table(output: Output, found: Preview) -> Table:
    table = output.table("letters", "tenant", "reason", "queue", numbers=("letters",))
    for (queue, tenant, reason), count in found.split[:_GROUPS_SHOWN]:
        table.add_row(f"{count:,}", name(tenant), name(reason), name(queue))
    if len(found.split) > _GROUPS_SHOWN:
        table.caption = f"{len(found.split) - _GROUPS_SHOWN:,} more groups: --dry-run --json shows all"
    return table
