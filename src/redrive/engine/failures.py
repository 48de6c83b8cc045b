"""From what a handler raised to the Failure that is kept. Unknown errors are temporary."""

from __future__ import annotations

import traceback
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import PurePath
from types import TracebackType

from redrive.core.errors import Answer, Hold, Later, Permanent, Temporary, Uncertain
from redrive.core.failure import CODE_LENGTH, Failure, Kind, Scope
from redrive.core.fingerprint import fingerprint
from redrive.core.message import Delivery, Lapse
from redrive.core.retry import RetryPolicy, UncertainPolicy
from redrive.core.values import as_code, as_delay, as_text, instant_at
from redrive.core.verdict import Deferred, Failed, Held, Outcome

_OWN_CODE = PurePath(__file__).parent
_FRAMES = 12
_SHORTEST_MS = 1_000


def outcome_of(error: BaseException, delivery: Delivery, now: int) -> Outcome:
    """What an attempt that raised came to. Never raises, whatever the exception's own attributes do."""
    try:
        if isinstance(error, Later):
            return Deferred(max(now + _SHORTEST_MS, instant_at(error.until, now)))
        if isinstance(error, Hold):
            return Held(_failure(error, delivery, now))
        asked = _retry_after(error) if isinstance(error, Temporary) else None
        not_before_at = None if asked is None else instant_at(asked, now)
        return Failed(_failure(error, delivery, now), not_before_at)
    except BaseException:  # noqa: BLE001 - a user's exception may raise anything when it is looked at
        return unknown(delivery, now, "the handler raised an exception whose details cannot be read")


def is_retryable(error: BaseException, policy: RetryPolicy | None = None) -> bool:
    """Whether a message whose handler raises this is tried again, as long as attempts are left."""
    if isinstance(error, Uncertain):
        return (policy or RetryPolicy()).uncertain is UncertainPolicy.RETRY
    return not isinstance(error, Permanent)


def unknown(delivery: Delivery, now: int, reason: str) -> Failed:
    """A counted temporary failure that is made without a look at anything of the user's."""
    return Failed(plain_failure(delivery, now, Kind.TEMPORARY, reason))


def _failure(error: BaseException, delivery: Delivery, now: int) -> Failure:
    kind, code, scope, reason = Kind.TEMPORARY, None, None, _reason(error)
    if isinstance(error, Answer):
        code, scope = as_code(_attribute(error, "code")), _scope(_attribute(error, "scope"))
    if isinstance(error, Permanent):
        kind = Kind.PERMANENT
    elif isinstance(error, Uncertain):
        kind = Kind.UNCERTAIN
    frames = _handler_frames(error.__traceback__)
    return Failure(
        at=now,
        attempt=delivery.progress.attempts,
        kind=kind,
        reason=reason,
        code=code or _code(error),
        scope=scope,
        fingerprint=fingerprint(type(error).__qualname__, code, reason, _call_site(frames)),
        traceback=_text(error, frames),
    )


def plain_failure(delivery: Delivery, now: int, kind: Kind, reason: str, code: str | None = None) -> Failure:
    """A failure that no exception stands for: lost, expired, past its deadline, unreadable."""
    return Failure(
        at=now,
        attempt=delivery.progress.attempts,
        kind=kind,
        reason=reason,
        code=code,
        fingerprint=fingerprint(code or kind.value, code, reason, delivery.message.queue),
    )


def lapsed(delivery: Delivery, now: int) -> Failed:
    """The outcome of what `reclaim` handed out, or of a claimed message past its time to live."""
    if delivery.lapse is Lapse.LOST:
        reason = "the worker was lost: its lease ran out before the attempt ended"
        return Failed(plain_failure(delivery, now, Kind.LOST, reason))
    reason = f"expired: its time to live of {delivery.message.ttl_s:g} s ended"
    return Failed(plain_failure(delivery, now, Kind.EXPIRED, reason))


def _reason(error: BaseException) -> str:
    if isinstance(error, Answer):
        return as_text(_attribute(error, "reason")) or as_text(error)
    name, text = type(error).__name__, as_text(error)
    return text if text in ("", name) else f"{name}: {text}"


def _attribute(error: BaseException, name: str) -> object:
    """An attribute of a user's exception, or None when it raises."""
    try:
        return getattr(error, name, None)
    except BaseException:  # noqa: BLE001 - a user's property may raise anything
        return None


def _code(error: BaseException) -> str | None:
    """The error's own short code, where it has one: `code`, `smtp_code`, `errno`."""
    for name in ("code", "smtp_code", "errno"):
        value = _attribute(error, name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            code = as_code(value)
            if code is not None and len(code) <= CODE_LENGTH:
                return code
    return None


def _retry_after(error: BaseException) -> timedelta | datetime | None:
    value = _attribute(error, "retry_after")
    return None if value is None else as_delay(value)


def _scope(scope: object) -> Scope | None:
    try:
        return Scope(as_text(scope))
    except ValueError:
        return None


def _handler_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from where the handler's own code begins."""
    start = trace
    while start is not None and _path(start.tb_frame.f_code.co_filename).parent == _OWN_CODE:
        start = start.tb_next
    return start


def _call_site(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{_path(code.co_filename).name}:{code.co_qualname}"


@lru_cache(maxsize=1024)
def _path(name: str) -> PurePath:
    return PurePath(name)


def _text(error: BaseException, trace: TracebackType | None) -> str | None:
    if isinstance(error, Answer) and error.__cause__ is None:
        return None
    try:
        return "".join(traceback.format_exception(type(error), error, trace, limit=-_FRAMES))
    except BaseException:  # noqa: BLE001 - it asks the user's exceptions for their texts
        return None
