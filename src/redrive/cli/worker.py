"""`redrive worker`: run an app's handlers, the mail gateway, or both, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.reload import run_reloading
from redrive.cli.render.store import store_line
from redrive.cli.session import NO_FLAGS, Flags
from redrive.cli.target import make_app
from redrive.core.message import Message
from redrive.mail.stored import QUEUE
from redrive.telemetry import events
from redrive.telemetry.events import Event
from redrive.telemetry.log_format import configure_logs

_COUNTED: dict[type, str] = {
    events.Completed: "done",
    events.RetryScheduled: "retried",
    events.Buried: "buried",
    events.Released: "released",
}


async def worker(
    app: str | None = None,
    /,
    *,
    mail: bool = False,
    queue: tuple[str, ...] = (),
    reload: bool = False,
    concurrency: int | None = None,
    allow_unsafe: bool = False,
    fail_fast: bool = False,
    log_level: str | None = None,
    log_format: str | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Run an app's handlers, such as shop:app for `app` in shop.py, or the mail gateway.

    Parameters
    ----------
    app
        module:attribute, looked for in the working folder first.
    mail
        Send the mails of email:send through the relay that the setting `mail` names.
    queue
        Serve only this queue; can be repeated.
    reload
        Start again when code below the working folder changes; for development.
    concurrency
        How many handlers may run at once in this process.
    allow_unsafe
        Also use a Redis server that evicts, or keeps its data in memory only: messages may be lost.
    fail_fast
        End with exit code 5 when the store does not answer at the start, instead of waiting for it.
    log_level
        debug, info, warning or error.
    log_format
        json, text or auto.
    """
    if app is None and not mail:
        raise CommandError("say what to run: module:app, or --mail for the mail gateway", Exit.USAGE)
    more = {
        "worker.concurrency": concurrency,
        "redis.allow_unsafe": allow_unsafe or None,
        "logs.level": log_level,
        "logs.format": log_format,
    }
    early = "json" if flags.json else log_format
    configure_logs("info", early if early in ("json", "text") else "auto")
    if reload:
        await run_reloading(sys.argv[1:])
        return
    served = make_app(app, mail=mail, flags=flags, more=more)
    if not served.served(queue):
        raise CommandError(f"{app} has no handler: register one with @app.handler(queue)", Exit.USAGE)
    logs, counts = served.settings.logs, AttemptCounts()
    style = "json" if flags.json else logs.format
    output = Output(style == "json" or (style == "auto" and not sys.stdout.isatty()))
    configure_logs(logs.level, style)
    served.telemetry.add(counts.see)
    async with served.opened(fail_fast=fail_fast):
        described = await served.store.describe()
        if output.notes.is_terminal and not output.as_json:
            output.notes.print(store_line(described), soft_wrap=True)
        await served.run(queues=queue, fail_fast=fail_fast)
    document = {"store": described.url, "durability": described.durability.value, **counts.document()}
    output.answer(document, lambda: Text(counts.text()))


@dataclass(slots=True)
class AttemptCounts:
    """How many attempts ended how, and why messages died."""

    ended: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def see(self, event: Event) -> None:
        """The telemetry sink."""
        if isinstance(event, events.Completed) and is_fan_out(event.delivery.message):
            return
        word = _COUNTED.get(type(event))
        if word is not None:
            self.ended[word] += 1
        if isinstance(event, events.Buried):
            self.reasons[event.reason.value] += 1

    def document(self) -> dict[str, Any]:
        """For --json."""
        return {word: self.ended[word] for word in _COUNTED.values()} | {"reasons": dict(self.reasons)}

    def headline(self) -> str:
        """In one line."""
        done, retried, buried = (self.ended[word] for word in ("done", "retried", "buried"))
        return f"{done:,} delivered, {retried:,} retried, {buried:,} dead"

    def text(self) -> str:
        """In one line, with why messages died."""
        why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
        return f"{self.headline()} ({why})" if why else self.headline()


def is_fan_out(message: Message) -> bool:
    """Whether it is a mail to several recipients: its hand-over only makes the children."""
    return message.queue == QUEUE and "to" not in message.headers
