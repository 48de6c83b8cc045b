"""`redrive dlq groups` and `group`: the causes behind dead letters, and what people said about them."""

from __future__ import annotations

import msgspec
from cyclopts import App
from rich.text import Text

from redrive.cli.dlq.choice import FilterText, asked, note_emptiness, with_freshness
from redrive.cli.output import command, name
from redrive.cli.output import until as instant_until
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.group import group_lines, said_page
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.office.documents.groups import said_document, shown_group
from redrive.office.groups import Group, GroupBy, group_term
from redrive.office.groups.said import Said

group = App(name="group", help="Say what is known about a group of dead letters.")

_ALL_GROUPS = 10_000


async def groups(
    *,
    by: GroupBy = GroupBy.FINGERPRINT,
    filter: FilterText = None,  # noqa: A002 - the flag's name
    queue: str | None = None,
    tenant: str | None = None,
    limit: int = 20,
    flags: Flags = NO_FLAGS,
) -> None:
    """The groups of dead letters, the largest first: how many, since when, whom they hit, and one to read.

    Parameters
    ----------
    by
        What they have in common: fingerprint (the cause), code, reason, tenant, queue or age.
    filter
        Only of the letters that match a filter, such as 'tenant:acme age:<2h'.
    queue
        Only of this queue's letters.
    tenant
        Only of this tenant's letters.
    limit
        How many groups at most; default 20.
    """
    if not 1 <= limit <= _ALL_GROUPS:
        raise CommandError(f"--limit is {limit}: 1 to {_ALL_GROUPS:,}", Exit.USAGE)
    async with session(flags) as current:
        text = await asked(current, filter, queue, tenant)
        answer = await current.office.groups.find(by, text, limit=limit)
        document, now = with_freshness(current, answer.document) | {"by": by.value}, current.store.now()
        current.output.answer(document, lambda: group_lines(current.output, answer.found, now))
        if answer.document.empty is not None:
            await note_emptiness(current, text)
        if answer.found:
            _advise(current, answer.found[0])


@group.command
async def show(key: str, /, *, by: GroupBy = GroupBy.FINGERPRINT, flags: Flags = NO_FLAGS) -> None:
    """One group, and everything that was said about it.

    Parameters
    ----------
    key
        Its fingerprint, or what else --by names.
    by
        What the key is; default fingerprint.
    """
    async with session(flags) as current:
        found, said = await _known(current, by, key)
        document, now = shown_group(by, key, found, said), current.store.now()
        current.output.answer(document, lambda: said_page(current.output, found, said, now))
        if found is not None:
            _advise(current, found)


@group.command
async def note(key: str, text: str, /, *, by: GroupBy = GroupBy.FINGERPRINT, flags: Flags = NO_FLAGS) -> None:
    """Write a note on a group, for whoever comes next.

    Parameters
    ----------
    key
        Its fingerprint, or what else --by names.
    text
        The note.
    by
        What the key is; default fingerprint.
    """
    async with session(flags) as current:
        await _known(current, by, key)
        _answer(current, key, await current.office.groups.note(by, key, text), "has a new note")


@group.command
async def ignore(
    key: str,
    /,
    *,
    until_count: int | None = None,
    until: str | None = None,
    by: GroupBy = GroupBy.FINGERPRINT,
    flags: Flags = NO_FLAGS,
) -> None:
    """Ignore a group until it has this many letters, or until a time.

    Parameters
    ----------
    key
        Its fingerprint, or what else --by names.
    until_count
        Until it has this many letters.
    until
        For 2h or 7d, or until 2026-01-31T08:00Z.
    by
        What the key is; default fingerprint.
    """
    async with session(flags) as current:
        await _known(current, by, key)
        until_at = None if until is None else instant_until(until, current.store.now())
        said = await current.office.groups.ignore(by, key, until_count=until_count, until_at=until_at)
        _answer(current, key, said, "is ignored")


@group.command
async def resolve(key: str, /, *, by: GroupBy = GroupBy.FINGERPRINT, flags: Flags = NO_FLAGS) -> None:
    """Mark the cause as fixed; the group reopens by itself when another of its letters dies.

    Parameters
    ----------
    key
        Its fingerprint, or what else --by names.
    by
        What the key is; default fingerprint.
    """
    async with session(flags) as current:
        await _known(current, by, key)
        _answer(current, key, await current.office.groups.resolve(by, key), "is resolved")


@group.command
async def reopen(key: str, /, *, by: GroupBy = GroupBy.FINGERPRINT, flags: Flags = NO_FLAGS) -> None:
    """Reopen a group; its notes stay.

    Parameters
    ----------
    key
        Its fingerprint, or what else --by names.
    by
        What the key is; default fingerprint.
    """
    async with session(flags) as current:
        await _known(current, by, key)
        _answer(current, key, await current.office.groups.reopen(by, key), "is open")


async def _known(current: Session, by: GroupBy, key: str) -> tuple[Group | None, Said]:
    """The group, as far as it has letters, and what was said; NOT_FOUND when there is neither."""
    found, said = await current.office.groups.show(by, key)
    if found is None and said == Said():
        raise CommandError(
            f"no group {key!r} by {by}: redrive dlq groups --by {by} shows those there are", Exit.NOT_FOUND
        )
    return found, said


def _answer(current: Session, key: str, said: Said, what: str) -> None:
    document = {"key": key, **msgspec.to_builtins(said_document(said))}
    current.output.answer(document, lambda: Text.assemble(name(key), f" {what}"))


def _advise(current: Session, one: Group) -> None:
    counts = one.counts
    chosen = group_term(counts.by, counts.key)
    if chosen is None:
        return
    back = command("dlq", "redrive", "--filter", chosen, "--canary", 5, "--rate", "20/s")
    current.output.note(f"read one: {command('dlq', 'show', counts.sample.id)}")
    current.output.note(f"bring back: {back}")
