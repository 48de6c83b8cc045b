"""A topology as the broker itself writes it: `definitions.json`, and the lists of the management API.

What is written is imported by the broker as it is. Users and permissions are not part of it: whoever may use
the broker is not a matter of its queues. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redrive.brokers.rabbitmq.topology import DeclaredBinding, DeclaredExchange, DeclaredQueue, Topology

Row = Mapping[str, Any]


def definitions(topology: Topology, virtual_host: str) -> dict[str, Any]:
    """The document of `rabbitmqctl import_definitions` and of the management API."""
    here = {"vhost": virtual_host}
    return {
        "vhosts": [{"name": virtual_host}],
        "exchanges": [
            {
                "name": one.name,
                **here,
                "type": one.type,
                "durable": one.durable,
                "auto_delete": one.auto_delete,
                "internal": one.internal,
                "arguments": dict(one.arguments),
            }
            for one in topology.exchanges
        ],
        "queues": [
            {
                "name": one.name,
                **here,
                "durable": one.durable,
                "auto_delete": one.auto_delete,
                "arguments": dict(one.arguments),
            }
            for one in topology.queues
        ],
        "bindings": [
            {
                "source": one.exchange,
                **here,
                "destination": one.queue,
                "destination_type": "queue",
                "routing_key": one.routing_key,
                "arguments": {},
            }
            for one in topology.bindings
        ],
    }


def from_lists(exchanges: Iterable[Row], queues: Iterable[Row], bindings: Iterable[Row]) -> Topology:
    """What the management API lists of one virtual host, without the broker's own exchanges.

    Bindings to other exchanges are left out, and those of the default exchange, which every queue has.
    """
    return Topology(
        exchanges=tuple(
            DeclaredExchange(
                one["name"],
                one["type"],
                one["durable"],
                one["auto_delete"],
                one["internal"],
                one["arguments"],
            )
            for one in exchanges
            if one["name"] and not one["name"].startswith("amq.")
        ),
        queues=tuple(
            DeclaredQueue(one["name"], _typed(one), one["durable"], one["auto_delete"]) for one in queues
        ),
        bindings=tuple(
            DeclaredBinding(one["source"], one["destination"], one["routing_key"])
            for one in bindings
            if one["source"] and one["destination_type"] == "queue"
        ),
    )


def _typed(queue: Row) -> dict[str, Any]:
    """The arguments with the type: a queue may have got it from its virtual host's default."""
    return {"x-queue-type": queue.get("type", "classic"), **queue["arguments"]}
