"""`redrive rabbitmq topology` against a real broker: what it says, what it changes, and what it leaves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aio_pika
import pytest

from redrive.cli import run
from tests.brokers.server import RabbitServer
from tests.cli.conftest import Result
from tests.servers import free_port

EXAMPLE = Path(__file__).parents[2] / "examples/files/topology.toml"
SMALL = """
[exchanges]
events = "topic"
[queues."q.orders"]
retry_ttl_s = 5
bindings = { events = ["orders.*"] }
"""


class Topology:
    """The commands on one virtual host, with a topology of our own."""

    def __init__(
        self, file: Path, url: str, server: RabbitServer, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.file, self.url, self._capture = file, url, capture
        self.management = ("--management", server.management_url)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def __call__(self, command: str, *flags: str) -> Result:
        self._capture.readouterr()
        code = run(
            ["rabbitmq", "topology", command, "--topology", str(self.file), "--store", self.url, *flags]
        )
        return Result(code, *self._capture.readouterr())

    def applied(self, *flags: str) -> Result:
        result = self("apply", "--yes", "--json", *flags)
        assert result.code in (0, 3), result.error
        return result


@pytest.fixture
def topology(
    tmp_path: Path, broker_url: str, rabbitmq: RabbitServer, capsys: pytest.CaptureFixture[str]
) -> Topology:
    made = Topology(tmp_path / "topology.toml", broker_url, rabbitmq, capsys)
    made.write(SMALL)
    return made


def test_applied_over_amqp_the_example_stands_as_it_was_asked_for(topology: Topology) -> None:
    topology.write(EXAMPLE.read_text())
    assert topology.applied().document["created"] == 37
    compared = topology("diff", *topology.management)
    assert (compared.code, compared.out) == (0, "the broker is as the topology says\n")


def test_applying_again_creates_nothing_and_does_not_ask(topology: Topology) -> None:
    topology.applied(*topology.management)
    again = topology("apply", "--json", *topology.management)
    assert again.document == {"topology": str(topology.file), "changes": [], "created": 0}
    assert topology.applied().document["created"] == 0


def test_imported_into_a_fresh_broker_definitions_json_leaves_no_difference(
    topology: Topology, rabbitmq: RabbitServer
) -> None:
    topology.write(EXAMPLE.read_text())
    printed = topology("definitions").out
    host = topology.url.rpartition("/")[2]
    assert {one["vhost"] for one in json.loads(printed)["queues"]} == {host}
    rabbitmq.import_definitions(printed)
    assert topology("diff", "--json", *topology.management).document["changes"] == []


def test_what_is_missing_is_said_before_anything_is_made(topology: Topology) -> None:
    planned = topology("plan", "--json", *topology.management).document
    assert {(one["kind"], one["part"], one["name"]) for one in planned["changes"]} == {
        ("create", "exchange", "events"),
        ("create", "exchange", "retry.q.orders"),
        ("create", "exchange", "dlq.q.orders"),
        ("create", "queue", "q.orders"),
        ("create", "queue", "q.orders.retry"),
        ("create", "queue", "q.orders.dlq"),
        ("create", "binding", "events -> q.orders (orders.*)"),
        ("create", "binding", "retry.q.orders -> q.orders.retry (retry)"),
        ("create", "binding", "dlq.q.orders -> q.orders.dlq (parking)"),
    }
    asked = topology("apply")
    assert asked.code == 2
    assert "needs a confirmation" in asked.error
    assert "create queue q.orders.retry" in asked.error
    assert topology("diff", *topology.management).code == 1


@pytest.mark.parametrize("over_amqp", [True, False])
def test_a_ttl_that_changed_is_left_alone_and_comes_with_the_steps(
    topology: Topology, over_amqp: bool
) -> None:
    topology.applied()
    topology.write(SMALL.replace("retry_ttl_s = 5", "retry_ttl_s = 7"))
    flags = () if over_amqp else topology.management
    partly = topology.applied(*flags)
    assert partly.code == 3
    change = next(one for one in partly.document["changes"] if one["kind"] == "migrate")
    assert change["name"] == "q.orders.retry"
    assert "5000" in change["differs"][0]
    assert (
        change["steps"][0] == "stop the consumers of q.orders: nothing else puts messages into q.orders.retry"
    )
    host = topology.url.rpartition("/")[2]
    assert change["steps"][2].endswith(f"rabbitmqctl --vhost={host} delete_queue q.orders.retry")
    assert topology("diff", "--json", *topology.management).document["changes"][0]["differs"] == [
        "x-message-ttl: 5000 there, 7000 in the topology"
    ]


def test_a_queue_that_others_declared_is_compared_in_every_argument(topology: Topology) -> None:
    topology.applied()
    topology.write(SMALL.replace("retry_ttl_s = 5", 'type = "classic"'))
    changed = topology("diff", "--json", *topology.management).document["changes"]
    assert {one["name"] for one in changed} == {"q.orders", "q.orders.retry", "q.orders.dlq"}
    assert "x-queue-type: 'quorum' there, 'classic' in the topology" in changed[0]["differs"]
    assert topology.applied().code == 3


def test_a_binding_that_nobody_asked_for_is_named_and_what_is_not_ours_is_not(
    topology: Topology,
) -> None:
    topology.applied()

    async def bind() -> None:
        async with await aio_pika.connect(topology.url) as connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange("events")
            await (await channel.get_queue("q.orders")).bind(exchange, "invoices.*")
            await (await channel.declare_queue("q.others", durable=True)).bind(exchange, "#")

    asyncio.run(bind())
    compared = topology("diff", "--json", *topology.management)
    assert compared.code == 1
    assert [(one["kind"], one["name"]) for one in compared.document["changes"]] == [
        ("unexpected", "events -> q.orders (invoices.*)")
    ]


def test_a_broker_that_does_not_answer_is_exit_5_and_its_password_is_not_shown(topology: Topology) -> None:
    topology.url = f"amqp://guest:hunter2@127.0.0.1:{free_port()}/"
    for flags in ((), ("--management", f"http://guest:hunter2@127.0.0.1:{free_port()}")):
        result = topology("plan", *flags)
        assert result.code == 5
        assert "does not answer" in result.error
        assert "hunter2" not in result.error + result.out


def test_a_wrong_password_is_named_as_such(topology: Topology) -> None:
    topology.url = topology.url.replace("guest:guest", "guest:hunter2")
    result = topology("plan")
    assert result.code == 5
    assert "refuses this user or password" in result.error
    assert "hunter2" not in result.error


def test_without_a_broker_the_commands_that_need_one_say_so(topology: Topology) -> None:
    topology.url = "sqlite:///redrive.db"
    assert topology("show").code == topology("definitions").code == 0
    result = topology("plan")
    assert result.code == 2
    assert "--store amqp://" in result.error


def test_a_mistake_in_the_file_is_exit_2_with_its_place(topology: Topology) -> None:
    topology.write('[queues."q.orders"]\nretri = 5')
    result = topology("show")
    assert result.code == 2
    assert "topology.toml, line 1" in result.error


def test_the_way_of_each_queue_is_shown(topology: Topology) -> None:
    topology.write(
        '[queues."q.orders"]\nretry = "backoff"\nsteps_s = [1, 2]\nmessage_ttl_s = 60\n[queues."q.plain"]'
    )
    assert topology("show").out == (
        "q.orders  quorum, backoff\n"
        "  from     nothing but its own name\n"
        "  retries  retry.q.orders -> q.orders.retry.1s, q.orders.retry.2s\n"
        "  parks    dlq.q.orders -> q.orders.dlq\n"
        "  expires  after 60 s, to q.orders.dlq\n"
        "q.plain  quorum, fixed\n"
        "  from     nothing but its own name\n"
        "  retries  retry.q.plain -> q.plain.retry, back after 15 s\n"
        "  parks    dlq.q.plain -> q.plain.dlq\n"
    )
    document = topology("show", "--json").document
    assert len(document["queues"]) == 7
    assert {"exchange": "dlq.q.plain", "queue": "q.plain.dlq", "routingKey": "parking"} in document[
        "bindings"
    ]
