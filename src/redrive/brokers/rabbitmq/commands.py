"""`redrive rabbitmq topology`: what should stand on the broker, what does, and the difference applied.

The commands read and say; what follows from a topology and what separates it from a broker is decided by
`design.py` and `difference.py`. Nothing is ever deleted: what cannot be changed in place comes with steps.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from redrive.brokers.rabbitmq.address import check_address, is_broker, virtual_host
from redrive.brokers.rabbitmq.definitions import definitions as as_definitions
from redrive.brokers.rabbitmq.design import QueueDesign, RetryMode, TopologyDesign
from redrive.brokers.rabbitmq.design_file import read_design
from redrive.brokers.rabbitmq.difference import ChangeKind, TopologyChange, compare
from redrive.brokers.rabbitmq.management import read_topology
from redrive.brokers.rabbitmq.migration import on_virtual_host
from redrive.brokers.tools import Groups, ToolDesk, ToolOutcome
from redrive.core.errors import ConfigurationError
from redrive.core.redaction import printable

_FILE = "topology.toml"


class TopologyReport(Struct, frozen=True, rename="camel"):
    """What separates a broker from a topology, or was done about it."""

    topology: str
    changes: tuple[TopologyChange, ...]
    created: int = 0


async def show(desk: ToolDesk, *, topology: Path | None = None) -> ToolOutcome:
    """Every exchange, queue and binding that follows from the topology, and how each queue retries.

    Parameters
    ----------
    topology
        The file; by default the setting broker.topology, else topology.toml.
    """
    _, design = _read(desk, topology)
    desk.terminal.answer(to_builtins(design.topology()), lambda: "\n".join(map(_described, design.queues)))
    return ToolOutcome.DONE


async def definitions(
    desk: ToolDesk, *, topology: Path | None = None, vhost: str | None = None
) -> ToolOutcome:
    """The topology as definitions.json: `rabbitmqctl import_definitions` takes it as it is.

    Parameters
    ----------
    topology
        The file; by default the setting broker.topology, else topology.toml.
    vhost
        The virtual host; by default the one of the store's address, else /.
    """
    _, design = _read(desk, topology)
    here = vhost or (virtual_host(desk.url) if is_broker(desk.url) else "/")
    document = as_definitions(design.topology(), here)
    desk.terminal.answer(document, lambda: json.dumps(document, indent=2))
    return ToolOutcome.DONE


async def plan(desk: ToolDesk, *, topology: Path | None = None, management: str | None = None) -> ToolOutcome:
    """What apply would create, and what it cannot change in place, with the steps to change it.

    Parameters
    ----------
    topology
        The file; by default the setting broker.topology, else topology.toml.
    management
        The management API, such as http://localhost:15672, for bindings and every argument.
    """
    path, design = _read(desk, topology)
    changes = await _changes(desk, design, management)
    desk.terminal.answer(TopologyReport(str(path), changes), lambda: _told(changes))
    return ToolOutcome.DONE


async def diff(desk: ToolDesk, *, management: str, topology: Path | None = None) -> ToolOutcome:
    """Compare a live broker with the topology; 1 when anything differs.

    Parameters
    ----------
    management
        The management API, such as http://localhost:15672: AMQP does not show arguments and bindings.
    topology
        The file; by default the setting broker.topology, else topology.toml.
    """
    path, design = _read(desk, topology)
    changes = compare(design, await read_topology(management, _broker(desk)))
    desk.terminal.answer(TopologyReport(str(path), changes), lambda: _told(changes))
    return ToolOutcome.FAILED if changes else ToolOutcome.DONE


async def apply(
    desk: ToolDesk, *, topology: Path | None = None, management: str | None = None, yes: bool = False
) -> ToolOutcome:
    """Create what is missing on the broker; 3 when something is left that cannot be changed in place.

    Parameters
    ----------
    topology
        The file; by default the setting broker.topology, else topology.toml.
    management
        The management API, such as http://localhost:15672, for bindings and every argument.
    yes
        Do not ask.
    """
    from redrive.brokers.rabbitmq.live import declare, in_the_way

    path, design = _read(desk, topology)
    changes = await _changes(desk, design, management)
    count = _count(changes)
    if count[ChangeKind.CREATE] or count[ChangeKind.ENSURE]:
        for line in _told(changes).splitlines():
            desk.terminal.note(line)
        if not await desk.terminal.confirm(_question(count), yes=yes):
            return ToolOutcome.FAILED
        await declare(_broker(desk), design, in_the_way(changes))
    report = TopologyReport(str(path), changes, count[ChangeKind.CREATE])
    desk.terminal.answer(report, lambda: _done(count, changes))
    return ToolOutcome.PARTIAL if count[ChangeKind.MIGRATE] else ToolOutcome.DONE


GROUPS: Groups = {
    "topology": (
        "See, compare and apply the exchanges, queues and bindings of a topology.",
        {"show": show, "definitions": definitions, "plan": plan, "apply": apply, "diff": diff},
    )
}


async def _changes(
    desk: ToolDesk, design: TopologyDesign, management: str | None
) -> tuple[TopologyChange, ...]:
    """By the management API everything; by AMQP what it shows, and every binding."""
    url = _broker(desk)
    if management is not None:
        return _located(compare(design, await read_topology(management, url)), url)
    from redrive.brokers.rabbitmq.live import bindings_of, probe

    return _located((*await probe(url, design), *bindings_of(design)), url)


def _located(changes: tuple[TopologyChange, ...], url: str) -> tuple[TopologyChange, ...]:
    """The changes with the steps for the virtual host of the address."""
    here = virtual_host(url)
    return tuple(
        replace(one, steps=tuple(on_virtual_host(step, here) for step in one.steps)) for one in changes
    )


def _read(desk: ToolDesk, topology: Path | None) -> tuple[Path, TopologyDesign]:
    path = topology or Path(desk.topology or _FILE)
    return path, read_design(path)


def _broker(desk: ToolDesk) -> str:
    if not is_broker(desk.url):
        raise ConfigurationError(
            "store does not name a broker: give its address, such as --store amqp://broker.example/"
        )
    check_address(desk.url)
    return desk.url


def _described(queue: QueueDesign) -> str:
    bound = [f"{exchange} ({key})" for exchange, keys in queue.bindings.items() for key in keys]
    if queue.retry is RetryMode.FIXED:
        retry = f"{queue.retry_exchange} -> {queue.retry_queue}, back after {queue.retry_ttl_s:g} s"
    else:
        retry = f"{queue.retry_exchange} -> {', '.join(step.queue for step in queue.steps)}"
    lines = [
        f"{queue.name}  {queue.type.value}, {queue.retry.value}",
        f"  from     {', '.join(bound) or 'nothing but its own name'}",
        f"  retries  {retry}",
        f"  parks    {queue.dlq_exchange} -> {queue.dlq}",
    ]
    if queue.message_ttl_s is not None:
        lines.append(f"  expires  after {queue.message_ttl_s:g} s, to {queue.dlq}")
    return "\n".join(lines)


def _told(changes: tuple[TopologyChange, ...]) -> str:
    lines = [_line(one) for one in changes if one.kind is not ChangeKind.ENSURE]
    ensured = _count(changes)[ChangeKind.ENSURE]
    if ensured:
        lines.append(
            f"ensure     binding   all {ensured}: AMQP does not show which are there, --management does"
        )
    return "\n".join(lines) or "the broker is as the topology says"


def _line(change: TopologyChange) -> str:
    head = f"{change.kind.value:<11}{change.part.value:<10}{printable(change.name)}"
    differs = [f"             {printable(one)}" for one in change.differs]
    steps = [f"           {number}. {printable(one)}" for number, one in enumerate(change.steps, 1)]
    return "\n".join([head, *differs, *steps])


def _count(changes: tuple[TopologyChange, ...]) -> Counter[ChangeKind]:
    return Counter(one.kind for one in changes)


def _question(count: Counter[ChangeKind]) -> str:
    created, ensured = count[ChangeKind.CREATE], count[ChangeKind.ENSURE]
    return " and ".join(
        [f"create {created} on the broker"] * bool(created) + [f"ensure {ensured} bindings"] * bool(ensured)
    )


def _done(count: Counter[ChangeKind], changes: tuple[TopologyChange, ...]) -> str:
    left = [one for one in changes if one.kind is ChangeKind.MIGRATE]
    done = f"{count[ChangeKind.CREATE]} created"
    if count[ChangeKind.ENSURE]:
        done += f", {count[ChangeKind.ENSURE]} bindings ensured"
    if not left:
        return f"{done}; the broker has everything of the topology"
    return "\n".join([f"{done}; {len(left)} cannot be changed in place:", *map(_line, left)])
