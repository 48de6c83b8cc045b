"""From settings to a RabbitMQ carrier, not yet connected; the driver is imported here first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from redrive.brokers.rabbitmq.address import check_address
from redrive.brokers.rabbitmq.design import QueueDesign, RetryMode, TopologyDesign
from redrive.brokers.rabbitmq.design_file import read_design
from redrive.core.errors import ConfigurationError, MissingExtra
from redrive.core.settings import BrokerSettings

if TYPE_CHECKING:
    from redrive.brokers.rabbitmq.carrier import RabbitCarrier


def make_carrier(url: str, place: str, settings: BrokerSettings, now: Callable[[], int]) -> RabbitCarrier:
    """The carrier of an address; `place` is the address as it may be shown."""
    if find_spec("aiormq") is None:
        raise MissingExtra("amqp://", "rabbitmq")
    check_address(url)
    from redrive.brokers.rabbitmq.carrier import RabbitCarrier

    return RabbitCarrier(
        url,
        place,
        design_of(settings.topology),
        prefetch=settings.prefetch,
        consumer_timeout_s=settings.consumer_timeout_s,
        collected=read_collected(settings.collect),
        now=now,
    )


def fixed_delay_s(settings: BrokerSettings, queue: str) -> float | None:
    """How long every retry of a queue waits; None where the policy's own delays are kept."""
    design = design_of(settings.topology).queue(queue) or QueueDesign(name=queue)
    return design.retry_ttl_s if design.retry is RetryMode.FIXED else None


@cache
def design_of(path: str | None) -> TopologyDesign:
    """What a file describes; nothing without one."""
    return TopologyDesign() if path is None else read_design(Path(path))


def read_collected(text: str) -> Mapping[str, str | None]:
    """The dead-letter queues of other software, and where their letters go back to."""
    found: dict[str, str | None] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        queue, mark, origin = (piece.strip() for piece in part.partition("="))
        if not queue or (mark and not origin):
            raise ConfigurationError(
                f"broker.collect: {part[:60]!r} is not a queue: write queue or queue=origin"
            )
        found[queue] = origin or None
    return found
