"""Ids and tokens, made by the caller so that a repeated call answers the same."""

from __future__ import annotations

import os
import time

_VARIANTS = "89ab"


def new_id() -> str:
    """A UUIDv7: ordered by time to the millisecond, 74 random bits."""
    time_part = f"{time.time_ns() // 1_000_000:012x}"
    noise = os.urandom(10)
    digits, variant = noise.hex(), _VARIANTS[noise[9] & 3]
    return f"{time_part[:8]}-{time_part[8:]}-7{digits[:3]}-{variant}{digits[3:6]}-{digits[6:18]}"


def new_token() -> str:
    """The proof of one claim: 96 random bits."""
    return os.urandom(12).hex()
