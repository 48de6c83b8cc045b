"""What is kept of one failed attempt.

A failure always has a reason. Its text is bounded and never holds the payload; the traceback is at
most 2 KB, and the stores keep equal tracebacks once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REASON_LENGTH = 1_000
CODE_LENGTH = 64
TRACEBACK_LENGTH = 2_048


class Kind(StrEnum):
    """How a failure is judged."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    UNCERTAIN = "uncertain"
    EXPIRED = "expired"
    LOST = "lost"


class Scope(StrEnum):
    """What a failure says something about."""

    RECIPIENT = "recipient"
    MESSAGE = "message"
    DESTINATION = "destination"
    IDENTITY = "identity"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, as it is stored and shown.

    `duration_ms` is how long the handler ran; None where nobody knows, as for a lost worker. `delay_ms` is
    the delay chosen before the next attempt, None where there was to be none; `delay_asked` says that it
    follows what the handler or the other side asked for, not the retry policy.
    """

    at: int
    attempt: int
    kind: Kind
    reason: str
    code: str | None = None
    scope: Scope | None = None
    fingerprint: str = ""
    traceback: str | None = None
    duration_ms: int | None = None
    delay_ms: int | None = None
    delay_asked: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "reason", clip(self.reason.strip(), REASON_LENGTH).strip() or self.kind.value
        )
        if self.code is not None:
            object.__setattr__(self, "code", clip(self.code, CODE_LENGTH))
        if self.traceback is not None:
            object.__setattr__(self, "traceback", clip_front(self.traceback, TRACEBACK_LENGTH))


def clip(text: str, length: int) -> str:
    """The text's beginning, storable: lone surrogates and NULs replaced, at most `length` bytes of UTF-8."""
    return _encoded(text[:length])[:length].decode("utf-8", "ignore")


def clip_front(text: str, length: int) -> str:
    """The text's end, where a traceback says what happened."""
    return _encoded(text[-length:])[-length:].decode("utf-8", "ignore")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"?")
