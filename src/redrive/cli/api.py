"""The HTTP API beside a command: it listens, and the first start makes the keys that let one in (S1).

A key's text exists only in what `listening` hands out: whoever calls it prints it, once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redrive.app import Redrive
from redrive.cli.session import operator
from redrive.core.errors import MissingExtra
from redrive.office.access import Access, Role

CURL_TENANT = "acme"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where to listen, and what makes another address than this machine's safe."""

    address: str
    allow_remote: bool = False
    certificate: Path | None = None
    private_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Api:
    """An API that listens; the keys are there on the very first start alone."""

    url: str
    admin_key: str | None = None
    submit_key: str | None = None


@asynccontextmanager
async def listening(
    app: Redrive, listen: Listen, ready: Callable[[], bool], *, curl: bool
) -> AsyncIterator[Api]:
    """Serve an app while inside; `curl` asks for a submit key to try it with, beside the admin's."""
    async with _serve(app, listen, ready) as url:
        access = Access(app.store, operator())
        if any(key.role is Role.ADMIN and key.revoked_at is None for key in await access.list()):
            yield Api(url)
            return
        _, admin_key = await access.create(Role.ADMIN, None, "first start")
        submit_key = (await access.create(Role.SUBMIT, CURL_TENANT, "first start"))[1] if curl else None
        yield Api(url, admin_key, submit_key)


@asynccontextmanager
async def _serve(app: Redrive, listen: Listen, ready: Callable[[], bool]) -> AsyncIterator[str]:
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
    async with serve(app, listen.address, mail=app.mail, ready=ready, settings=settings) as running:
        yield running.url
