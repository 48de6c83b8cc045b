"""`redrive keys`: make, list, rotate and revoke keys; links to the dashboard, and who is signed in there.

The text of a key or a link is shown once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, duration, moment, name, until
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.grants import QueuePatterns, SenderDomains
from redrive.office.access import OVERLAP, Credential, Limits, Role
from redrive.office.documents.access import (
    EndedSession,
    key_document,
    key_list,
    link_document,
    new_key,
    session_list,
)
from redrive.office.sessions import SignedIn

keys = App(name="keys")


@keys.command
async def create(
    *,
    role: Role,
    tenant: str | None = None,
    name: str = "",
    from_domain: tuple[str, ...] = (),
    queue: tuple[str, ...] = (),
    expires: str | None = None,
    reveal: Annotated[bool | None, Parameter(negative="--no-reveal")] = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Make a key and print it, once: it cannot be shown again.

    Parameters
    ----------
    role
        submit (hands in mails and messages of its tenant), viewer, operator or admin.
    tenant
        Whose key it is; submit needs one, without one the others see all tenants.
    name
        A few words to know it by.
    from_domain
        A domain that a submit key may send from, or *.acme.example; can be repeated; default its tenant's.
    queue
        A queue that a submit key may use, or orders*; can be repeated; default: those that are in use.
    expires
        When the key ends: 90d, or 2027-01-31.
    reveal
        Whether the key may see payloads without masks; default: yes for operators and admins.
    """
    limits = Limits(
        senders=SenderDomains.parse(from_domain), queues=QueuePatterns.parse(queue), reveal=reveal
    )
    async with session(flags, create=True) as current:
        if expires is not None:
            limits = replace(limits, lifetime=_lifetime(current, expires))
        _show(current, *await current.office.access.create(role, tenant, name, limits))


@keys.command(name="list")
async def list_keys(*, revoked: bool = False, flags: Flags = NO_FLAGS) -> None:
    """Every key that is let in, without its text.

    Parameters
    ----------
    revoked
        Those that were revoked or have ended too.
    """
    async with session(flags) as current:
        found = await current.office.access.list(ended=revoked)
        current.output.answer(key_list(found), lambda: _table(current.output, found))


@keys.command
async def rotate(key_id: str, /, *, overlap: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Make a key that may do the same, and end the old one after an overlap.

    Parameters
    ----------
    key_id
        The id that `keys list` shows, or the key itself.
    overlap
        How long the old key is still let in: 0s, 2h; 1d by default.
    """
    async with session(flags) as current:
        wanted = _id(key_id)
        both = OVERLAP if overlap is None else _lifetime(current, overlap)
        made = await current.office.access.rotate(wanted, both)
        if made is None:
            raise _no_key(wanted)
        _show(current, *made)
        current.output.note(f"{wanted} ends in {duration(round(1000 * both.total_seconds()))}")


@keys.command
async def revoke(key_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """End a key at once.

    Parameters
    ----------
    key_id
        The id that `keys list` shows, or the key itself.
    """
    async with session(flags) as current:
        wanted, access = _id(key_id), current.office.access
        before = await access.find(wanted)
        revoked = await access.revoke(wanted)
        if before is None or revoked is None:
            raise _no_key(wanted)
        ended_at = before.revoked_at
        said = "is revoked" if ended_at is None else f"had been revoked already, on {moment(ended_at)}"
        current.output.answer(key_document(revoked), lambda: Text(f"{wanted} {said}"))


@keys.command
async def link(
    key_id: str | None = None,
    /,
    *,
    allow_remote: bool = False,
    url: str | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Make a link that signs in to the dashboard: once, within ten minutes, on this machine.

    Parameters
    ----------
    key_id
        Sign in as this key; default: the first admin key that belongs to no tenant.
    allow_remote
        The link also works from other machines.
    url
        Where the server is reached; default: the address of the setting `listen`.
    """
    async with session(flags) as current:
        wanted = None if key_id is None else _id(key_id)
        key, token = await current.office.sessions.link(wanted, remote=allow_remote)
        address = sign_in_address(url or f"http://{current.settings.listen}", token)
        current.output.answer(link_document(address, key), lambda: Text(address))
        current.output.note("works once, for ten minutes: open it in a browser")


@keys.command
async def sessions(*, end: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Who is signed in to the dashboard.

    Parameters
    ----------
    end
        End the session of this id at once.
    """
    async with session(flags) as current:
        office = current.office.sessions
        if end is not None:
            if not await office.revoke(end):
                raise CommandError(f"no session {end!r}: see redrive keys sessions", Exit.NOT_FOUND)
            current.output.answer(EndedSession(id=end), lambda: Text(f"{end} has ended"))
            return
        found = await office.list()
        current.output.answer(session_list(found), lambda: _session_table(current.output, found))


def sign_in_address(url: str, token: str) -> str:
    """The link of a token, at a server's address."""
    return f"{url.rstrip('/')}/link/{token}"


def _session_table(output: Output, found: Sequence[SignedIn]) -> RenderableType:
    if not found:
        return Text("nobody is signed in")
    table = output.table("id", "key", "since", "ends", "from", words=("from",))
    for one in found:
        table.add_row(one.id, one.key, moment(one.created_at), moment(one.expires_at), name(one.origin))
    return table


def _id(given: str) -> str:
    return given.removeprefix("rdk_")[:12] if given.startswith("rdk_") else given


def _no_key(key_id: str) -> CommandError:
    return CommandError(f"no key {key_id!r} that is let in: see redrive keys list", Exit.NOT_FOUND)


def _lifetime(current: Session, text: str) -> timedelta:
    now = current.store.now()
    return timedelta(milliseconds=until(text, now) - now)


def _show(current: Session, key: Credential, text: str) -> None:
    current.output.answer(new_key(key, text), lambda: Text(text))
    current.output.note(f"shown once: keep it. It ends with: redrive keys revoke {key.id}")


def _table(output: Output, found: Sequence[Credential]) -> RenderableType:
    if not found:
        return Text("no keys: redrive keys create --role submit --tenant TENANT makes one")
    table = output.table("id", "role", "tenant", "made", "last use", "ends", "name", words=("name",))
    for key in found:
        tenant = name(key.tenant) if key.tenant else Text("all", "dim")
        used = Text("never", "dim") if key.used_at is None else Text(moment(key.used_at))
        about = name(key.name)
        about.append(_limits(key), "dim")
        table.add_row(key.id, key.role.value, tenant, moment(key.created_at), used, _ends(key), about)
    return table


def _ends(key: Credential) -> Text:
    if key.revoked_at is not None:
        return Text(f"revoked {moment(key.revoked_at)}", "yellow")
    return Text("" if key.expires_at is None else moment(key.expires_at))


def _limits(key: Credential) -> str:
    """What the role alone does not tell."""
    senders = f" from {key.senders}" if key.senders else ""
    queues = f" to {key.queues}" if key.queues else ""
    revealing = key.role in (Role.OPERATOR, Role.ADMIN)
    right = "" if key.reveal is revealing else " may reveal" if key.reveal else " may not reveal"
    return senders + queues + right
