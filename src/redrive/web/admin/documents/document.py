"""What all documents of the admin routes have in common."""

from __future__ import annotations

import msgspec


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """JSON in camelCase."""
