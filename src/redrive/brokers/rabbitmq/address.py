"""The address of a broker: what cannot be right in it is said before anybody connects.

The driver takes a number that it cannot read for none, and a parameter that it does not know for nothing at
all. No error here shows a part of the address: any part may be one of a password that was not encoded.
"""

from __future__ import annotations

import binascii
import ssl
from base64 import b64decode
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redrive.core.errors import ConfigurationError

_SECURED = "amqps"
_PORTS = {"amqp": 5672, _SECURED: 5671}
_HEARTBEAT_MAXIMUM_S = 65_534
_NUMBERS = ("heartbeat", "timeout")
_FILES = ("cafile", "certfile", "keyfile")
_PARAMETERS = (*_NUMBERS, *_FILES, "capath", "cadata", "no_verify_ssl", "name", "auth")


def is_broker(url: str) -> bool:
    """Whether an address is one of a RabbitMQ."""
    return url.partition("://")[0] in _PORTS


def check_address(url: str) -> None:
    """ConfigurationError where an address cannot be right."""
    parts = _parts(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for key in given:
        if key not in _PARAMETERS:
            near = get_close_matches(key, _PARAMETERS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"use one of {', '.join(_PARAMETERS)}"
            raise ConfigurationError(f"store: the address of a broker knows no {key[:20]!r}: {advice}")
    _check_numbers(given)
    if parts.scheme == _SECURED:
        _check_certificates(given)


def place_of(url: str) -> str:
    """The host and port of an address, as they may be shown."""
    parts = _parts(url)
    host = parts.hostname or "localhost"
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{parts.port or _PORTS.get(parts.scheme, '')}"


def virtual_host(url: str) -> str:
    """The virtual host that an address names; without a path it is `/`."""
    return unquote(_parts(url).path[1:]) or "/"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigurationError(
            "store: the address of the broker cannot be read: write amqp://user:password@host:5672/vhost, "
            "with special characters of the password percent-encoded"
        ) from None
    return parts


def _check_numbers(given: Mapping[str, str]) -> None:
    for key in _NUMBERS:
        text = given.get(key, "0")
        if not (text.isascii() and text.isdigit() and int(text) <= _HEARTBEAT_MAXIMUM_S):
            raise ConfigurationError(
                f"store: {key} is {text[:20]!r}: write whole seconds, from 0 to {_HEARTBEAT_MAXIMUM_S}"
            )


def _check_certificates(given: Mapping[str, str]) -> None:
    for key in _FILES:
        if key in given:
            try:
                with Path(given[key]).open("rb"):
                    pass
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise ConfigurationError(
                    f"store: {key} names {given[key]}, which cannot be read: {why}"
                ) from error
    try:
        b64decode(given.get("cadata", ""), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError("store: cadata is not base64: name a file by cafile instead") from None
    _check_authority(given.get("cafile"))


def _check_authority(file: str | None) -> None:
    if file is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        raise ConfigurationError(
            f"store: cafile names {file}, which holds no certificate: name the authority's file in PEM"
        ) from None
