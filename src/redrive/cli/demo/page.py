"""The live page of `up` and `demo`: where things listen, the figures, the latest events, and what to try.

It fills the screen and no more: the events get the lines that are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from redrive.cli.demo.gateway import RunningGateway
from redrive.cli.demo.story import Figures, Sentence, total
from redrive.cli.output import Output, clean, name
from redrive.cli.serve import FirstKeys
from redrive.engine.process import stop_on_signals

_REFRESH_S = 0.25
_SOON_S = 1.0
_BAR = 24
_TENANTS = 5
_FEWEST_EVENTS = 3
ENDING = Text("end          Ctrl-C", "cyan")
_NO_KEYS = FirstKeys()
_MAIL = '{"from":"a@acme.example","to":"ok@b.example","subject":"Hi","text":"Hello"}'


def page(
    output: Output,
    head: Sequence[Text],
    by_tenant: Mapping[str, Figures],
    latest: Sequence[Sentence],
    foot: Sequence[Text],
) -> RenderableType:
    """The whole screen."""
    tenants = _tenant_table(by_tenant)
    others = len(head) + tenants.row_count + 1 + len(foot) + 4
    room = max(_FEWEST_EVENTS, output.console.height - others)
    shown = [Text(one.text, one.style) for one in list(latest)[-room:]]
    blank = [Text() for _ in range(room - len(shown))]
    lines: list[RenderableType] = [
        *head,
        Text(),
        tenants,
        Text(),
        Text(total(by_tenant.values()).text(), "bold"),
        *shown,
        *blank,
        Text(),
        *foot,
    ]
    for line in lines:
        if isinstance(line, Text):
            line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


async def draw(output: Output, make: Callable[[], Awaitable[RenderableType]]) -> None:
    """Draw the page again and again."""
    with Live(console=output.console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(await make(), refresh=True)
            await asyncio.sleep(_REFRESH_S)


async def run_together(output: Output, *works: Awaitable[object], seconds: float | None = None) -> None:
    """Until one of them ends, the time is over, or a signal asks to stop; what failed raises."""
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        tasks = [asyncio.ensure_future(work) for work in (stop.wait(), *works)]
        ended, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        _, slow = await asyncio.wait(tasks, timeout=_SOON_S)
        if slow:
            output.note("ending: what is under way may finish, Ctrl-C again ends at once")
            await asyncio.wait(slow)
    for task in ended:
        task.result()


def _tenant_table(by_tenant: Mapping[str, Figures]) -> Table:
    """Each tenant's figures, and its share of what has ended."""
    ended = sum(one.ended for one in by_tenant.values()) or 1
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("tenant", no_wrap=True, overflow="ellipsis", min_width=8, max_width=20)
    for header in ("delivered", "retrying", "dead"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("share", no_wrap=True, min_width=_BAR)
    table.add_column("", justify="right", no_wrap=True)
    for tenant in sorted(by_tenant, key=lambda one: -by_tenant[one].ended)[:_TENANTS]:
        figures = by_tenant[tenant]
        share = figures.ended / ended
        table.add_row(
            name(tenant),
            Text(f"{figures.delivered:,}", "green"),
            Text(f"{figures.retrying:,}", "yellow"),
            Text(f"{figures.dead:,}", "red"),
            Text("█" * round(share * _BAR), "blue"),
            f"{share:.0%}",
        )
    return table


def head(
    title: str, gateway: RunningGateway, keys: FirstKeys = _NO_KEYS, link: str | None = None
) -> list[Text]:
    """Where things listen and are kept; a link to the dashboard; on the first start, the admin's key."""
    simulated = "the simulator, nothing leaves this machine" if gateway.mailbox else "the relay"
    described = gateway.described
    lines = [
        Text.assemble(
            (f"{title:<13}", "bold"), (gateway.url, "bold"), (f"  the API: {gateway.url}/docs", "dim")
        ),
        Text.assemble(("mails go to  ", "dim"), clean(gateway.relay), (f"  {simulated}", "dim")),
        Text.assemble(
            ("store        ", "dim"), clean(described.url), (f"  durability {described.durability}", "green")
        ),
    ]
    if link is not None:
        lines.insert(1, Text.assemble(("dashboard    ", "dim"), (link, "bold"), ("  works once", "dim")))
    if (line := keys.line()) is not None:
        lines.append(Text.assemble(("admin key    ", "dim"), (line, "bold")))
    return lines


def trial(url: str, keys: FirstKeys) -> list[Text]:
    """A mail to send by oneself; on the first start over HTTP, with a key for it."""
    if keys.submit is None:
        return [
            Text("try it       redrive mail send --from a@acme.example --to ok@b.example --text Hi", "cyan")
        ]
    return [
        Text(f"KEY={keys.submit}", "bold"),
        Text(f'curl {url}/v1/emails -H "Authorization: Bearer $KEY" \\', "cyan"),
        Text(f"  -H 'Content-Type: application/json' --data '{_MAIL}'", "cyan"),
    ]


def welcome(gateway: RunningGateway, keys: FirstKeys, link: str | None) -> list[Text]:
    """What is printed at the start, before all else."""
    lines = head("redrive up", gateway, keys, link)
    if keys.submit is not None:
        lines.append(Text("The key is shown this once: keep it. A mail of your own:", "yellow"))
    return [*lines, *trial(gateway.url, keys), Text()]


def hints(last_dead: str | None, *, simulated: bool = True) -> list[Text]:
    """How to look closer, in another terminal or afterwards."""
    life = f"redrive show {last_dead}" if last_dead else "redrive status"
    inbox = "redrive mailbox list, " if simulated else ""
    return [
        Text(f"look closer  {inbox}redrive dlq list", "cyan"),
        Text(f"             {life}", "cyan"),
        Text("bring back   redrive dlq redrive --all", "cyan"),
    ]
