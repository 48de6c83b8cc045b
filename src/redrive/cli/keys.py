"""`redrive keys`: make, list, rotate and revoke the keys of the HTTP API. A key's text is shown once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.cli.times import moment, until
from redrive.core.grants import QueuePatterns, SenderDomains
from redrive.office.access import OVERLAP, Credential, Limits, Role
from redrive.office.documents.control import key_document, key_list

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
        A domain that a submit key may send from, *.acme.example for those below it; may be given several
        times. Without, those of its tenant.
    queue
        A queue that a submit key may submit to, orders* for all that begin so; may be given several times.
        Without, queues that exist or have a handler.
    expires
        When the key ends: 90d, or 2027-01-31.
    reveal
        The key may, or with --no-reveal may not, see payloads without masks; by default operators and admins
        may.
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
        now = current.store.now()
        found = [key for key in await current.office.access.list() if revoked or key.lives(now)]
        found.sort(key=lambda key: key.created_at)
        document = msgspec.to_builtins(key_list(found))
        current.output.answer(document, lambda: _table(current.output, found))


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
        current.output.note(f"{wanted} ends in {both}")


@keys.command
async def revoke(key_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """End a key at once.

    Parameters
    ----------
    key_id
        The id that `keys list` shows, or the key itself.
    """
    async with session(flags) as current:
        wanted = _id(key_id)
        if not await current.office.access.revoke(wanted):
            raise _no_key(wanted)
        current.output.answer({"id": wanted, "revoked": True}, lambda: Text(f"{wanted} is revoked"))


def _id(given: str) -> str:
    return given.removeprefix("rdk_")[:12] if given.startswith("rdk_") else given


def _no_key(key_id: str) -> CommandError:
    return CommandError(f"no key {key_id!r} that is let in: see redrive keys list", Exit.NOT_FOUND)


def _lifetime(current: Session, text: str) -> timedelta:
    now = current.store.now()
    return timedelta(milliseconds=until(text, now) - now)


def _show(current: Session, key: Credential, text: str) -> None:
    document: dict[str, Any] = {"key": text, **msgspec.to_builtins(key_document(key))}
    current.output.answer(document, lambda: Text(text))
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
