"""What "accepted" means on a live Redis server, read from its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redrive.core.condition import Durability
from redrive.core.errors import StoreError
from redrive.stores.redis.server import Facts

_WORST_FIRST = (Durability.C, Durability.UNKNOWN, Durability.B, Durability.A)


def judge(settings: Mapping[str, str]) -> tuple[Durability, str]:
    """The class and its meaning; no settings: the server does not tell."""
    if settings.get("maxmemory", "0") != "0" and settings.get("maxmemory-policy") != "noeviction":
        return Durability.C, "when memory is full the server evicts messages: set maxmemory-policy noeviction"
    if "appendonly" not in settings:
        return Durability.UNKNOWN, "the server does not show its configuration: ask whoever runs it"
    if settings["appendonly"] != "yes":
        return Durability.C, "accepted means in memory: set appendonly yes"
    if settings.get("appendfsync") == "always":
        return Durability.A, "accepted means on the server's disk"
    if settings.get("appendfsync") == "everysec":
        return (
            Durability.B,
            "accepted means written; a machine that dies loses what came since the last fsync",
        )
    return (
        Durability.C,
        "the operating system decides when to write to disk: set appendfsync everysec or always",
    )


def judge_all(nodes: Sequence[Facts]) -> tuple[Durability, str]:
    """The class of the weakest node."""
    judged = [judge(facts.known) for facts in nodes]
    return min(judged, key=lambda one: _WORST_FIRST.index(one[0]))


def refuse_unsafe(nodes: Sequence[Facts]) -> None:
    """StoreError for a server that may lose what was accepted without any fault."""
    for facts in nodes:
        durability, meaning = judge(facts.known)
        if durability is Durability.C:
            raise StoreError(
                f"{facts.address} is not safe for messages: {meaning}; or accept the loss with "
                "--allow-unsafe (allow_unsafe = true in [redis], REDRIVE_REDIS_ALLOW_UNSAFE=true)"
            )
