"""From what a handler raised to the Failure that is kept (R7). Unknown errors are temporary (R5)."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import TracebackType

from redrive.core.errors import Answer, Hold, Permanent, Temporary, Uncertain
from redrive.core.failure import CODE_LENGTH, Failure, Kind, Scope
from redrive.core.fingerprint import fingerprint
from redrive.core.message import Delivery, Lapse
from redrive.core.verdict import Failed

_OWN_CODE = PurePath(__file__).parent
_FRAMES = 12


def failed(error: BaseException, delivery: Delivery, now: int) -> Failed:
    """The outcome of an attempt that raised."""
    kind, code, scope = Kind.TEMPORARY, None, None
    not_before_at = None
    reason = _reason(error)
    if isinstance(error, Temporary | Permanent | Uncertain | Hold):
        reason, code, scope = error.reason, error.code, _scope(error.scope)
    if isinstance(error, Permanent):
        kind = Kind.PERMANENT
    elif isinstance(error, Uncertain):
        kind = Kind.UNCERTAIN
    elif isinstance(error, Temporary) and error.retry_after is not None:
        not_before_at = now + round(error.retry_after.total_seconds() * 1000)
    frames = _handler_frames(error.__traceback__)
    failure = Failure(
        at=now,
        attempt=delivery.progress.attempts,
        kind=kind,
        reason=reason or type(error).__name__,
        code=code or _code(error),
        scope=scope,
        fingerprint=fingerprint(type(error).__qualname__, code, reason, _call_site(frames)),
        traceback=_text(error, frames),
    )
    return Failed(failure, not_before_at)


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
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        text = "its message could not be made"
    if isinstance(error, Answer):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _code(error: BaseException) -> str | None:
    """The error's own short code, where it has one: `code`, `smtp_code`, `errno`."""
    for name in ("code", "smtp_code", "errno"):
        value = getattr(error, name, None)
        if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= CODE_LENGTH:
            return str(value)
    return None


def _scope(scope: str | None) -> Scope | None:
    try:
        return Scope(scope) if scope is not None else None
    except ValueError:
        return None


def _handler_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from where the handler's own code begins."""
    start = trace
    while start is not None and PurePath(start.tb_frame.f_code.co_filename).parent == _OWN_CODE:
        start = start.tb_next
    return start


def _call_site(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{PurePath(code.co_filename).name}:{code.co_qualname}"


def _text(error: BaseException, trace: TracebackType | None) -> str | None:
    if isinstance(error, Answer) and error.__cause__ is None:
        return None
    lines = traceback.format_exception(type(error), error, trace, limit=-_FRAMES)
    return "".join(lines)
