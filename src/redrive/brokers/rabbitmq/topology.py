"""What stands on a RabbitMQ broker, as data: exchanges, queues and bindings.

Everything here may be declared, printed or compared; `design.py` says what follows from a team's queues, and
nothing connects to a broker.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

Argument = str | int | float | bool
Arguments = dict[str, Argument]


class ExchangeType(StrEnum):
    """How an exchange chooses the queues of a message."""

    TOPIC = "topic"
    DIRECT = "direct"
    FANOUT = "fanout"
    HEADERS = "headers"


class QueueType(StrEnum):
    """How a queue is kept: by a majority of nodes, or on one."""

    QUORUM = "quorum"
    CLASSIC = "classic"


class DeclaredExchange(Struct, frozen=True, rename="camel"):
    """An exchange. Its type is text: a live broker may have plugins with more."""

    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = field(default_factory=dict)


class DeclaredQueue(Struct, frozen=True, rename="camel"):
    """A queue with the arguments it is declared with."""

    name: str
    arguments: Arguments
    durable: bool = True
    auto_delete: bool = False

    @property
    def type(self) -> str:
        """A queue that names no type is classic."""
        return str(self.arguments.get("x-queue-type", QueueType.CLASSIC))


class DeclaredBinding(Struct, frozen=True, rename="camel"):
    """From an exchange to a queue."""

    exchange: str
    queue: str
    routing_key: str

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is found by, and sorted by."""
        return self.exchange, self.queue, self.routing_key


class Topology(Struct, frozen=True):
    """Everything that is declared, each part in the order of its names."""

    exchanges: tuple[DeclaredExchange, ...] = ()
    queues: tuple[DeclaredQueue, ...] = ()
    bindings: tuple[DeclaredBinding, ...] = ()
