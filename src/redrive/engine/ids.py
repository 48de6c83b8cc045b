"""Ids and tokens, made by the caller so that a repeated call answers the same.

The randomness of ids is asked of the system in blocks, because asking for each costs more than all the rest;
a child of a fork throws away what its parent may use too.
"""

from __future__ import annotations

import os
import time

_DIGITS = 20
_BLOCK = 512
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_spare: list[str] = []

os.register_at_fork(after_in_child=_spare.clear)


def new_id() -> str:
    """A UUIDv7: ordered by time to the millisecond, 74 random bits."""
    try:
        digits = _spare.pop()
    except IndexError:
        digits = _ask()
    time_part = f"{time.time_ns() // 1_000_000:012x}"
    variant = _VARIANTS[digits[3]]
    return f"{time_part[:8]}-{time_part[8:]}-7{digits[:3]}-{variant}{digits[4:7]}-{digits[7:19]}"


def new_token() -> str:
    """The proof of one claim: 96 random bits."""
    return os.urandom(12).hex()


def _ask() -> str:
    """The digits of one id, and of many more in reserve."""
    noise = os.urandom(_BLOCK * _DIGITS // 2).hex()
    first, *others = (noise[begins : begins + _DIGITS] for begins in range(0, len(noise), _DIGITS))
    _spare.extend(others)
    return first
