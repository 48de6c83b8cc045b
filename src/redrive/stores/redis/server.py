"""What a server says of itself: its settings and its INFO, each as far as it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from redrive.stores.redis.connections import Node

_SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
_SECTIONS = ("server", "memory", "persistence", "replication")


@dataclass(frozen=True, slots=True)
class Facts:
    """One node's `settings` (empty where CONFIG is refused) and `info` (empty where INFO is)."""

    address: str
    settings: Mapping[str, str]
    info: Mapping[str, Any]

    @property
    def known(self) -> dict[str, str]:
        """The settings, and those that INFO tells when CONFIG does not."""
        told = {
            name.replace("_", "-"): str(self.info[name])
            for name in ("maxmemory", "maxmemory_policy")
            if name in self.info
        }
        return {**told, **self.settings}


async def read_facts(node: Node) -> Facts:
    """Ask a node; what the user may not ask for stays empty."""
    return Facts(node.address, await _read_settings(node), await _read_info(node))


async def _read_settings(node: Node) -> dict[str, str]:
    try:
        answer = await node.ask("CONFIG", "GET", *_SETTINGS)
    except ResponseError:
        return {}
    return {key.decode(): value.decode() for key, value in zip(answer[0::2], answer[1::2], strict=True)}


async def _read_info(node: Node) -> dict[str, Any]:
    try:
        info: dict[str, Any] = await node.ask("INFO", *_SECTIONS)
    except ResponseError:
        return {}
    return info
