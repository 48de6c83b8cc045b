"""`redrive up`: the whole gateway in one process, with demonstration traffic, and a live page of it.

Off a terminal it prints one line an event. The traffic goes to the simulator alone: with a relay there is
none. The keys of the first start are printed before the page, and stand on it, so that they can be copied.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.counts import AttemptCounts
from redrive.cli.demo.gateway import RunningGateway, check_seconds, quick_settings, running
from redrive.cli.demo.page import ENDING, draw, head, hints, page, run_together, trial, welcome
from redrive.cli.demo.story import Sentence, Story, WorkerFigures, figures_document, teller, total
from redrive.cli.demo.traffic import RATE, send_traffic, tenant_clients
from redrive.cli.keys import sign_in_address
from redrive.cli.mailbox import PORT, check_port
from redrive.cli.output import Output, duration, mute_logs
from redrive.cli.problems import CommandError, Exit
from redrive.cli.serve import FirstKeys, first_keys
from redrive.cli.session import NO_FLAGS, Flags, operator
from redrive.core.message import Message
from redrive.core.redaction import redact
from redrive.office.sessions import Sessions, SignInRefused
from redrive.wiring import unsafe_flags


async def up(
    *,
    demo: Annotated[bool | None, Parameter(negative="--no-demo")] = None,
    seconds: float | None = None,
    listen: str | None = None,
    mailbox_port: int = PORT,
    allow_unsafe: bool = False,
    flags: Flags = NO_FLAGS,
) -> None:
    """Run gateway, HTTP API, worker and mailbox simulator, with demo traffic, and watch it live.

    Parameters
    ----------
    demo
        Send demo mails to the simulator; default: yes, unless the setting `mail` names a relay.
    seconds
        Stop after this many seconds.
    listen
        Address and port of the HTTP API, such as 127.0.0.1:8025.
    mailbox_port
        The port of the simulator; default 1025, 0 takes a free one.
    allow_unsafe
        Also use a Redis server that evicts, or keeps its data in memory only: messages may be lost.
    """
    check_seconds(seconds)
    check_port(mailbox_port, "--mailbox-port")
    settings = quick_settings(flags, listen=listen, **unsafe_flags(allowed=allow_unsafe))
    if demo and settings.names_relay:
        raise CommandError(
            "demonstration mails go to the simulator alone, and `mail` names a relay: leave one of them out",
            Exit.USAGE,
        )
    output, counts, figures = Output(flags.json), AttemptCounts(), WorkerFigures()
    tell = _Patient(teller(output))
    story = Story(_label(masked=settings.names_relay), tell)
    mute_logs()
    began_s = time.monotonic()
    sinks = (counts.see, figures.see, story.see)
    async with running(settings, mailbox_port=mailbox_port, sinks=sinks) as gateway:
        keys = await first_keys(gateway.app, output, submit=True)
        link = await _link(gateway)
        if not output.as_json:
            output.console.print(Group(*welcome(gateway, keys, link)), soft_wrap=True)
        tell.begin()
        traffic = _send(gateway) if demo is not False and gateway.mailbox else asyncio.Event().wait()
        await run_together(
            output,
            traffic,
            gateway.working,
            _watch(output, gateway, keys, link, figures, story),
            seconds=seconds,
        )
        document = _document(gateway, keys, counts, figures)
    ran_ms = round(1000 * (time.monotonic() - began_s))
    below = hints(story.last_dead, simulated=gateway.mailbox is not None)
    output.answer(document, lambda: Group(_summary(counts, figures, ran_ms), *below))


class _Patient:
    """Holds what happens back until the keys and addresses are printed: those stand first."""

    def __init__(self, tell: Callable[[Sentence], None]) -> None:
        self._tell = tell
        self._early: list[Sentence] | None = []

    def __call__(self, sentence: Sentence) -> None:
        if self._early is None:
            self._tell(sentence)
        else:
            self._early.append(sentence)

    def begin(self) -> None:
        """From now on at once."""
        early, self._early = self._early or [], None
        for sentence in early:
            self._tell(sentence)


async def _send(gateway: RunningGateway) -> None:
    async with tenant_clients(gateway.app.store, gateway.url) as clients:
        await send_traffic(clients, RATE, None, lambda tenant, answer: None)


async def _link(gateway: RunningGateway) -> str | None:
    """A link that signs in to the dashboard; None where there is no admin to sign in as."""
    try:
        _, token = await Sessions(gateway.app.store, operator()).link()
    except SignInRefused:
        return None
    return sign_in_address(gateway.url, token)


async def _watch(
    output: Output,
    gateway: RunningGateway,
    keys: FirstKeys,
    link: str | None,
    figures: WorkerFigures,
    story: Story,
) -> None:
    if output.as_json or not output.console.is_terminal:
        await asyncio.Event().wait()

    async def make() -> RenderableType:
        below = [
            *trial(gateway.url, keys),
            *hints(story.last_dead, simulated=gateway.mailbox is not None),
            ENDING,
        ]
        return page(output, head("redrive up", gateway, keys, link), figures.by_tenant, story.latest, below)

    await draw(output, make)


def _label(*, masked: bool) -> Callable[[Message], str]:
    """A mail by its recipient. The simulator's addresses are nobody's; real ones are masked."""

    def label(message: Message) -> str:
        to = message.headers.get("to", "several recipients")
        return f"to {redact(to) if masked else to}"

    return label


def _document(
    gateway: RunningGateway, keys: FirstKeys, counts: AttemptCounts, figures: WorkerFigures
) -> dict[str, Any]:
    return {
        "url": gateway.url,
        "mail": gateway.relay,
        "store": gateway.described.url,
        "durability": gateway.described.durability.value,
        "adminKeyFile": keys.document_file,
        "submitKey": keys.submit,
        "retried": counts.ended["retried"],
        "reasons": dict(counts.reasons),
        **figures_document(figures.by_tenant),
    }


def _summary(counts: AttemptCounts, figures: WorkerFigures, ran_ms: int) -> Text:
    ended = total(figures.by_tenant.values())
    why = ", ".join(f"{count} {reason}" for reason, count in counts.reasons.most_common())
    line = f"In {duration(ran_ms)}: {ended.text()}" + (f" ({why})" if why else "")
    return Text(f"{line}; {counts.ended['retried']:,} retries.")
