"""The address of a server and its options: what cannot be right is said before anybody connects.

Only options that leave alone what the store relies on are taken: the driver knows more of them, some of which
would repeat commands or change what answers look like. No error shows a part that may be one of a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from redrive.core.errors import ConfigurationError

_SECURED = "rediss"
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "cluster": ("true", "false"),
    "ssl_cert_reqs": ("required", "optional", "none"),
    "ssl_check_hostname": ("true", "false"),
}
_TLS = (*_TLS_FILES, "ssl_ca_path", "ssl_password", "ssl_cert_reqs", "ssl_check_hostname")
_OPTIONS = ("prefix", "cluster", "db", "username", "password", "client_name", *_TLS)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """An address as the driver takes it, and the options that are ours."""

    url: str
    prefix: str = "redrive"
    cluster: bool | None = None


def read_address(text: str) -> RedisAddress:
    """The address, or ConfigurationError where it cannot be right."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise _unreadable() from None
    database = parts.path.removeprefix("/")
    if database and not _is_number(database):
        raise _unreadable()
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in options.items():
        _check_name(name, parts.scheme)
        _check_value(name, value)
    prefix, cluster = options.pop("prefix", "redrive"), options.pop("cluster", None)
    url = urlunsplit(parts._replace(query=urlencode(options)))
    return RedisAddress(url, prefix, None if cluster is None else cluster == "true")


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        "store: the address of the Redis cannot be read: write redis://user:password@host:6379/0, with "
        "special characters of the password percent-encoded"
    )


def _check_name(name: str, scheme: str) -> None:
    if name not in _OPTIONS:
        near = get_close_matches(name, _OPTIONS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"use one of {', '.join(_OPTIONS)}"
        raise ConfigurationError(f"store: the address of a Redis has no option {name[:20]!r}: {advice}")
    if name in _TLS and scheme != _SECURED:
        raise ConfigurationError(f"store: {name} needs TLS: write the address as rediss://…")


def _check_value(name: str, value: str) -> None:
    allowed = _CHOICES.get(name)
    if allowed is not None and value not in allowed:
        raise ConfigurationError(f"store: {name}={value[:20]!r} in the address: write {' or '.join(allowed)}")
    if name == "db" and not _is_number(value):
        raise ConfigurationError("store: db in the address is not a whole number, such as 0")
    if name in _TLS_FILES:
        try:
            with Path(value).open("rb"):
                pass
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"store: {name} names {value}, which cannot be read: {why}") from None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
