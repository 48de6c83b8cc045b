"""What separates a live broker from a topology: what is missing, what stands there with other settings, and
which bindings lead into a queue of the topology that nobody asked for.

What else stands on the broker is other people's, and no difference. Pure: no broker is asked or changed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from redrive.brokers.rabbitmq.design import TopologyDesign
from redrive.brokers.rabbitmq.migration import exchange_steps, queue_steps, unbind_steps
from redrive.brokers.rabbitmq.topology import DeclaredBinding, DeclaredExchange, DeclaredQueue, Topology


class ChangeKind(StrEnum):
    """What has to be done. `apply` creates what is missing, and ensures what it cannot see; the others are
    work for a person, with steps."""

    CREATE = "create"
    ENSURE = "ensure"
    MIGRATE = "migrate"
    UNEXPECTED = "unexpected"


class TopologyPart(StrEnum):
    """What a change is about."""

    EXCHANGE = "exchange"
    QUEUE = "queue"
    BINDING = "binding"


class TopologyChange(Struct, frozen=True, rename="camel"):
    """One difference. `differs` says in what, `steps` how a person removes it without losing a message."""

    kind: ChangeKind
    part: TopologyPart
    name: str
    differs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def compare(design: TopologyDesign, live: Topology) -> tuple[TopologyChange, ...]:
    """Every difference, exchanges first, then queues, then bindings."""
    wanted = design.topology()
    return (
        *_exchanges(wanted, live),
        *_queues(design, wanted, live),
        *_bindings(wanted, live),
    )


def binding_name(binding: DeclaredBinding) -> str:
    """A binding as people read it."""
    return f"{binding.exchange} -> {binding.queue} ({binding.routing_key})"


def missing(part: TopologyPart, name: str) -> TopologyChange:
    """What `apply` would create."""
    return TopologyChange(ChangeKind.CREATE, part, name)


def different_queue(design: TopologyDesign, name: str, differs: tuple[str, ...]) -> TopologyChange:
    """A queue that has to be replaced, and how."""
    return TopologyChange(ChangeKind.MIGRATE, TopologyPart.QUEUE, name, differs, queue_steps(design, name))


def different_exchange(name: str, differs: tuple[str, ...]) -> TopologyChange:
    """An exchange that has to be replaced, and how."""
    return TopologyChange(ChangeKind.MIGRATE, TopologyPart.EXCHANGE, name, differs, exchange_steps(name))


def _exchanges(wanted: Topology, live: Topology) -> Iterator[TopologyChange]:
    there = {one.name: one for one in live.exchanges}
    for one in wanted.exchanges:
        if one.name not in there:
            yield missing(TopologyPart.EXCHANGE, one.name)
        elif differs := _differs(_facts_of_exchange(one), _facts_of_exchange(there[one.name])):
            yield different_exchange(one.name, differs)


def _queues(design: TopologyDesign, wanted: Topology, live: Topology) -> Iterator[TopologyChange]:
    there = {one.name: one for one in live.queues}
    for one in wanted.queues:
        if one.name not in there:
            yield missing(TopologyPart.QUEUE, one.name)
        elif differs := _differs(_facts_of_queue(one), _facts_of_queue(there[one.name])):
            yield different_queue(design, one.name, differs)


def _bindings(wanted: Topology, live: Topology) -> Iterator[TopologyChange]:
    asked, there = set(wanted.bindings), set(live.bindings)
    ours = {one.name for one in wanted.queues}
    for one in sorted(asked - there, key=lambda one: one.place):
        yield missing(TopologyPart.BINDING, binding_name(one))
    for one in sorted(there - asked, key=lambda one: one.place):
        if one.queue in ours:
            yield TopologyChange(
                ChangeKind.UNEXPECTED, TopologyPart.BINDING, binding_name(one), steps=unbind_steps(one)
            )


def _facts_of_exchange(one: DeclaredExchange) -> dict[str, object]:
    flags = {"durable": one.durable, "auto_delete": one.auto_delete, "internal": one.internal}
    return {"type": one.type, **flags, **one.arguments}


def _facts_of_queue(one: DeclaredQueue) -> dict[str, object]:
    return {
        "durable": one.durable,
        "auto_delete": one.auto_delete,
        "x-queue-type": one.type,
        **one.arguments,
    }


def _differs(wanted: dict[str, object], found: dict[str, object]) -> tuple[str, ...]:
    return tuple(
        f"{key}: {_shown(found.get(key))} there, {_shown(wanted.get(key))} in the topology"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key) != found.get(key)
    )


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
