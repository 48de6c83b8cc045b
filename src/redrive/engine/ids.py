"""Ids and tokens, made by the caller so that a repeated call answers the same (DESIGN rule 2)."""

from __future__ import annotations

import os
import time


def new_id() -> str:
    """A UUIDv7: ordered by time to the millisecond, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(10), "big")
    high = milliseconds << 16 | 0x7000 | noise & 0x0FFF
    low = 1 << 63 | noise >> 12 & 0x3FFF_FFFF_FFFF_FFFF
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_token() -> str:
    """The proof of one claim: 96 random bits."""
    return os.urandom(12).hex()
