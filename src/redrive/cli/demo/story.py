"""What happens to mails, in sentences and in figures, as this process's worker or a gateway reports it.

Counted by recipient: a mail to three has three fates.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from redrive.cli.counts import is_fan_out
from redrive.cli.output import Output, clean, clock_time, duration
from redrive.core.message import Message
from redrive.core.redaction import redact
from redrive.mail.stored import QUEUE
from redrive.telemetry import events
from redrive.telemetry.events import Event

_REMEMBERED = 100


@dataclass(slots=True)
class Figures:
    """How many recipients stand where."""

    delivered: int = 0
    retrying: int = 0
    dead: int = 0
    waiting: int = 0

    @property
    def ended(self) -> int:
        return self.delivered + self.dead

    def document(self) -> dict[str, int]:
        """For --json."""
        return {
            "delivered": self.delivered,
            "retrying": self.retrying,
            "dead": self.dead,
            "waiting": self.waiting,
        }

    def text(self) -> str:
        """In one line."""
        line = f"{self.delivered:,} delivered, {self.retrying:,} retrying, {self.dead:,} dead"
        return f"{line}, {self.waiting:,} waiting" if self.waiting else line


def total(figures: Iterable[Figures]) -> Figures:
    """All of them together."""
    whole = Figures()
    for one in figures:
        whole.delivered += one.delivered
        whole.retrying += one.retrying
        whole.dead += one.dead
        whole.waiting += one.waiting
    return whole


def figures_document(by_tenant: Mapping[str, Figures]) -> dict[str, Any]:
    """The figures in all, and by tenant."""
    tenants = {tenant: one.document() for tenant, one in by_tenant.items()}
    return total(by_tenant.values()).document() | {"byTenant": tenants}


class WorkerFigures:
    """The figures of the mails that this process's worker has had in its hands."""

    def __init__(self) -> None:
        self.by_tenant: dict[str, Figures] = defaultdict(Figures)
        self._retrying: set[str] = set()

    def see(self, event: Event) -> None:
        """The telemetry sink."""
        match event:
            case events.Completed(delivery) if delivery.message.queue == QUEUE:
                if is_fan_out(delivery.message):
                    return
                self._leave(delivery.message).delivered += 1
            case events.Buried(delivery) if delivery.message.queue == QUEUE:
                self._leave(delivery.message).dead += 1
            case events.RetryScheduled(delivery) if delivery.message.queue == QUEUE:
                self._enter(delivery.message)

    def _enter(self, message: Message) -> None:
        if message.id not in self._retrying:
            self._retrying.add(message.id)
            self.by_tenant[message.tenant].retrying += 1

    def _leave(self, message: Message) -> Figures:
        figures = self.by_tenant[message.tenant]
        if message.id in self._retrying:
            self._retrying.remove(message.id)
            figures.retrying -= 1
        return figures


@dataclass(frozen=True, slots=True)
class Sentence:
    """One event in words, with the shade it is shown in."""

    text: str
    style: str = ""


class Story:
    """The latest events in words; `tell` also hears each one."""

    def __init__(self, label: Callable[[Message], str], tell: Callable[[Sentence], None]) -> None:
        self.latest: deque[Sentence] = deque(maxlen=_REMEMBERED)
        self.last_dead: str | None = None
        self._label = label
        self._tell = tell

    def see(self, event: Event) -> None:
        """The telemetry sink."""
        if isinstance(event, events.Buried):
            self.last_dead = event.delivery.message.id
        sentence = self._sentence(event)
        if sentence is not None:
            self.latest.append(sentence)
            self._tell(sentence)

    def _sentence(self, event: Event) -> Sentence | None:
        match event:
            case events.Completed(delivery) if not is_fan_out(delivery.message):
                attempt = delivery.progress.attempts
                again = f" on attempt {attempt}" if attempt > 1 else ""
                return Sentence(
                    f"{self._who(delivery.message)} delivered{again}", "green" if again else "dim"
                )
            case events.RetryScheduled(delivery, failure):
                why = redact(clean(failure.reason))
                wait = duration(event.delay_ms)
                return Sentence(f"{self._who(delivery.message)} failed, retry in {wait}: {why}", "yellow")
            case events.Buried(delivery, failure):
                why = redact(clean(failure.reason))
                return Sentence(f"{self._who(delivery.message)} is dead ({event.reason}): {why}", "red")
            case events.Released(delivery) if event.delay_ms > 0:
                wait = duration(event.delay_ms)
                return Sentence(
                    f"{self._who(delivery.message)} runs later, in {wait}: no attempt counted", "cyan"
                )
            case events.LaneHeld(delivery):
                why = redact(clean(event.reason))
                return Sentence(f"all mails of {clean(delivery.message.tenant)} wait: {why}", "red")
            case events.StoreTrouble():
                return Sentence(f"the store does not answer: {redact(clean(event.error))}", "red")
            case _:
                return None

    def _who(self, message: Message) -> str:
        return clean(f"{message.tenant} {self._label(message)}")


def teller(output: Output) -> Callable[[Sentence], None]:
    """Off a terminal each event is a line; on one the page shows it."""

    def tell(sentence: Sentence) -> None:
        output.console.print(Text(f"{clock_time()} {sentence.text}"), soft_wrap=True)

    return (lambda sentence: None) if output.as_json or output.console.is_terminal else tell
