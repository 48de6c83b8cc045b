"""What fits into the headers of a message that is published: a frame holds 131,072 bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.brokers.rabbitmq.properties import Properties, write_content_header
from redrive.core.failure import Failure

HEADER_BYTES = 100_000
DROPPED = "x-redrive-dropped"
"""The names of headers that left no room for ours, or that cannot be written."""

_FAILURES_BYTES = 32_768


def size_of(properties: Properties) -> int:
    """What they take as bytes; more than fits anywhere, for what cannot be written."""
    try:
        return len(write_content_header(properties, 0))
    except (ValueError, TypeError):
        return 2**32


def fitted(table: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """As many headers as there is room for beside ours, the small ones first; which are missing is said."""
    sizes = {name: size_of(Properties(headers={name: value})) for name, value in table.items()}
    room = HEADER_BYTES - size_of(Properties(headers=dict(more)))
    found: dict[str, Any] = {}
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if room > 0:
            found[name] = table[name]
    dropped = [name[:50] for name in table if name not in found]
    return {**found, **more, DROPPED: ", ".join(dropped[:20])}


def pack_failures(failures: tuple[Failure, ...]) -> str:
    """All failures, the oldest ones without a traceback, or left out, where that would be too long."""
    kept: list[Any] = []
    size = 0
    for failure in reversed(failures):
        packed = msgspec.to_builtins(failure)
        size += len(msgspec.json.encode(packed))
        if kept and size > _FAILURES_BYTES:
            packed["traceback"] = None
            if size > 2 * _FAILURES_BYTES:
                break
        kept.append(packed)
    return msgspec.json.encode(kept[::-1]).decode()
