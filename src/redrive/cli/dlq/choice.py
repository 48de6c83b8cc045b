"""Which letters a command means: ids, a filter, a queue, or all; and the letters themselves, page by page.

Letters are named in exactly one way, so that a forgotten argument never means "all". A filter that cannot be
read is shown with a caret under the place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from redrive.cli.problems import CommandError, Exit, PlacedError
from redrive.cli.session import Session
from redrive.office.documents.document import Document
from redrive.office.filters import FilterError
from redrive.office.operations import Selection

FilterText = Annotated[str | None, Parameter(allow_leading_hyphen=True)]
"""A filter may begin with a negated term."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which letters, for commands that do something to them."""

    filter: FilterText = None
    """Those that match a filter, such as 'tenant:acme code:550 age:>2h'."""

    queue: str | None = None
    """Those of this queue; together with --filter, those that match both."""

    tenant: str | None = None
    """Those of this tenant; together with --filter, those that match both."""

    all: bool = False
    """Those of every queue."""

    limit: int | None = None
    """At most this many, oldest first."""


NO_CHOICE = Choice()


async def selection(current: Session, ids: tuple[str, ...], choice: Choice) -> Selection:
    """The letters that the arguments name; exactly one way of naming them."""
    found = any(given is not None for given in (choice.filter, choice.queue, choice.tenant))
    if (bool(ids), found, choice.all).count(True) != 1:
        raise CommandError(
            "say which letters: ids, or --filter, --queue and --tenant, or --all; one of them", Exit.USAGE
        )
    if choice.filter is not None and not choice.filter.strip():
        raise CommandError("--filter is empty, which matches every letter: use --all for that", Exit.USAGE)
    if choice.limit is not None and (choice.limit < 1 or ids):
        raise CommandError(
            "--limit is at least 1, and goes with --filter, --queue, --tenant or --all", Exit.USAGE
        )
    if ids:
        return Selection(ids=ids)
    wanted = await asked(current, choice.filter, choice.queue, choice.tenant)
    return Selection(filter=wanted, limit=choice.limit)


async def asked(current: Session, text: str | None, queue: str | None, tenant: str | None) -> str:
    """The filter of these flags together; without any, every letter."""
    letters = current.office.letters
    try:
        await letters.filter(text or "")
    except FilterError as error:
        raise PlacedError(
            f"--filter: {error.problem}: {error.advice}. `redrive docs filters` has the language",
            text or "",
            error.position,
        ) from error
    try:
        return str(await letters.filter(text or "", queue, tenant))
    except FilterError as error:
        raise CommandError(f"--queue or --tenant: {error.problem}: {error.advice}", Exit.USAGE) from error


async def note_emptiness(current: Session, text: str, found: int = 0) -> None:
    """Say why a filter finds nothing, where it does."""
    letters = current.office.letters
    empty = await letters.explain(await letters.filter(text), found)
    for sentence in () if empty is None else empty.sentences:
        current.output.note(sentence)


def with_freshness(current: Session, document: Document) -> dict[str, Any]:
    """A document, and how it stands to the store; for people a note when it is behind."""
    fresh = current.office.letters.freshness
    if fresh.problem is not None:
        current.output.note(f"as of {fresh.stale_s:.0f} s ago: the store does not answer ({fresh.problem})")
    elif fresh.behind:
        current.output.note("not all letters are known here yet: ask again in a moment")
    stands = {"staleSeconds": fresh.stale_s, "behind": fresh.behind, "problem": fresh.problem}
    return {**msgspec.to_builtins(document), "index": stands}
