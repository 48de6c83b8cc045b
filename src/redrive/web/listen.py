"""Where the HTTP API listens, and what makes that safe: checked before anything is begun, also where the
server itself is not installed.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from redrive.core.errors import ConfigurationError
from redrive.machine.addresses import is_local, parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How to serve. `trusted_proxies` are the addresses whose X-Forwarded-For is believed."""

    allow_remote: bool = False
    certificate: Path | None = None
    private_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()


def check_listen(listen: str, settings: ServerSettings = ServerSettings()) -> tuple[str, int]:  # noqa: B008 - immutable
    """Host and port of `127.0.0.1:8025` or `[::1]:8025`; ConfigurationError where that is not an address, or
    other machines reach it and nothing guards it."""
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise ConfigurationError(f"listen: {error}") from None
    trusted_networks(settings.trusted_proxies)
    guarded = settings.allow_remote or settings.certificate is not None or settings.trusted_proxies
    if not guarded and not is_local(host):
        raise ConfigurationError(
            f"listen: {host} can be reached from other machines, and keys would travel in the clear: listen "
            "on 127.0.0.1, give a certificate, name a trusted proxy, or say --allow-remote"
        )
    return host, port


@cache
def trusted_networks(trusted: tuple[str, ...]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Trusted proxies as networks; ConfigurationError where one is not a network, or is everybody."""
    try:
        networks = [ipaddress.ip_network("0.0.0.0/0" if text == "*" else text) for text in trusted]
    except ValueError as error:
        raise ConfigurationError(f"trusted proxy: {error}: write an address or a network") from None
    if any(one.prefixlen == 0 for one in networks):
        raise ConfigurationError(
            "trusted proxy: this is everybody, so any client could say it is another: write the addresses or "
            "networks of your proxies"
        )
    return networks
