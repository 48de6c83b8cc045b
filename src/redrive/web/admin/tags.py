"""ETags: which version of a thing someone read, and whether it is still that one (RFC 9110, strong only)."""

from __future__ import annotations

from redrive.web.access import Call
from redrive.web.problems import CHANGED, NO_IF_MATCH, Refusal


def tag(version: str | int) -> str:
    """A version as an ETag."""
    return f'"{version}"'


def demand(call: Call, version: str | int, *, required: bool = False) -> bool:
    """Refusal when the caller means another version; whether one was named at all."""
    header = call.request.headers.get("if-match")
    if header is None:
        if required:
            raise Refusal(NO_IF_MATCH, "this changes what was read: say with If-Match which version that was")
        return False
    named = [one.strip() for one in header.split(",")]
    if named != ["*"] and tag(version) not in named:
        raise Refusal(CHANGED, "someone or something changed it after it was read: nothing was done")
    return True
