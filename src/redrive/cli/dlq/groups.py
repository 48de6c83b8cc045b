"""`redrive dlq groups` and `group`: the causes behind dead letters, and what people said about them."""

from __future__ import annotations

from cyclopts import App
from rich.text import Text

from redrive.cli.dlq.choice import (
    FilterText,
    asked,
    emptiness,
    emptiness_document,
    freshness_document,
    note_emptiness,
)
from redrive.cli.output import command, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.group import group_lines, said_page
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.cli.times import until as instant_until
from redrive.office.filters.terms import Named, NameField, Reasoned
from redrive.office.groups import Group, GroupBy
from redrive.office.groups.documents import group_document, said_document
from redrive.office.groups.standing import Said

group = App(name="group", help="Say what is known about a group of dead letters.")

_ALL_GROUPS = 10_000
_NAMED = {
    GroupBy.FINGERPRINT: NameField.FINGERPRINT,
    GroupBy.CODE: NameField.CODE,
    GroupBy.TENANT: NameField.TENANT,
    GroupBy.QUEUE: NameField.QUEUE,
}


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
        read = await asked(current, filter, queue, tenant)
        found = await current.groups.list(by, read, limit=limit)
        empty = await emptiness(current, read, len(found))
        document = {
            "by": by.value,
            "groups": [group_document(one) for one in found],
            "empty": emptiness_document(empty),
            "index": freshness_document(current),
        }
        now = current.store.now()
        current.output.answer(document, lambda: group_lines(current.output, found, now))
        note_emptiness(current, empty)
        if found:
            _advise(current, found[0])


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
        document = {
            "by": by.value,
            "key": key,
            "group": None if found is None else group_document(found),
            "said": said_document(said),
        }
        now = current.store.now()
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
        _answer(current, key, await current.groups.note(by, key, text), "has a new note")


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
        said = await current.groups.ignore(by, key, until_count=until_count, until_at=until_at)
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
        _answer(current, key, await current.groups.resolve(by, key), "is resolved")


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
        _answer(current, key, await current.groups.reopen(by, key), "is open")


async def _known(current: Session, by: GroupBy, key: str) -> tuple[Group | None, Said]:
    """The group, as far as it has letters, and what was said; NOT_FOUND when there is neither."""
    listed = await current.groups.list(by, limit=_ALL_GROUPS)
    found = next((one for one in listed if one.counts.key == key), None)
    said = await current.groups.said(by, key)
    if found is None and said == Said():
        raise CommandError(
            f"no group {key!r} by {by}: redrive dlq groups --by {by} shows those there are", Exit.NOT_FOUND
        )
    return found, said


def _answer(current: Session, key: str, said: Said, what: str) -> None:
    document = {"key": key, **said_document(said)}
    current.output.answer(document, lambda: Text.assemble(name(key), f" {what}"))


def _advise(current: Session, one: Group) -> None:
    counts = one.counts
    if counts.by is GroupBy.AGE:
        return
    chosen = _term(counts.by, counts.key)
    back = command("dlq", "redrive", "--filter", chosen, "--canary", 5, "--rate", "20/s")
    current.output.note(f"read one: {command('dlq', 'show', counts.sample.id)}")
    current.output.note(f"bring back: {back}")


def _term(by: GroupBy, key: str) -> str:
    field = _NAMED.get(by)
    return str(Reasoned((key,)) if field is None else Named(field, (key,)))
