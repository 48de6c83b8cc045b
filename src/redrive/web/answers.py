"""JSON that goes out, and what requests and answers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

MOST_S: Final = 365 * 86_400
"""The longest delay or time to live that a request may ask for."""

_ENCODER: Final = msgspec.json.Encoder()


def respond(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_ENCODER.encode(document), status, headers=headers, media_type="application/json")
