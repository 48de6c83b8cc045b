"""Every kind of problem that an answer may name, with what to do about it.

The `type` of a problem is an address on the docs page, which lists these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem: its name in the `type` address, its status, and what to do about it."""

    name: str
    status: int
    title: str
    advice: str


BAD_JSON: Final = ProblemType(
    "bad-json",
    400,
    "The body cannot be read as JSON",
    "Send one JSON document in UTF-8, at most 32 levels deep.",
)
BAD_QUERY: Final = ProblemType(
    "bad-query",
    400,
    "The filter or the SQL cannot be answered",
    "Mend it at the `position` in `errors`, counted from 0.",
)
UNAUTHENTICATED: Final = ProblemType(
    "unauthenticated", 401, "A valid key is needed", "Send `Authorization: Bearer rdk_…` with a live key."
)
FORBIDDEN: Final = ProblemType(
    "forbidden", 403, "This key may not do that", "Use a key whose role is granted this route."
)
NOT_FOUND: Final = ProblemType(
    "not-found", 404, "There is no such thing here", "Check the address; a key sees its own tenant alone."
)
METHOD_NOT_ALLOWED: Final = ProblemType(
    "method-not-allowed", 405, "This address has other methods", "Use a method that `Allow` names."
)
CONFLICT: Final = ProblemType(
    "conflict",
    409,
    "The dedupe key belongs to another message",
    "Send the same payload, or use another dedupe key.",
)
WRONG_STATE: Final = ProblemType(
    "wrong-state",
    409,
    "Its present state does not allow that",
    "Read it again: someone may have done it already, or it has ended.",
)
CHANGED: Final = ProblemType(
    "changed",
    412,
    "It has changed since it was read",
    "Read it again, look at what changed, and repeat with its new ETag.",
)
TOO_LARGE: Final = ProblemType(
    "too-large", 413, "The body is too large", "Send less at once, or a reference to what is large."
)
NOT_JSON: Final = ProblemType(
    "not-json", 415, "The body is not declared as JSON", "Send `Content-Type: application/json`."
)
INVALID: Final = ProblemType(
    "invalid",
    422,
    "What was sent cannot be accepted",
    "Mend every entry of `errors`; nothing of the request was accepted.",
)
KEY_REUSED: Final = ProblemType(
    "idempotency-key-reused",
    422,
    "The Idempotency-Key belongs to another body",
    "Repeat a request byte for byte, or send the new one under a new key.",
)
NO_IF_MATCH: Final = ProblemType(
    "if-match-needed",
    428,
    "It is not said which version is meant",
    "Read it, and send its `ETag` as `If-Match`.",
)
RATE_LIMITED: Final = ProblemType(
    "rate-limited", 429, "Too many requests", "Wait as many seconds as `Retry-After` says."
)
UNEXPECTED: Final = ProblemType(
    "unexpected",
    500,
    "Something unexpected happened",
    "Tell your operator the `instance`: the log has the cause under it.",
)
UNAVAILABLE: Final = ProblemType(
    "unavailable",
    503,
    "The service cannot answer now",
    "Repeat after `Retry-After`, with the same Idempotency-Key: the first try may have been accepted.",
)

PROBLEMS: Final = (
    BAD_JSON,
    BAD_QUERY,
    UNAUTHENTICATED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    CONFLICT,
    WRONG_STATE,
    CHANGED,
    TOO_LARGE,
    NOT_JSON,
    INVALID,
    KEY_REUSED,
    NO_IF_MATCH,
    RATE_LIMITED,
    UNEXPECTED,
    UNAVAILABLE,
)
