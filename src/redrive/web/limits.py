"""How much a client may send, and how often.

A body is counted while it arrives and refused as soon as it passes its limit; what follows is read and
thrown away by the server. Rates are counted in this process alone: two processes grant twice as much.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Any

from starlette.requests import ClientDisconnect, Request

from redrive.core.limits import Rate, Window, reserve
from redrive.machine.addresses import is_local
from redrive.web.problems import NOT_JSON, TOO_LARGE, Refusal

MAIL_BYTES = 25 * 1024 * 1024
JSON_DEPTH = 32
_REMEMBERED = 10_000
_FORWARDED = frozenset(
    ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host", "x-forwarded-proto")
)
_IPV6_NETWORK = (1 << 128) - (1 << 64)


async def read_json(request: Request, most: int) -> bytes:
    """The body of a JSON request; Refusal when it is something else or has more than `most` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Refusal(NOT_JSON, "send the header Content-Type: application/json")
    return await read_body(request, most)


async def read_body(request: Request, most: int) -> bytes:
    """The body of a request; Refusal when it has more than `most` bytes."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        event = await request.receive()
        if event["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
        more = event.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def is_deep(document: Any) -> bool:
    """Whether a decoded document is nested deeper than JSON_DEPTH levels."""
    level = [document]
    for _ in range(JSON_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


class Allowance:
    """A rate for each of many names; the names least recently seen are forgotten beyond 10,000."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._windows: OrderedDict[str, Window] = OrderedDict()

    def take(self, name: str) -> int | None:
        """Count one for a name: None when it may, otherwise the whole seconds to wait."""
        now = time.monotonic_ns() // 1_000_000
        reserved = reserve(self._rate, self._windows.pop(name, Window(now)), now, 1)
        self._windows[name] = reserved.window
        if len(self._windows) > _REMEMBERED:
            self._windows.popitem(last=False)
        if reserved.granted:
            return None
        return max(1, math.ceil(((reserved.next_at or now) - now) / 1000))


def client_name(request: Request) -> str:
    """Whom failures are counted for: an IPv4 address, or the /64 network of an IPv6 address."""
    host = request.client.host if request.client is not None else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Address(int(address) & _IPV6_NETWORK))
    return str(address)


def is_here(request: Request, *, proxied: bool) -> bool:
    """Whether who asks is on this machine. `proxied`: all peers are proxies that were named.

    Otherwise a peer on this machine may be a proxy that nobody has named, which asks for anybody.
    Known weakness: one that adds no header cannot be told from a browser on this machine.
    """
    local = request.client is not None and is_local(request.client.host)
    forwarded = _FORWARDED & set(request.headers.keys())
    return local and ("x-forwarded-for" in forwarded if proxied else not forwarded)


def _too_large(most: int) -> Refusal:
    return Refusal(TOO_LARGE, f"the body has more than {most:,} bytes, the most that is taken here")


def _inside(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return list(document.values())
    return document if isinstance(document, list) else []
