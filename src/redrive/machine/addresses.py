"""Addresses to listen on: host and port as people write them, and whether other machines reach them."""

from __future__ import annotations

import ipaddress
import os


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8025` or `[::1]:8025`; ValueError when it is neither."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{text[:80]!r} is not an address: write 127.0.0.1:8025 or [::1]:8025")
    return host, int(port)


def write_address(host: str, port: int) -> str:
    """The same again."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def why_refused(error: OSError) -> str:
    """Why an address could not be listened on, in the system's words: asyncio says the address again."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def is_local(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
