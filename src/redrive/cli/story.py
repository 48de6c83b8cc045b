"""What a running worker tells: events as sentences, and how many of each there were."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redrive.cli.figures import is_fan_out
from redrive.cli.output import clean
from redrive.cli.times import duration
from redrive.core.message import Message
from redrive.core.redaction import redact
from redrive.telemetry import events
from redrive.telemetry.events import Event

_REMEMBERED = 100
_COUNTED: dict[type, str] = {
    events.Completed: "done",
    events.RetryScheduled: "retried",
    events.Buried: "buried",
    events.Released: "released",
}


@dataclass(slots=True)
class Counts:
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
