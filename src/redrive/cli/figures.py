"""How far mails are, in figures: delivered, retrying, dead and waiting, in all and for each tenant.

Counted by recipient: a mail to three has three fates. `up` counts what its own worker tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redrive.core.message import Message
from redrive.mail.gateway import QUEUE
from redrive.telemetry import events
from redrive.telemetry.events import Event


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


def is_fan_out(message: Message) -> bool:
    """Whether it is a mail to several recipients: its hand-over only makes the children."""
    return message.queue == QUEUE and "to" not in message.headers
