"""How a team's queues retry and park on RabbitMQ, and everything that has to stand on the broker for it.

A team writes a `TopologyDesign`: its exchanges and its queues. `topology()` is what follows. Pure: nothing
here connects to a broker.

The broker drops a message that went round a circle in which nobody rejected it; where dead letters are
forwarded at least once it keeps it instead, hidden, for ever. So in `fixed` mode, where everything that
dies in `q.X` comes back to `q.X`, nothing but a rejection may kill there: no message TTL, and a delivery
limit that is never reached (a consumer counts its crashes by `x-delivery-count`). In `backoff` mode whatever
the broker itself kills is a dead letter at once, so both may be chosen. Known weakness: a classic queue
forwards its dead letters at most once.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from unicodedata import category

from msgspec import Struct, field

from redrive.brokers.rabbitmq.topology import (
    Arguments,
    DeclaredBinding,
    DeclaredExchange,
    DeclaredQueue,
    ExchangeType,
    QueueType,
    Topology,
)
from redrive.core.errors import ConfigurationError

RETRY_KEY = "retry"
PARKING_KEY = "parking"
NEVER_REACHED = 1_000_000
"""The delivery limit of a queue that must not lose by one: RabbitMQ 4 sets 20 where none is named."""

DEFAULT_LIMIT = 20
_NAME_BYTES = 255
_TTL_MAXIMUM_MS = 2**32 - 1
_OVERFLOW = "reject-publish"
_STRATEGY = "at-least-once"


class RetryMode(StrEnum):
    """How a failed message comes back: rejected into one retry queue, or published to one of its delay."""

    FIXED = "fixed"
    BACKOFF = "backoff"


class DelayStep(Struct, frozen=True):
    """One delay of `backoff` mode: the queue that holds a message so long, and the key that leads into it."""

    delay_ms: int
    queue: str
    routing_key: str


class QueueDesign(Struct, frozen=True, kw_only=True):
    """One queue of a team, and how it retries. Its exchanges and queues for that are named after it."""

    name: str
    bindings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    type: QueueType = QueueType.QUORUM
    retry: RetryMode = RetryMode.FIXED
    retry_ttl_s: float = 15.0
    steps_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
    message_ttl_s: float | None = None
    delivery_limit: int | None = None

    def __post_init__(self) -> None:
        _check_delays(self)
        for name in (self.name, *(queue.name for queue in self.queues())):
            check_name("queue", name)
        _check_limits(self)

    @property
    def retry_exchange(self) -> str:
        return f"retry.{self.name}"

    @property
    def retry_queue(self) -> str:
        """Where `fixed` mode waits."""
        return f"{self.name}.retry"

    @property
    def dlq_exchange(self) -> str:
        return f"dlq.{self.name}"

    @property
    def dlq(self) -> str:
        return f"{self.name}.dlq"

    @property
    def steps(self) -> tuple[DelayStep, ...]:
        """The delay queues of `backoff` mode, the shortest first; none in `fixed` mode."""
        if self.retry is RetryMode.FIXED:
            return ()
        delays = ((milliseconds(delay), _in_words(delay)) for delay in self.steps_s)
        return tuple(DelayStep(ms, f"{self.retry_queue}.{words}", words) for ms, words in delays)

    @property
    def waiting_queues(self) -> tuple[str, ...]:
        """Where its messages wait for another try."""
        return tuple(step.queue for step in self.steps) or (self.retry_queue,)

    def step(self, delay_s: float) -> DelayStep:
        """The step for a delay: the shortest that is not below it, else the longest."""
        wanted = milliseconds(delay_s)
        return next((one for one in self.steps if one.delay_ms >= wanted), self.steps[-1])

    def exchanges(self) -> tuple[DeclaredExchange, ...]:
        """The exchanges of its own."""
        names = (self.retry_exchange, self.dlq_exchange)
        return tuple(DeclaredExchange(name, ExchangeType.DIRECT) for name in names)

    def queues(self) -> tuple[DeclaredQueue, ...]:
        """The queue itself, where its messages wait for another try, and where they end."""
        waiting = self.steps or (DelayStep(milliseconds(self.retry_ttl_s), self.retry_queue, RETRY_KEY),)
        return (
            DeclaredQueue(self.name, self._main_arguments()),
            *(DeclaredQueue(one.queue, self._waiting_arguments(one.delay_ms)) for one in waiting),
            DeclaredQueue(self.dlq, self._dlq_arguments()),
        )

    def all_bindings(self) -> tuple[DeclaredBinding, ...]:
        """Those that were asked for, and those of retrying and parking.

        The shortest delay is also reached by the key that `fixed` mode uses, so that whoever brings a message
        back by it need not know the mode.
        """
        asked = ((exchange, key) for exchange, keys in self.bindings.items() for key in keys)
        first = self.steps[0].queue if self.steps else self.retry_queue
        return (
            *(DeclaredBinding(exchange, self.name, key) for exchange, key in asked),
            DeclaredBinding(self.retry_exchange, first, RETRY_KEY),
            *(DeclaredBinding(self.retry_exchange, one.queue, one.routing_key) for one in self.steps),
            DeclaredBinding(self.dlq_exchange, self.dlq, PARKING_KEY),
        )

    def _main_arguments(self) -> Arguments:
        fixed = self.retry is RetryMode.FIXED
        target = (self.retry_exchange, RETRY_KEY) if fixed else (self.dlq_exchange, PARKING_KEY)
        limit = NEVER_REACHED if fixed else self.delivery_limit or DEFAULT_LIMIT
        found = self._arguments(*target, limit)
        if self.message_ttl_s is not None:
            found["x-message-ttl"] = milliseconds(self.message_ttl_s)
        return found

    def _waiting_arguments(self, delay_ms: int) -> Arguments:
        return self._arguments("", self.name, NEVER_REACHED) | {"x-message-ttl": delay_ms}

    def _dlq_arguments(self) -> Arguments:
        """A dead letter leaves by an acknowledgement alone: what is rejected here comes back here."""
        return self._arguments(self.dlq_exchange, PARKING_KEY, NEVER_REACHED)

    def _arguments(self, exchange: str, routing_key: str, limit: int) -> Arguments:
        found: Arguments = {
            "x-queue-type": self.type.value,
            "x-dead-letter-exchange": exchange,
            "x-dead-letter-routing-key": routing_key,
        }
        if self.type is QueueType.QUORUM:
            found |= {"x-dead-letter-strategy": _STRATEGY, "x-overflow": _OVERFLOW, "x-delivery-limit": limit}
        return found


class TopologyDesign(Struct, frozen=True):
    """What a team writes: the exchanges that are shared, and its queues."""

    exchanges: tuple[DeclaredExchange, ...] = ()
    queues: tuple[QueueDesign, ...] = ()

    def __post_init__(self) -> None:
        whole = self.topology()
        _check_unique("exchange", [one.name for one in whole.exchanges])
        _check_unique("queue", [one.name for one in whole.queues])
        known = {one.name for one in self.exchanges}
        for one in self.exchanges:
            check_name("exchange", one.name)
        for queue in self.queues:
            _check_bindings(queue, known)

    def queue(self, name: str) -> QueueDesign | None:
        """The design of a queue, by its name or its dead-letter queue's."""
        return next((one for one in self.queues if name in (one.name, one.dlq)), None)

    def topology(self) -> Topology:
        """Everything that follows, in the order of its names."""
        queues = self.queues
        own = (one for queue in queues for one in queue.exchanges())
        bound = {one for queue in queues for one in queue.all_bindings()}
        return Topology(
            exchanges=tuple(sorted((*self.exchanges, *own), key=lambda one: one.name)),
            queues=tuple(
                sorted((one for queue in queues for one in queue.queues()), key=lambda one: one.name)
            ),
            bindings=tuple(sorted(bound, key=lambda one: one.place)),
        )


def milliseconds(seconds: float) -> int:
    """As the broker counts."""
    return round(1000 * seconds)


def check_name(what: str, name: str) -> None:
    """Refuse a name that the broker would refuse."""
    if not name:
        raise ConfigurationError(f"a {what} without a name: give it one, such as q.validator")
    if len(name.encode()) > _NAME_BYTES:
        raise ConfigurationError(
            f"the {what} {name[:40]!r}… has a name of {len(name.encode())} bytes and the broker takes "
            f"{_NAME_BYTES}; queues for retries and dead letters are named after their queue: shorten it"
        )
    if any(category(character) == "Cc" for character in name):
        raise ConfigurationError(f"the {what} {name!r} has a control character in its name: leave it out")
    if name.startswith("amq."):
        raise ConfigurationError(
            f"the {what} {name!r} begins with amq., which the broker keeps for itself: rename it"
        )


def _in_words(seconds: float) -> str:
    ms = milliseconds(seconds)
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def _check_delays(design: QueueDesign) -> None:
    given = {"retry_ttl_s": (design.retry_ttl_s,), "steps_s": design.steps_s}
    if design.message_ttl_s is not None:
        given["message_ttl_s"] = (design.message_ttl_s,)
    for key, delays in given.items():
        for delay in delays:
            if not 1 <= 1000 * delay <= _TTL_MAXIMUM_MS:
                raise ConfigurationError(
                    f"{design.name}: {key} has {delay:g}: from 0.001 s to {_TTL_MAXIMUM_MS // 1000} s"
                )
    if not design.steps_s or any(not later > earlier for earlier, later in pairwise(design.steps_s)):
        raise ConfigurationError(
            f"{design.name}: steps_s has to name at least one delay, each longer than the one before: "
            "such as [1, 2, 4, 8]"
        )


def _check_limits(design: QueueDesign) -> None:
    if design.retry is RetryMode.FIXED:
        for key in ("message_ttl_s", "delivery_limit"):
            if getattr(design, key) is not None:
                raise ConfigurationError(
                    f'{design.name}: {key} does not go with retry = "fixed": what it ends would go '
                    "round without a rejection, and the broker drops that; "
                    f'set retry = "backoff", or leave {key} out'
                )
    if design.delivery_limit is not None and not 1 <= design.delivery_limit <= NEVER_REACHED:
        raise ConfigurationError(
            f"{design.name}: delivery_limit is {design.delivery_limit}: from 1 to {NEVER_REACHED}"
        )
    if design.delivery_limit is not None and design.type is QueueType.CLASSIC:
        raise ConfigurationError(
            f'{design.name}: a classic queue has no delivery limit: set type = "quorum", or leave it out'
        )


def _check_bindings(design: QueueDesign, known: set[str]) -> None:
    for exchange, keys in design.bindings.items():
        for key in keys:
            if len(key.encode()) > _NAME_BYTES:
                raise ConfigurationError(
                    f"{design.name}: the routing key {key[:40]!r}… has {len(key.encode())} bytes and the "
                    f"broker takes {_NAME_BYTES}: shorten it"
                )
        if exchange not in known:
            names = ", ".join(sorted(known)) or "none so far"
            raise ConfigurationError(
                f"{design.name} is bound to the exchange {exchange!r}, which is not declared ({names}): "
                f'add "{exchange}" = "topic" below [exchanges], or fix the name'
            )


def _check_unique(what: str, names: list[str]) -> None:
    twice = next((name for name, following in pairwise(sorted(names)) if name == following), None)
    if twice is not None:
        raise ConfigurationError(
            f"the {what} {twice} would be declared twice: another queue's retries or dead letters have "
            "that name; rename one of the two"
        )
