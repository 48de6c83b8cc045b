"""Idempotency-Key: the same request again is answered with the first one's ids.

The key becomes the dedupe key of each message of the request, and stands for the whole body: it is kept by
the store, in the same write as the message, for as long as dedupe keys are (24 hours after the message has
finished; 1 hour on Redis). Nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from starlette.requests import Request

from redrive.core.ports import Receipt, Status
from redrive.web.problems import INVALID, KEY_REUSED, FieldError, Refusal

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LENGTH = 255


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's key, and the hash of the body that it stands for."""

    text: str
    digest: bytes

    def item(self, index: int) -> str:
        """The dedupe key of one message of the request."""
        return f"request:{index}:{self.text}"

    def reused(self) -> Refusal:
        """The key came before, with another body."""
        return Refusal(KEY_REUSED, "a request with this Idempotency-Key was accepted with another body")


def idempotency_key(request: Request, body: bytes) -> IdempotencyKey | None:
    """The request's key, or None when it has none."""
    text = request.headers.get(HEADER)
    if text is None:
        return None
    if not 1 <= len(text) <= LENGTH or not text.isascii() or not text.isprintable():
        error = FieldError(HEADER, f"is not 1 to {LENGTH} printable ASCII characters")
        raise Refusal(INVALID, "the Idempotency-Key cannot be used: see errors", [error])
    return IdempotencyKey(text, blake2b(body, digest_size=16).digest())


def replayed(key: IdempotencyKey | None, receipts: Sequence[Receipt]) -> dict[str, str]:
    """The header that says so when a request was accepted before."""
    again = key is not None and all(receipt.status is Status.DUPLICATE for receipt in receipts)
    return {REPLAYED: "true"} if again else {}
