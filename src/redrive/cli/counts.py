"""What a worker came to, in numbers, and what its process manager hears of it: sinks of its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redrive.core.message import Message
from redrive.machine.supervisor import say_ready, say_stopping
from redrive.mail.stored import QUEUE
from redrive.telemetry import events
from redrive.telemetry.events import Event

_COUNTED: dict[type, str] = {
    events.Completed: "done",
    events.RetryScheduled: "retried",
    events.Buried: "buried",
    events.Released: "released",
}


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

    def add(self, document: Mapping[str, Any]) -> None:
        """What another process counted, as its document says."""
        self.ended.update({word: document[word] for word in _COUNTED.values()})
        self.reasons.update(document["reasons"])

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


@dataclass(slots=True)
class WorkResult:
    """What a worker came to, on which store; one that never reached its store cannot name it."""

    counts: AttemptCounts = field(default_factory=AttemptCounts)
    store: str | None = None
    durability: str | None = None

    def see(self, event: Event) -> None:
        """The telemetry sink."""
        self.counts.see(event)
        if isinstance(event, events.WorkerStarted):
            self.store, self.durability = event.store, event.durability

    def add(self, document: Mapping[str, Any]) -> None:
        """What another process came to, as its document says."""
        self.counts.add(document)
        self.store = self.store or document["store"]
        self.durability = self.durability or document["durability"]

    def document(self) -> dict[str, Any]:
        """For --json."""
        return {"store": self.store, "durability": self.durability, **self.counts.document()}


class ManagerSink:
    """A telemetry sink: the process manager hears when all of `workers` work, and when they drain."""

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._queues: dict[str, tuple[str, ...]] = {}

    def see(self, event: Event) -> None:
        """The telemetry sink."""
        if isinstance(event, events.WorkerStarted):
            self._queues[event.worker] = event.queues
            if len(self._queues) == self._workers:
                say_ready(f"serving {', '.join(queue for one in self._queues.values() for queue in one)}")
        elif isinstance(event, events.WorkerStopping):
            say_stopping(f"{event.running} running, with {event.drain_s:g} s to finish")


def is_fan_out(message: Message) -> bool:
    """Whether it is a mail to several recipients: its hand-over only makes the children."""
    return message.queue == QUEUE and "to" not in message.headers
