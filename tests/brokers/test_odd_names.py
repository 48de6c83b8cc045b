"""Queues of other software have whatever names the broker takes: they are collected, and letters go back."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from redrive.brokers.rabbitmq.design import QueueDesign, TopologyDesign
from redrive.brokers.rabbitmq.migration import on_virtual_host, queue_steps
from redrive.cli import run
from tests.brokers.apps import RabbitBroker, body
from tests.waiting import wait_until

ODD = ("bestellungen (tot) é*", "shop|orders$dead", "a'b\"c<d>{e}[f]", "失败", "%2F../x?y&z")
ODD_TOPOLOGY = """
[exchanges]
"événements*" = "topic"
[queues."q (été) $1"]
bindings = { "événements*" = ["#"] }
"""


@pytest.mark.parametrize("queue", ODD)
async def test_letters_of_a_queue_with_any_name_are_collected_and_sent_back(
    broker: RabbitBroker, queue: str
) -> None:
    origin = f"{queue} live"
    for name in (queue, origin):
        await broker.declare(name)
    await broker.put(queue, body(n=1))
    app = broker.make_app(broker__collect=f"{queue}={origin}")
    async with app, app.on_duty():

        async def is_here() -> bool:
            return await app.dead_letters.count() == 1

        await wait_until(is_here, 20, "it is collected")
        (letter,) = (await app.store.letters(None)).letters
        assert letter.message.headers["amqp-queue"] == origin
        await app.dead_letters.redrive(f'queue:"{letter.message.queue}"', canary=0)

        async def is_back() -> bool:
            return await broker.depth(origin) == 1

        await wait_until(is_back, 20, "it is back where it came from")


def test_a_topology_with_any_names_is_applied(
    broker_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "topology.toml"
    file.write_text(ODD_TOPOLOGY)
    flags = ["--topology", str(file), "--store", broker_url]
    assert run(["rabbitmq", "topology", "apply", "--yes", *flags]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["rabbitmq", "topology", "plan", *flags]) == 0
    assert capsys.readouterr().out.startswith("ensure"), "nothing is left to create"


@pytest.mark.parametrize("name", [*ODD, "$(touch x); `id`"])
def test_the_steps_of_a_migration_name_it_as_a_shell_reads_it(name: str) -> None:
    (step,) = (
        one
        for one in queue_steps(TopologyDesign((), (QueueDesign(name=name),)), name)
        if "set_parameter" in one
    )
    words = shlex.split(on_virtual_host(step, "shop").partition(": ")[2])
    assert words[:5] == ["rabbitmqctl", "--vhost=shop", "set_parameter", "shovel", f"{name}.holding"]
    moved = json.loads(words[5])
    assert (moved["src-queue"], moved["dest-queue"]) == (f"{name}.holding", name)
    assert moved["src-uri"] == "amqp:///shop"
