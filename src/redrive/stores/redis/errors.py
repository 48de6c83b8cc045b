"""Errors of the driver, translated at the adapter's door.

What may pass by itself is StoreUnavailable, a server out of memory StoreFull, anything else StoreError.
The text of an error never holds the address's password.
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from redis import exceptions

from redrive.core.errors import StoreError, StoreFull, StoreUnavailable

_PASSING = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "NOREPLICAS", "MISCONF")
_REFUSED = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)


def mask_url(url: str) -> str:
    """The address without its user, password and query; only its scheme when it is not well formed."""
    parts = urlsplit(url)
    try:
        well_formed = parts.port is None or parts.hostname is not None
    except ValueError:
        well_formed = False
    if not well_formed or "@" in parts.path + parts.query + parts.fragment:
        return f"{parts.scheme}://***"
    where = parts.netloc.rpartition("@")[2]
    user = "***@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{user}{where}{parts.path}"


def translate(error: Exception, url: str) -> StoreError:
    """The error of ours that a driver's error stands for."""
    where, text = mask_url(url), _without_password(str(error), url)
    if isinstance(error, _REFUSED):
        return StoreError(
            f"{where} refused the login or the command: {text}; check user, password and rights"
        )
    if isinstance(error, exceptions.OutOfMemoryError) or text.startswith("OOM"):
        return StoreFull(
            f"{where} has no memory left for new messages ({text}); what was accepted still drains: "
            "wait, or raise maxmemory"
        )
    if _may_pass(error, text):
        return StoreUnavailable(
            f"{where} does not answer now: {text or type(error).__name__}; try again later"
        )
    return StoreError(f"{where} refused a command: {text}; is it a Redis 7 or later of our own?")


def _may_pass(error: Exception, text: str) -> bool:
    unreachable = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ReadOnlyError, OSError)
    return isinstance(error, unreachable) or text.startswith(_PASSING)


def _without_password(text: str, url: str) -> str:
    parts = urlsplit(url)
    secrets = {parts.password, unquote(parts.password or ""), *parse_qs(parts.query).get("password", ())}
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
