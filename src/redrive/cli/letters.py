"""Dead letters on the terminal: the list, the preview of a move, and what a move came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from rich.cells import set_cell_size
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, clean, name, words
from redrive.cli.session import Session
from redrive.cli.times import age
from redrive.core.letters import DeadLetter
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from redrive.office.letters import Selection, Tally, as_letter

_NAME_WIDTH = 14
_GROUPS_SHOWN = 20
_PAST = {"redrive": "re-driven", "discard": "discarded"}


def letter_lines(output: Output, letters: list[DeadLetter], now: int) -> RenderableType:
    """Two lines a letter, so that an id is never cut and the reason has room."""
    if not letters:
        return Text("no dead letters")
    tenants, queues = (
        min(_NAME_WIDTH if not output.roomy else 40, max(map(len, column)))
        for column in (
            [clean(letter.message.tenant) for letter in letters],
            [clean(letter.message.queue) for letter in letters],
        )
    )
    lines: list[RenderableType] = []
    for letter in letters:
        message = letter.message
        lines.append(
            Text.assemble(
                (clean(message.id), "bold"),
                f"  {_cut(message.tenant, tenants)}  {_cut(message.queue, queues)}",
                (f"  {letter.reason:<11}", "red"),
                (f" {age(letter.died_at, now):>6}", "dim"),
                no_wrap=True,
                overflow="ellipsis",
            )
        )
        lines.append(_last_failure(letter))
    return Group(*lines)


def _last_failure(letter: DeadLetter) -> Text:
    last = letter.failures[-1] if letter.failures else None
    reason = last.reason if last else letter.reason.value
    attempts = f"attempt {last.attempt}" if last else "never tried"
    code = f" [{last.code}]" if last and last.code else ""
    line = Text("    ", no_wrap=True, overflow="ellipsis")
    return line.append_text(words(f"{attempts}: {reason}{code}"))


def _cut(text: str, width: int) -> str:
    plain = clean(text)
    return set_cell_size(plain, width) if len(plain) <= width else set_cell_size(plain, width - 1) + "…"


@dataclass(slots=True)
class Preview:
    """What a move would do, and to whose letters."""

    tally: Tally
    groups: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def document(self) -> dict[str, Any]:
        groups = [
            {"queue": queue, "companyId": tenant, "reason": reason, "count": count}
            for (queue, tenant, reason), count in self.groups.most_common()
        ]
        return tally_document(self.tally) | {"groups": groups}

    def page(self, output: Output, verb: str) -> RenderableType:
        """The count, split by queue, tenant and reason."""
        lines: list[RenderableType] = [Text(tally_text(verb, self.tally, planned=True), "bold")]
        if self.groups:
            lines.append(self._table(output))
        return Group(*lines)

    def _table(self, output: Output) -> Table:
        table = output.table("letters", "tenant", "reason", "queue", numbers=("letters",))
        for (queue, tenant, reason), count in self.groups.most_common(_GROUPS_SHOWN):
            table.add_row(f"{count:,}", name(tenant), name(reason), name(queue))
        if len(self.groups) > _GROUPS_SHOWN:
            table.caption = f"{len(self.groups) - _GROUPS_SHOWN:,} more groups: --dry-run --json shows all"
        return table


async def preview(current: Session, selection: Selection, *, stale: bool) -> Preview:
    """Count what a move would find; changes nothing."""
    found = Preview(await current.letters.preview(selection, stale=stale))
    async for letter in _selected(current, selection):
        found.groups[letter.message.queue, letter.message.tenant, letter.reason.value] += 1
    return found


async def _selected(current: Session, selection: Selection) -> AsyncIterator[DeadLetter]:
    for message_id in dict.fromkeys(selection.ids):
        account = await current.messages.find(message_id)
        if account is not None and account.state is State.DEAD:
            yield as_letter(account)
    left, cursor = selection.limit, None
    while not selection.ids and (left is None or left > 0):
        size = PAGE if left is None else min(PAGE, left)
        letters, cursor = await current.letters.page(selection.queue, cursor, size)
        for letter in letters:
            yield letter
        left = None if left is None else left - len(letters)
        if cursor is None:
            return


def tally_document(tally: Tally) -> dict[str, Any]:
    """What a move came to."""
    return {
        "moved": tally.moved,
        "skipped": tally.skipped,
        "expired": tally.stale,
        "notFound": tally.missing,
    }


def tally_text(verb: str, tally: Tally, *, planned: bool = False) -> str:
    """The same in words."""
    lead = f"{tally.moved:,} to {verb}" if planned else f"{tally.moved:,} {_PAST[verb]}"
    parts = [
        (tally.skipped, "skipped (not dead any more)"),
        (tally.stale, "left (own time to live has passed: --include-expired takes them too)"),
        (tally.missing, "not found"),
    ]
    return ", ".join([lead, *(f"{count:,} {text}" for count, text in parts if count)])
