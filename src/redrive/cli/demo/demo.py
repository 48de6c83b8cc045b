"""`redrive demo`: mails of three tenants through the public HTTP route, and what becomes of them.

Without --url it runs a gateway of its own with the simulator behind it, so nothing leaves this machine;
with one, the mails go where that gateway sends them. The figures are what the gateway answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.demo.fates import Fates
from redrive.cli.demo.gateway import check_seconds, quick_settings, running
from redrive.cli.demo.page import ENDING, draw, head, hints, page, run_together
from redrive.cli.demo.story import figures_document, teller, total
from redrive.cli.demo.traffic import RATE, TENANTS, ApiClient, send_traffic, tenant_clients
from redrive.cli.output import Output, mute_logs
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags

_SECONDS = 30.0
_PATIENCE_S = 30.0
_FASTEST = 50.0
_ANY_PORT = "127.0.0.1:0"


async def demo(
    *,
    seconds: float = _SECONDS,
    rate: float = RATE,
    url: str | None = None,
    key: tuple[str, ...] = (),
    flags: Flags = NO_FLAGS,
) -> None:
    """Send mails of three tenants over HTTP into the simulator, and watch each one.

    Parameters
    ----------
    seconds
        How long to send; default 30. It ends when every mail has, at most 30 s later.
    rate
        Mails a second, up to 50; default 5.
    url
        A gateway that runs already, such as http://127.0.0.1:8025; without one, a gateway of its own.
    key
        With --url: a submit key; up to three, of acme, globex and initech.
    """
    _check(seconds, rate, url, key)
    output = Output(flags.json)
    mute_logs()
    async with _gateway(flags, url, key) as (clients, above):
        following = Fates(clients, teller(output))
        if not output.as_json:
            output.console.print(Group(*above, Text()), soft_wrap=True)

        async def play() -> None:
            await send_traffic(clients, rate, max(1, round(seconds * rate)), following.accept)
            await following.settled(_PATIENCE_S)

        await run_together(output, play(), following.follow(), _watch(output, above, following))
        output.answer(_document(following), lambda: _summary(following))


def _check(seconds: float, rate: float, url: str | None, key: tuple[str, ...]) -> None:
    check_seconds(seconds)
    if not 0 < rate <= _FASTEST:
        raise CommandError(f"--rate is {rate:g}: more than 0, at most {_FASTEST:g}", Exit.USAGE)
    if (url is None) != (not key) or len(key) > len(TENANTS):
        raise CommandError(
            f"--url goes with one to {len(TENANTS)} of --key: make them with redrive keys create", Exit.USAGE
        )


@asynccontextmanager
async def _gateway(
    flags: Flags, url: str | None, key: tuple[str, ...]
) -> AsyncIterator[tuple[Mapping[str, ApiClient], list[Text]]]:
    """The clients of a gateway that runs already, or of one that runs while inside; and what to say of it."""
    if url is not None:
        clients = {tenant: ApiClient(url, text) for tenant, text in zip(TENANTS, key, strict=False)}
        yield clients, [Text.assemble(("redrive demo", "bold"), f"  through {url}")]
        for client in clients.values():
            client.close()
        return
    settings = quick_settings(flags)
    if settings.names_relay:
        raise CommandError(
            "demonstration mails go to the simulator alone, and `mail` names a relay: leave it out, or name "
            "a gateway with --url and --key",
            Exit.USAGE,
        )
    if settings.origins.get("listen") == "default":
        settings = quick_settings(flags, listen=_ANY_PORT)
    async with (
        running(settings, mailbox_port=0) as gateway,
        tenant_clients(gateway.app.store, gateway.url) as made,
    ):
        yield made, head("redrive demo", gateway)


async def _watch(output: Output, above: list[Text], following: Fates) -> None:
    if output.as_json or not output.console.is_terminal:
        await asyncio.Event().wait()

    async def make() -> RenderableType:
        return page(output, above, following.by_tenant, following.latest, [ENDING])

    await draw(output, make)


def _document(following: Fates) -> dict[str, Any]:
    return {"mails": following.mails, **figures_document(following.by_tenant)}


def _summary(following: Fates) -> RenderableType:
    by_tenant = following.by_tenant
    lines = [Text(f"{following.mails:,} mails: {total(by_tenant.values()).text()}")]
    lines += [Text(f"  {tenant:<10}{figures.text()}") for tenant, figures in by_tenant.items()]
    return Group(*lines, *hints(None))
