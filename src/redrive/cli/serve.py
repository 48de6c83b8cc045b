"""`redrive serve`: the HTTP API; with an app or --mail, its handlers run in the same process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.app import Redrive
from redrive.cli.api import Listen, first_keys, listening
from redrive.cli.liveness import end_when_stuck
from redrive.cli.loading import make_app
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags
from redrive.cli.status import store_line
from redrive.core.condition import Description
from redrive.engine.signals import stop_on_signals
from redrive.telemetry.log_format import configure_logs


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
        An address whose X-Forwarded-For is believed; may be given several times.
    allow_unsafe
        Also use a Redis server that evicts, or keeps its data in memory only: messages may be lost.
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
    async with served, listening(served, place) as url:
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
        await (served.run(on_stuck=end_when_stuck) if queues else _until_stopped(served))


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
