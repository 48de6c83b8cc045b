"""A relay from its URL: where to connect, as whom, and how safely.

`smtp://` needs STARTTLS unless the host is loopback or `?starttls=off` says otherwise, `smtp+starttls://`
always needs it, `smtps://` is TLS from the first byte. Options: `starttls=on|off` (smtp:// only),
`verify=off`, `ca=FILE`, `auth=cram-md5|plain|login`, `auth_without_tls=on`, `name=HOST` for EHLO.
What is unsafe is warned about once a relay. A Relay never shows its password. Never connects.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redrive.core.errors import ConfigurationError

_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_OPTIONS = frozenset({"starttls", "verify", "ca", "auth", "auth_without_tls", "name"})
_MECHANISMS = ("cram-md5", "plain", "login")
_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}", re.ASCII)
_UNREADABLE = re.compile(r"[\x00-\x20\x7f]")
_log = logging.getLogger("redrive.mail")


class Tls(StrEnum):
    """How a connection becomes safe."""

    IMPLICIT = "implicit"
    STARTTLS = "starttls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Relay:
    """A mail server that takes our mail. `mechanism` is the one to use, None for the safest offered."""

    scheme: str
    host: str
    port: int
    tls: Tls
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    verify: bool = True
    ca_file: str | None = None
    mechanism: str | None = None
    auth_without_tls: bool = False
    client_name: str | None = None

    @classmethod
    def parse(cls, url: str) -> Relay:
        """The relay that a URL names; ConfigurationError says what is wrong, without the password."""
        parts, port = _split(url)
        options = _options(parts)
        host = parts.hostname or ""
        relay = cls(
            scheme=parts.scheme,
            host=host,
            port=port,
            tls=_tls(parts.scheme, host, options),
            user=None if parts.username is None else _credential(parts.username),
            password=None if parts.password is None else _credential(parts.password),
            verify=_switch(options, "verify", default=True),
            ca_file=options.get("ca"),
            mechanism=_mechanism(options),
            auth_without_tls=_switch(options, "auth_without_tls", default=False),
            client_name=_client_name(options),
        )
        if (relay.user is None) != (relay.password is None):
            raise ConfigurationError(f"relay {relay}: give a user and a password, or neither")
        relay._warn()
        return relay

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine, by its name or address alone."""
        return _is_loopback(self.host)

    @property
    def may_show_password(self) -> bool:
        """Whether a password may be sent on a connection without TLS."""
        return self.loopback or self.auth_without_tls

    def tls_context(self) -> ssl.SSLContext:
        """Certificates and names are checked unless `verify=off`."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"relay {self}: ca={self.ca_file} cannot be read as PEM certificates ({error})"
            ) from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _warn(self) -> None:
        if self.tls is Tls.NONE and not self.loopback:
            _log.warning("relay %s: starttls=off, so mail crosses the network in the clear", self)
        if not self.verify and self.tls is not Tls.NONE:
            _log.warning("relay %s: verify=off, so anyone on the way can pose as it", self)
        if self.auth_without_tls and self.tls is Tls.NONE and not self.loopback:
            _log.warning("relay %s: auth_without_tls=on, so its password may be read on the way", self)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{'***@' if self.user is not None else ''}{host}:{self.port}"


def relay_host(url: str) -> str | None:
    """The host that a relay's URL names; ConfigurationError where none can be read from it."""
    return _split(url)[0].hostname


def _split(url: str) -> tuple[SplitResult, int]:
    if _UNREADABLE.search(url):
        raise ConfigurationError("relay: the URL has a space or a control character: write it as %20")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(
            "relay: the URL's host or port cannot be read; write smtp://host:25"
        ) from error
    if parts.scheme not in _PORTS:
        known = ", ".join(f"{name}://" for name in _PORTS)
        raise ConfigurationError(f"relay: the scheme {parts.scheme[:20]!r} is not known: use one of {known}")
    if not parts.hostname or not _NAME.fullmatch(parts.hostname) or parts.path.strip("/") or parts.fragment:
        raise ConfigurationError(f"relay: write {parts.scheme}://user:password@host:port, with %-escapes")
    return parts, port or _PORTS[parts.scheme]


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise ConfigurationError(
            f"relay {parts.hostname}: {unknown[0][:40]!r} is not an option: use {', '.join(sorted(_OPTIONS))}"
        )
    return options


def _tls(scheme: str, host: str, options: Mapping[str, str]) -> Tls:
    if scheme != "smtp":
        if "starttls" in options:
            raise ConfigurationError(f"relay {host}: starttls is an option of smtp:// alone, not {scheme}://")
        return Tls.IMPLICIT if scheme == "smtps" else Tls.STARTTLS
    wanted = _switch(options, "starttls", default=not _is_loopback(host))
    return Tls.STARTTLS if wanted else Tls.NONE


def _switch(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name)
    if value is None:
        return default
    if value not in ("on", "off"):
        raise ConfigurationError(
            f"relay: {name}={value[:20]!r} cannot be read: write {name}=on or {name}=off"
        )
    return value == "on"


def _mechanism(options: Mapping[str, str]) -> str | None:
    value = options.get("auth")
    if value is not None and value.lower() not in _MECHANISMS:
        raise ConfigurationError(f"relay: auth={value[:20]!r} is not known: use {', '.join(_MECHANISMS)}")
    return value.upper() if value is not None else None


def _client_name(options: Mapping[str, str]) -> str | None:
    value = options.get("name")
    if value is not None and not _NAME.fullmatch(value):
        raise ConfigurationError("relay: name is what EHLO says: a host name or an [address]")
    return value


def _credential(text: str) -> str:
    """Percent-decoded; NUL separates the fields of AUTH PLAIN, so it cannot be part of one."""
    value = unquote(text)
    if "\x00" in value:
        raise ConfigurationError("relay: the user or password holds a NUL character")
    return value


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
