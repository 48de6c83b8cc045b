"""Errors of the driver, translated at the adapter's door.

What may pass by itself is StoreUnavailable, a server out of memory StoreFull, anything else StoreError; what
the server said is explained where its own words do not say what to do. The text of an error never holds the
address's password.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from redis import exceptions

from redrive.core.errors import StoreError, StoreFull, StoreUnavailable

PASSING: Mapping[str, str] = {
    "LOADING": "it is reading its data from disk and answers once that is done",
    "READONLY": "it is a replica: connect to the master, or wait until the failover is over",
    "MASTERDOWN": "it is a replica that has lost its master: connect to the master, or fix the replication",
    "MISCONF": "it cannot write to its disk and refuses writes: look at its log and its free disk",
    "CLUSTERDOWN": "a part of the cluster is down: look at `redis-cli --cluster check`",
    "TRYAGAIN": "the queue's slot is being moved to another node: try again once it has arrived",
    "NOREPLICAS": "fewer replicas are connected than its min-replicas-to-write: fix the replication",
    "BUSY": "another program's script blocks it: wait, or end it with SCRIPT KILL",
    "UNKILLABLE": "another program's script blocks it: wait for its end",
}
EXPLAINED: Mapping[str, str] = {
    "NOAUTH": "the server wants a login: write redis://user:password@host in the address",
    "WRONGPASS": "user or password is wrong, or the user is disabled: look at ACL LIST on the server",
    "NOPERM": "the user lacks a right: `redrive docs redis` lists what Redrive needs",
    "CROSSSLOT": "keys of one call lie in several slots: this is a bug of Redrive, please report it",
    "MOVED": "the server is part of a cluster: add ?cluster=true to the address",
    "NOPROTO": "the server is too old: Redrive needs Redis 7.0 or Valkey",
}
_WORDS: Mapping[type[Exception], str] = {
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.MovedError: "MOVED",
}
_REFUSED = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
_UNREACHABLE = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
_HALF_MOVED = "non local key"


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
    where, text, word = mask_url(url), _without_password(str(error), url), _first_word(error)
    if word == "OOM":
        return StoreFull(
            f"{where} has no memory left for new messages ({text}); what was accepted still drains: "
            "wait, or raise maxmemory"
        )
    if word in PASSING:
        return StoreUnavailable(f"{where} cannot do this now: {text}; {PASSING[word]}")
    if _HALF_MOVED in text:
        return StoreUnavailable(f"{where} has only a part of the queue; {PASSING['TRYAGAIN']}")
    if isinstance(error, _REFUSED):
        why = EXPLAINED.get(word, "check user, password and rights")
        return StoreError(f"{where} refused the login or the command: {text}; {why}")
    if isinstance(error, _UNREACHABLE):
        return _unreachable(error, where, text)
    why = EXPLAINED.get(word, "is it a Redis 7 or later of our own?")
    return StoreError(f"{where} refused a command: {text}; {why}")


def _unreachable(error: Exception, where: str, text: str) -> StoreError:
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return StoreError(
            f"{where} shows a certificate that is not trusted ({cause.verify_message}): name its authority "
            "with ?ssl_ca_certs=ca.pem in the address, and the server by the name in its certificate"
        )
    what = text.rstrip(".") or type(error).__name__
    return StoreUnavailable(f"{where} does not answer now: {what}; try again later")


def _first_word(error: Exception) -> str:
    """What the server's error begins with; the driver cuts it off where it has a class for it."""
    told = getattr(error, "status_code", None)
    named = next((word for kind, word in _WORDS.items() if isinstance(error, kind)), None)
    return str(told or named or str(error).partition(" ")[0])


def _without_password(text: str, url: str) -> str:
    parts = urlsplit(url)
    secrets = {parts.password, unquote(parts.password or ""), *parse_qs(parts.query).get("password", ())}
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
