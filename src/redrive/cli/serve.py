"""`redrive serve`: the HTTP API; with an app or --mail, its handlers run in the same process.

The first start makes the keys that let one in. A key's text exists only in what `first_keys` hands out:
whoever calls it prints it, once, and calls it only when nothing can fail any more before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.app import Redrive
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.store import store_line
from redrive.cli.session import NO_FLAGS, Flags, operator
from redrive.cli.target import make_app
from redrive.core.condition import Description
from redrive.core.errors import MissingExtra
from redrive.core.ports import Store
from redrive.engine.process import stop_on_signals
from redrive.office.access import Access, Role
from redrive.telemetry.log_format import configure_logs

TRIAL_TENANT = "acme"


async def serve(
    app: str | None = None,
    /,
    *,
    mail: bool = False,
    listen: str | None = None,
    allow_remote: bool = False,
    certificate: Path | None = None,
    private_key: Path | None = None,
    trusted_proxy: tuple[str, ...] = (),
    allow_unsafe: bool = False,
    fail_fast: bool = False,
    log_level: str | None = None,
    log_format: str | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C; its first start prints an admin key, once.

    Parameters
    ----------
    app
        module:attribute of an app whose handlers run beside the API.
    mail
        Send mails too, through the relay that the setting `mail` names.
    listen
        Address and port, such as 127.0.0.1:8025.
    allow_remote
        Listen on an address that other machines reach, although keys would travel in the clear.
    certificate
        A PEM file: serve HTTPS.
    private_key
        The PEM file of the certificate's key.
    trusted_proxy
        An address whose X-Forwarded-For is believed; can be repeated.
    allow_unsafe
        Also use a Redis server that evicts, or keeps its data in memory only: messages may be lost.
    fail_fast
        End with exit code 5 when the store does not answer at the start, instead of waiting for it.
    log_level
        debug, info, warning or error.
    log_format
        json, text or auto.
    """
    if (certificate is None) != (private_key is None):
        raise CommandError("--certificate and --private-key go together: give both", Exit.USAGE)
    more = {
        "listen": listen,
        "redis.allow_unsafe": allow_unsafe or None,
        "logs.level": log_level,
        "logs.format": log_format,
    }
    served = make_app(app, mail=mail, flags=flags, more=more)
    configure_logs(served.settings.logs.level, "json" if flags.json else served.settings.logs.format)
    place = Listen(
        address=served.settings.listen,
        allow_remote=allow_remote,
        certificate=certificate,
        private_key=private_key,
        trusted_proxies=trusted_proxy,
    )
    async with served.opened(fail_fast=fail_fast), listening(served, place) as url:
        described = await served.store.describe()
        queues = [one.queue for one in served.served()]
        key = (await first_keys(served.store, submit=False)).admin
        document = {
            "url": url,
            "store": described.url,
            "durability": described.durability.value,
            "queues": queues,
            "adminKey": key,
        }
        Output(flags.json).answer(document, lambda: _page(url, described, queues, key))
        await (served.run(fail_fast=fail_fast) if queues else _until_stopped(served))


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


async def _until_stopped(served: Redrive) -> None:
    stop = asyncio.Event()
    async with served.on_duty():
        with stop_on_signals(stop.set):
            await stop.wait()


def _page(url: str, described: Description, queues: list[str], key: str | None) -> RenderableType:
    serves = f", and serves {', '.join(queues)}" if queues else ""
    lines = [Text(f"listening on {url}{serves}"), store_line(described)]
    if key is not None:
        lines.append(Text.assemble("admin key  ", (key, "bold"), "  shown once: keep it"))
    return Group(*lines)
