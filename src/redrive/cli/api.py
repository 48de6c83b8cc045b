"""The HTTP API beside a command: it listens, and the first start makes the keys that let one in (S1).

A key's text exists only in what `first_keys` hands out: whoever calls it prints it, once, and calls it only
when nothing can fail any more before that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redrive.app import Redrive
from redrive.cli.session import operator
from redrive.core.errors import MissingExtra
from redrive.core.ports import Store
from redrive.office.access import Access, Role

TRIAL_TENANT = "acme"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where to listen, and what makes another address than this machine's safe."""

    address: str
    allow_remote: bool = False
    certificate: Path | None = None
    private_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FirstKeys:
    """The keys that the first start makes: there once, and never again."""

    admin: str | None = None
    submit: str | None = None


async def first_keys(store: Store, *, submit: bool) -> FirstKeys:
    """Make an admin's key when no living one exists, and with `submit` one to try the API with."""
    access = Access(store, operator())
    if any(key.role is Role.ADMIN and key.revoked_at is None for key in await access.list()):
        return FirstKeys()
    _, admin = await access.create(Role.ADMIN, None, "first start")
    if not submit:
        return FirstKeys(admin)
    return FirstKeys(admin, (await access.create(Role.SUBMIT, TRIAL_TENANT, "first start"))[1])


@asynccontextmanager
async def listening(app: Redrive, listen: Listen) -> AsyncIterator[str]:
    """Serve an app's API while inside; its address."""
    try:
        from redrive.web.server import ServerSettings, serve
    except ModuleNotFoundError as error:
        raise MissingExtra("the HTTP API", "web") from error
    settings = ServerSettings(
        allow_remote=listen.allow_remote,
        certificate=listen.certificate,
        private_key=listen.private_key,
        trusted_proxies=listen.trusted_proxies,
    )
    async with serve(app, listen.address, mail=app.mail, settings=settings) as running:
        yield running.url
