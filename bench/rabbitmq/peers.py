"""The peers on RabbitMQ, each in an environment of its own in the user's cache folder: durable, confirmed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from bench.redis.peers import CACHE, Peer


@dataclass(frozen=True, slots=True)
class RabbitPeer(Peer):
    """A peer whose tasks are defined for RabbitMQ."""

    @property
    def module(self) -> str:
        return f"bench.rabbitmq.theirs.{self.name}_peer"

    @property
    def folder(self) -> Path:
        return CACHE / f"rabbitmq-{self.name}-python{sys.version_info.major}.{sys.version_info.minor}"


def _module(name: str) -> str:
    return f"bench.rabbitmq.theirs.{name}_peer"


RABBIT_PEERS = (
    RabbitPeer(
        "celery",
        ("celery",),
        (
            ("-m", "celery", "-A", _module("celery"), "worker", "-P", "solo", "-l", "error"),
            ("-m", "celery", "-A", _module("celery"), "worker", "-P", "threads", "-c", "8", "-l", "error"),
        ),
        1_000,
    ),
    RabbitPeer(
        "dramatiq",
        ("dramatiq[rabbitmq]",),
        (("-m", "dramatiq", _module("dramatiq"), "--processes", "1", "--threads", "8"),),
        1_000,
    ),
    RabbitPeer(
        "taskiq",
        ("taskiq", "taskiq-aio-pika"),
        (
            (
                *("-m", "taskiq", "worker", f"{_module('taskiq')}:broker"),
                *("--workers", "1", "--log-level", "WARNING"),
            ),
        ),
        1_000,
    ),
)
