"""What "accepted" means on a live Redis server (P36), read from its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from redrive.core.ports import Durability


def judge(settings: Mapping[str, str]) -> tuple[Durability, str]:
    """The class and its meaning; no settings: the server does not tell."""
    if "appendonly" not in settings:
        return Durability.UNKNOWN, "the server does not show its configuration: ask whoever runs it"
    if settings.get("maxmemory", "0") != "0" and settings.get("maxmemory-policy") != "noeviction":
        return Durability.C, "when memory is full the server evicts messages: set maxmemory-policy noeviction"
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
