"""`redrive keys`: make, list and revoke the keys of the HTTP API. A key's text is shown once."""

from __future__ import annotations

import msgspec
from cyclopts import App
from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.cli.times import moment
from redrive.office.access import Credential, Role
from redrive.office.documents.control import key_document

keys = App(name="keys")


@keys.command
async def create(
    *,
    role: Role,
    tenant: str | None = None,
    name: str = "",
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
    """
    async with session(flags, create=True) as current:
        credential, text = await current.office.access.create(role, tenant, name)
        current.output.answer(
            {"key": text, **msgspec.to_builtins(key_document(credential))}, lambda: Text(text)
        )
        current.output.note(f"shown once: keep it. It ends with: redrive keys revoke {credential.id}")


@keys.command(name="list")
async def list_keys(*, revoked: bool = False, flags: Flags = NO_FLAGS) -> None:
    """Every key that is let in, without its text.

    Parameters
    ----------
    revoked
        The revoked ones too.
    """
    async with session(flags) as current:
        found = [key for key in await current.office.access.list() if revoked or key.revoked_at is None]
        found.sort(key=lambda key: key.created_at)
        document = {"keys": [key_document(key) for key in found]}
        current.output.answer(document, lambda: _table(current.output, found))


@keys.command
async def revoke(key_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """End a key at once.

    Parameters
    ----------
    key_id
        The id that `keys list` shows, or the key itself.
    """
    async with session(flags) as current:
        wanted = key_id.removeprefix("rdk_")[:12] if key_id.startswith("rdk_") else key_id
        if not await current.office.access.revoke(wanted):
            raise CommandError(f"no key {wanted!r} in this store: see redrive keys list", Exit.NOT_FOUND)
        current.output.answer({"id": wanted, "revoked": True}, lambda: Text(f"{wanted} is revoked"))


def _table(output: Output, found: list[Credential]) -> RenderableType:
    if not found:
        return Text("no keys: redrive keys create --role submit --tenant TENANT makes one")
    table = output.table("id", "role", "tenant", "made", "revoked", "name", words=("name",))
    for key in found:
        ended = "" if key.revoked_at is None else moment(key.revoked_at)
        tenant = name(key.tenant) if key.tenant else Text("all", "dim")
        table.add_row(key.id, key.role.value, tenant, moment(key.created_at), ended, name(key.name))
    return table
