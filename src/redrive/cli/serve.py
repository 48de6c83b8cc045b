"""`redrive serve`: the HTTP API; with an app or --mail, its handlers run in the same process.

The first start makes the keys that let one in. The admin's goes to a terminal, and where there is none into a
file that only this user may read: what is printed elsewhere is kept in logs. A key's text exists only in what
`first_keys` hands out: whoever calls it prints it, once, and calls it only when nothing can fail any more
before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.app import Redrive
from redrive.cli.counts import ManagerSink
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.store import store_line
from redrive.cli.session import NO_FLAGS, Flags, operator
from redrive.cli.target import make_app
from redrive.core.condition import Description
from redrive.core.errors import MissingExtra
from redrive.engine.process import stop_on_signals
from redrive.machine import loops
from redrive.machine.private import write_file
from redrive.machine.supervisor import say_ready, say_stopping
from redrive.office.access import Access, Role
from redrive.telemetry.log_format import configure_logs
from redrive.web.listen import ServerSettings, check_listen
from redrive.wiring import unsafe_flags

TRIAL_TENANT = "acme"
ADMIN_KEY_FILE = "redrive-admin-key"
_log = logging.getLogger("redrive.serve")


def serve(
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
    """Serve the HTTP API until SIGTERM or Ctrl-C; its first start makes an admin key.

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
        **unsafe_flags(allowed=allow_unsafe),
        "logs.level": log_level,
        "logs.format": log_format,
    }
    served = make_app(app, mail=mail, flags=flags, more=more)
    configure_logs(served.settings.logs.level, "json" if flags.json else served.settings.logs.format)
    served.telemetry.add(ManagerSink().see)
    server = ServerSettings(
        allow_remote=allow_remote,
        certificate=certificate,
        private_key=private_key,
        trusted_proxies=trusted_proxy,
    )
    check_server(served.settings.listen, server)
    serving = _serve(served, server, Output(flags.json), fail_fast=fail_fast)
    loops.run(serving, uvloop=served.settings.worker.uvloop)


async def _serve(served: Redrive, server: ServerSettings, output: Output, *, fail_fast: bool) -> None:
    async with served.opened(fail_fast=fail_fast), listening(served, server) as url:
        described = await served.store.describe()
        described.demand()
        queues = [one.queue for one in served.served()]
        keys = await first_keys(served, output, submit=False)
        document = {
            "url": url,
            "store": described.url,
            "durability": described.durability.value,
            "queues": queues,
            "adminKeyFile": keys.document_file,
        }
        output.answer(document, lambda: _page(url, described, queues, keys))
        await (served.run(fail_fast=fail_fast) if queues else _until_stopped(served, url))


@dataclass(frozen=True, slots=True)
class FirstKeys:
    """The keys that the first start makes: there once, and never again. `admin_file` holds it otherwise."""

    admin: str | None = None
    admin_file: Path | None = None
    submit: str | None = None

    @property
    def document_file(self) -> str | None:
        return None if self.admin_file is None else str(self.admin_file)

    def line(self) -> str | None:
        """Where the admin's key is, for people."""
        if self.admin is not None:
            return f"{self.admin}  shown once: keep it"
        return None if self.admin_file is None else f"in {self.admin_file}: keep it, remove the file"


async def first_keys(app: Redrive, output: Output, *, submit: bool) -> FirstKeys:
    """Make an admin's key when no living one exists, and with `submit` one to try the API with."""
    access = Access(app.store, operator())
    if any(key.role is Role.ADMIN for key in await access.list()):
        return FirstKeys()
    credential, admin = await access.create(Role.ADMIN, None, "first start")
    made = FirstKeys(admin) if output.is_terminal else FirstKeys(admin_file=_kept(app.settings.data, admin))
    if made.line() is None:
        await access.revoke(credential.id)
    if not submit:
        return made
    return replace(made, submit=(await access.create(Role.SUBMIT, TRIAL_TENANT, "first start"))[1])


def _kept(folder: Path, key: str) -> Path | None:
    """The private file with the key; None where none can be written."""
    path = (folder / ADMIN_KEY_FILE).absolute()
    try:
        write_file(path, f"{key}\n".encode("ascii"))
    except OSError as error:
        _log.warning(
            "no admin key was made, %s cannot be written (%s): redrive keys create --role admin makes one",
            path,
            error.strerror,
        )
        return None
    _log.warning("the first admin key is in %s: keep it, and remove the file", path)
    return path


def check_server(listen: str, settings: ServerSettings) -> None:
    """Refuse what cannot be served, before anything is begun: the address, or a server that is missing."""
    check_listen(listen, settings)
    try:
        import redrive.web.server  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra("the HTTP API", "web") from error


@asynccontextmanager
async def listening(app: Redrive, settings: ServerSettings) -> AsyncIterator[str]:
    """Serve an app's API while inside; its address."""
    from redrive.web.server import serve

    async with serve(app, app.settings.listen, mail=app.mail, settings=settings) as running:
        yield running.url


async def _until_stopped(served: Redrive, url: str) -> None:
    stop = asyncio.Event()
    async with served.on_duty():
        with stop_on_signals(stop.set):
            say_ready(f"listening on {url}")
            await stop.wait()
            say_stopping("no new requests")


def _page(url: str, described: Description, queues: list[str], keys: FirstKeys) -> RenderableType:
    serves = f", and serves {', '.join(queues)}" if queues else ""
    lines = [Text(f"listening on {url}{serves}"), store_line(described)]
    if (line := keys.line()) is not None:
        lines.append(Text.assemble("admin key  ", (line, "bold")))
    return Group(*lines)
