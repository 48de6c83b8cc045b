"""The topology as data: names, arguments and ways that follow from a queue, and mistakes in the file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.brokers.rabbitmq.design import (
    NEVER_REACHED,
    PARKING_KEY,
    RETRY_KEY,
    QueueDesign,
    RetryMode,
    TopologyDesign,
)
from redrive.brokers.rabbitmq.design_file import parse_design, read_design
from redrive.brokers.rabbitmq.topology import DeclaredExchange, DeclaredQueue, QueueType, Topology
from redrive.core.errors import ConfigurationError

EXAMPLE = Path(__file__).parents[2] / "examples/files/topology.toml"
QUORUM = {
    "x-queue-type": "quorum",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
    "x-delivery-limit": NEVER_REACHED,
}
NAMES = st.sampled_from(["q.orders", "q.audit", "q.upload.commands", "orders", "orders.late", "q.é"])


def arguments(topology: Topology, queue: str) -> dict[str, object]:
    return dict(next(one.arguments for one in topology.queues if one.name == queue))


def reached(topology: Topology, exchange: str, routing_key: str) -> set[str]:
    """Where a message with a plain key goes; the default exchange leads to the queue of that name."""
    if not exchange:
        return {one.name for one in topology.queues if one.name == routing_key}
    return {
        one.queue for one in topology.bindings if one.exchange == exchange and one.routing_key == routing_key
    }


def after_death(topology: Topology, queue: DeclaredQueue) -> set[str]:
    found = queue.arguments
    return reached(topology, str(found["x-dead-letter-exchange"]), str(found["x-dead-letter-routing-key"]))


@st.composite
def designs(draw: st.DrawFn) -> TopologyDesign:
    queues = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)):
        mode, kind = draw(st.sampled_from(RetryMode)), draw(st.sampled_from(QueueType))
        free = mode is RetryMode.BACKOFF
        keys = draw(st.lists(st.sampled_from(["a.*", "b.#", "c"]), max_size=2))
        queues.append(
            QueueDesign(
                name=name,
                bindings={"domain.events": tuple(keys)} if keys else {},
                type=kind,
                retry=mode,
                steps_s=tuple(sorted(draw(st.sets(st.integers(1, 900), min_size=1, max_size=8)))),
                message_ttl_s=draw(st.none() | st.integers(1, 99)) if free else None,
                delivery_limit=draw(st.none() | st.integers(1, 99))
                if free and kind is QueueType.QUORUM
                else None,
            )
        )
    return TopologyDesign((DeclaredExchange("domain.events", "topic"),), tuple(queues))


def test_the_example_is_the_seven_queues_with_their_retries_and_dead_letter_queues() -> None:
    topology = read_design(EXAMPLE).topology()
    names = ("upload.commands", "validator", "thumbnail", "extractor", "projection", "notification", "audit")
    assert {one.name for one in topology.queues} == {
        f"q.{name}{end}" for name in names for end in ("", ".retry", ".dlq")
    }
    assert {(one.name, one.type) for one in topology.exchanges} == {
        ("domain.events", "topic"),
        ("domain.commands", "topic"),
        *((f"{kind}.q.{name}", "direct") for name in names for kind in ("retry", "dlq")),
    }


@pytest.mark.parametrize(
    ("queue", "exchange", "keys"),
    [
        ("q.upload.commands", "domain.commands", {"commands.upload.#", "commands.file.reprocess.*"}),
        ("q.validator", "domain.events", {"files.uploaded.*"}),
        ("q.thumbnail", "domain.events", {"files.validated.*"}),
        ("q.extractor", "domain.events", {"files.validated.*"}),
        ("q.projection", "domain.events", {"#"}),
        ("q.notification", "domain.events", {"processing.#", "files.rejected.*"}),
        ("q.audit", "domain.events", {"#"}),
    ],
)
def test_a_queue_of_the_example_is_bound_as_it_was_asked_for(
    queue: str, exchange: str, keys: set[str]
) -> None:
    bound = [one for one in read_design(EXAMPLE).topology().bindings if one.queue == queue]
    assert {(one.exchange, one.routing_key) for one in bound} == {(exchange, key) for key in keys}


def test_fixed_mode_waits_in_one_retry_queue_and_comes_back_by_the_default_exchange() -> None:
    topology = read_design(EXAMPLE).topology()
    assert arguments(topology, "q.validator") == {
        **QUORUM,
        "x-dead-letter-exchange": "retry.q.validator",
        "x-dead-letter-routing-key": RETRY_KEY,
    }
    assert arguments(topology, "q.validator.retry") == {
        **QUORUM,
        "x-message-ttl": 15_000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "q.validator",
    }
    assert reached(topology, "retry.q.validator", RETRY_KEY) == {"q.validator.retry"}
    assert reached(topology, "dlq.q.validator", PARKING_KEY) == {"q.validator.dlq"}


def test_backoff_mode_has_a_queue_for_each_delay_and_what_the_broker_kills_is_a_dead_letter() -> None:
    design = QueueDesign(name="q.orders", retry=RetryMode.BACKOFF, message_ttl_s=60, delivery_limit=5)
    topology = TopologyDesign(queues=(design,)).topology()
    assert [one.delay_ms for one in design.steps] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]
    for step in design.steps:
        assert reached(topology, design.retry_exchange, step.routing_key) == {step.queue}
        assert arguments(topology, step.queue)["x-message-ttl"] == step.delay_ms
    assert arguments(topology, "q.orders") == {
        **QUORUM,
        "x-delivery-limit": 5,
        "x-message-ttl": 60_000,
        "x-dead-letter-exchange": "dlq.q.orders",
        "x-dead-letter-routing-key": PARKING_KEY,
    }
    assert reached(topology, design.retry_exchange, RETRY_KEY) == {"q.orders.retry.1s"}


def test_a_classic_queue_has_only_what_classic_queues_know() -> None:
    design = QueueDesign(name="q.orders", type=QueueType.CLASSIC)
    assert arguments(TopologyDesign(queues=(design,)).topology(), "q.orders") == {
        "x-queue-type": "classic",
        "x-dead-letter-exchange": "retry.q.orders",
        "x-dead-letter-routing-key": RETRY_KEY,
    }


@pytest.mark.parametrize(
    ("delay_s", "queue"),
    [(0, "1s"), (1, "1s"), (1.2, "2s"), (16, "16s"), (33, "60s"), (60, "60s"), (3_600, "60s")],
)
def test_a_delay_waits_in_the_shortest_step_that_is_long_enough(delay_s: float, queue: str) -> None:
    design = QueueDesign(name="q.orders", retry=RetryMode.BACKOFF)
    assert design.step(delay_s).queue == f"q.orders.retry.{queue}"


def test_a_step_below_a_second_is_named_in_milliseconds() -> None:
    design = QueueDesign(name="q.orders", retry=RetryMode.BACKOFF, steps_s=(0.05, 1.5, 2))
    assert [one.routing_key for one in design.steps] == ["50ms", "1500ms", "2s"]


def test_a_queue_is_found_by_its_name_and_by_its_dead_letter_queue() -> None:
    design = read_design(EXAMPLE)
    assert design.queue("q.audit") is design.queue("q.audit.dlq") is not None
    assert design.queue("q.unknown") is None


@given(designs())
def test_every_name_stands_once_and_every_binding_joins_what_is_declared(design: TopologyDesign) -> None:
    topology = design.topology()
    exchanges, queues = [one.name for one in topology.exchanges], [one.name for one in topology.queues]
    for names in (exchanges, queues, [one.place for one in topology.bindings]):
        assert all(before < after for before, after in pairwise(names))
    for binding in topology.bindings:
        assert binding.exchange in exchanges
        assert binding.queue in queues


@given(designs())
def test_what_dies_in_a_queue_always_reaches_exactly_one_queue(design: TopologyDesign) -> None:
    topology = design.topology()
    for queue in topology.queues:
        assert len(after_death(topology, queue)) == 1
        if queue.type == QueueType.QUORUM:
            assert queue.arguments.items() >= {"x-overflow": "reject-publish"}.items()
            assert queue.arguments["x-dead-letter-strategy"] == "at-least-once"
            assert int(queue.arguments["x-delivery-limit"]) > 0


@given(designs())
def test_a_retry_comes_back_to_the_queue_that_failed_and_to_no_other(design: TopologyDesign) -> None:
    topology = design.topology()
    by_name = {one.name: one for one in topology.queues}
    for queue in design.queues:
        keys = {one.routing_key for one in topology.bindings if one.exchange == queue.retry_exchange}
        for key in keys:
            for waiting in reached(topology, queue.retry_exchange, key):
                assert after_death(topology, by_name[waiting]) == {queue.name}
        assert reached(topology, queue.dlq_exchange, PARKING_KEY) == {queue.dlq}


@given(designs())
def test_no_way_leads_round_without_a_rejection(design: TopologyDesign) -> None:
    """A TTL or a delivery limit kills without one, and the broker drops what then comes back."""
    topology = design.topology()
    by_name = {one.name: one for one in topology.queues}

    def next_without_rejection(name: str) -> set[str]:
        found = by_name[name].arguments
        limited = int(found.get("x-delivery-limit", NEVER_REACHED)) < NEVER_REACHED
        return after_death(topology, by_name[name]) if limited or "x-message-ttl" in found else set()

    for start in by_name:
        seen, here = {start}, next_without_rejection(start)
        while here:
            assert not here & seen
            seen |= here
            here = {after for one in here for after in next_without_rejection(one)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[queues", "is not TOML: Expected ']'"),
        ("", 'has no queue: write [queues."q.validator"]'),
        ("[queue]", "the unknown key 'queue': did you mean queues?"),
        ("queues = 3", "is not a table: write [queues]"),
        (
            '[queues."q.a"]\nretri = "fixed"',
            "line 1: [queues.\"q.a\"] has the unknown key 'retri': did you mean",
        ),
        (
            '\n[queues."q.a"]\nretry = "fix"',
            "line 2: [queues.\"q.a\"]: retry: Invalid enum value 'fix': write one of",
        ),
        ('[queues."q.a"]\nretry_ttl_s = 0', "retry_ttl_s has 0: from 0.001 s"),
        ('[queues."q.a"]\nretry_ttl_s = "15"', "retry_ttl_s: Expected `float`, got `str`"),
        ('[queues."q.a"]\nsteps_s = [4, 2]', "each longer than the one before"),
        ('[queues."q.a"]\nmessage_ttl_s = 60', 'message_ttl_s does not go with retry = "fixed"'),
        ('[queues."q.a"]\ndelivery_limit = 3', 'delivery_limit does not go with retry = "fixed"'),
        (
            '[queues."q.a"]\ntype = "classic"\nretry = "backoff"\ndelivery_limit = 3',
            "a classic queue has no delivery limit",
        ),
        ('[queues."q.a".bindings]\nevents = ["#"]', "bound to the exchange 'events', which is not declared"),
        ('[queues."q.a"]\n[queues."q.a.dlq"]', "the queue q.a.dlq would be declared twice"),
        ('[queues."amq.a"]', "begins with amq."),
        (f'[queues."{"q" * 252}"]', "shorten it"),
        ('[exchanges]\nevents = "topics"', "events has the type 'topics': write one of topic, direct"),
        ('[defaults]\nbindings = { a = ["b"] }\n[queues."q.a"]', "[defaults] has the unknown key 'bindings'"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_design(text, "topology.toml")
    assert problem in str(raised.value)
    assert str(raised.value).startswith("topology.toml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.toml cannot be read"):
        read_design(tmp_path / "missing.toml")
