"""One small client for what is posted to the outside: no proxy, no redirect, no surprise.

The name is resolved once, every address of the answer is checked, and the checked address is the one that is
connected to, with the certificate checked against the name. `addresses.py` says which are refused. Time and
size are bounded.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from redrive.core.errors import ConfigurationError, RedriveError
from redrive.office.alerts.addresses import refusal
from redrive.version import __version__

TIMEOUT_S = 10.0
_HEAD_BYTES = 16 * 1024


class PostError(RedriveError):
    """What was posted did not arrive; without anything of the URL but its host."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to post, checked as far as a URL can be."""

    host: str
    port: int
    path: str
    secure: bool
    allow_private: bool = False

    @classmethod
    def parse(cls, url: str, *, allow_http: bool, allow_private: bool) -> Target:
        """The target of a URL, or ConfigurationError, which does not repeat it."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigurationError("the url cannot be read: write https://host/path") from None
        if parts.scheme == "http" and not allow_http:
            raise ConfigurationError("the url is http: write https, or set allow_http for this channel")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError("the url names no host: write https://host/path")
        if parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
            raise ConfigurationError("the url holds a login, a space or what is not ASCII: leave it out")
        secure = parts.scheme == "https"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, port or (443 if secure else 80), path, secure, allow_private)


async def post(
    target: Target, body: bytes, headers: Mapping[str, str], *, context: ssl.SSLContext | None = None
) -> None:
    """Post JSON, or PostError."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            address = await _resolve(target)
            status = await _exchange(target, address, body, headers, context)
    except TimeoutError:
        raise PostError(f"{target.host} did not answer within {TIMEOUT_S:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise PostError(f"{target.host} has no certificate to trust: {error.verify_message}") from None
    except ssl.SSLError:
        raise PostError(f"{target.host} cannot be reached: TLS fails there") from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        said = (
            os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        )
        raise PostError(f"{target.host} cannot be reached: {said}") from None
    if 300 <= status < 400:
        raise PostError(f"{target.host} answered {status}: redirects are not followed")
    if not 200 <= status < 300:
        raise PostError(f"{target.host} answered {status}")


async def _resolve(target: Target) -> str:
    """The address to connect to; PostError when one of the answer is none that may be."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise PostError(f"{target.host} has no address") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    for text in addresses:
        why = refusal(ip_address(text), allow_private=target.allow_private)
        if why is not None:
            raise PostError(f"{target.host} has the address {text}, {why}")
    return addresses[0]


async def _exchange(
    target: Target, address: str, body: bytes, headers: Mapping[str, str], context: ssl.SSLContext | None
) -> int:
    tls = (context or ssl.create_default_context()) if target.secure else None
    reader, writer = await asyncio.open_connection(
        address, target.port, ssl=tls, server_hostname=target.host if tls else None, limit=_HEAD_BYTES
    )
    try:
        writer.write(_request(target, body, headers))
        await writer.drain()
        line = await reader.readuntil(b"\r\n")
        version, _, rest = line.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise PostError(f"{target.host} does not answer as HTTP does")
        return int(rest[:3])
    finally:
        writer.close()


def _request(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    usual = target.port == (443 if target.secure else 80)
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {host if usual else f'{host}:{target.port}'}",
        f"User-Agent: redrive/{__version__}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Accept: */*",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
