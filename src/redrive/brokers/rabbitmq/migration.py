"""How a person changes what RabbitMQ cannot change in place, without losing a message: the steps, in order.

A queue's type, TTL and dead-letter settings are fixed when it is declared, so it has to be deleted and
declared again while nothing is in it and nothing comes. Pure: nothing here is carried out. Known weakness: a
message may arrive twice while a queue that others publish to is replaced, never not at all.
"""

from __future__ import annotations

import json
from shlex import quote
from urllib.parse import quote as url_quote

from redrive.brokers.rabbitmq.design import QueueDesign, TopologyDesign
from redrive.brokers.rabbitmq.topology import DeclaredBinding

_APPLY = "redrive rabbitmq topology apply"


def queue_steps(design: TopologyDesign, name: str) -> tuple[str, ...]:
    """The steps for one queue, by what it is for."""
    for queue in design.queues:
        if name == queue.name:
            return _main(queue)
        if name == queue.dlq:
            return _dead_letters(queue)
        if name in (one.name for one in queue.queues()):
            return _waiting(queue, name)
    return ()


def exchange_steps(name: str) -> tuple[str, ...]:
    """An exchange takes its bindings with it, and what is published meanwhile finds no queue."""
    return (
        f"stop everything that publishes to {name}, and the consumers that retry or park through it",
        f"delete it: rabbitmqadmin delete exchange name={quote(name)}",
        f"create it with its bindings: {_APPLY}",
        "bind the queues to it again that are not in the topology, then start what was stopped",
    )


def unbind_steps(binding: DeclaredBinding) -> tuple[str, ...]:
    """Nothing is lost by a binding that goes, and what it brought stays in the queue."""
    return (f"if nobody needs it: {_unbind(binding)}",)


def on_virtual_host(step: str, name: str) -> str:
    """A step as it is carried out on another virtual host than `/`."""
    if name == "/":
        return step
    for tool in ("rabbitmqctl", "rabbitmqadmin"):
        step = step.replace(f"{tool} ", f"{tool} --vhost={quote(name)} ")
    return step.replace('"amqp://"', f'"amqp:///{url_quote(name, safe="")}"')


def _waiting(queue: QueueDesign, name: str) -> tuple[str, ...]:
    """What waits for another try leaves by itself; only its consumers put more there."""
    return (
        f"stop the consumers of {queue.name}: nothing else puts messages into {name}",
        f"wait until {name} is empty, at most its delay: {_count(name)}",
        _delete(name),
        f"create it as the topology says: {_APPLY}",
        f"start the consumers of {queue.name}",
    )


def _dead_letters(queue: QueueDesign) -> tuple[str, ...]:
    """What is parked meanwhile comes back unroutable, so its consumer keeps the original."""
    return (
        f"stop the consumers of {queue.name}, and leave a worker that collects its dead letters",
        f"wait until every letter of {queue.dlq} is collected: {_count(queue.dlq)}",
        _delete(queue.dlq),
        f"create it as the topology says: {_APPLY}",
        f"start the consumers of {queue.name}",
    )


def _main(queue: QueueDesign) -> tuple[str, ...]:
    """A holding queue takes the new messages while the old ones are worked off."""
    name, holding = queue.name, f"{queue.name}.holding"
    asked = [
        DeclaredBinding(exchange, name, key) for exchange, keys in queue.bindings.items() for key in keys
    ]
    waiting = " ".join(one.name for one in queue.queues()[1:-1])
    return (
        f"make a holding queue: rabbitmqadmin declare queue name={quote(holding)} durable=true"
        ' arguments=\'{"x-queue-type": "quorum"}\'',
        *(f"let it take the new messages: {_bind(one, holding)}" for one in asked),
        *(
            f"let {name} take no more, those between now and the step before arrive twice: {_unbind(one)}"
            for one in asked
        ),
        f"if anything publishes straight to {name} by its name, stop that",
        f"let the consumers work until {name} and {waiting} are empty: {_count(name)}",
        f"stop the consumers of {name}",
        _delete(name),
        f"create it as the topology says, with its bindings: {_APPLY}",
        *(f"let the holding queue take no more: {_unbind(one, holding)}" for one in asked),
        f"move what it took (plugin rabbitmq_shovel): {_shovel(holding, name)}",
        f"wait until {holding} is empty, then: rabbitmqctl clear_parameter shovel {quote(holding)}",
        _delete(holding),
        f"start the consumers of {name}",
    )


def _count(name: str) -> str:
    return f"rabbitmqctl list_queues name messages | grep -F {quote(name)}"


def _delete(name: str) -> str:
    return f"delete it, once it is empty: rabbitmqctl delete_queue {quote(name)}"


def _bind(binding: DeclaredBinding, queue: str) -> str:
    return (
        f"rabbitmqadmin declare binding source={quote(binding.exchange)} destination={quote(queue)} "
        f"destination_type=queue routing_key={quote(binding.routing_key)}"
    )


def _unbind(binding: DeclaredBinding, queue: str | None = None) -> str:
    return (
        f"rabbitmqadmin delete binding source={quote(binding.exchange)} "
        f"destination={quote(queue or binding.queue)} destination_type=queue "
        f"properties_key={quote(binding.routing_key)}"
    )


def _shovel(source: str, destination: str) -> str:
    moved = {
        "src-uri": "amqp://",
        "src-queue": source,
        "dest-uri": "amqp://",
        "dest-queue": destination,
        "ack-mode": "on-confirm",
    }
    return f"rabbitmqctl set_parameter shovel {quote(source)} {quote(json.dumps(moved, ensure_ascii=False))}"
