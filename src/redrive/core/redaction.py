"""What must not reach a log, an error or a terminal: secrets, addresses, control sequences (S15, S23).

Patterns are linear. Redaction is for text that people and machines read; what is stored stays whole.
"""

from __future__ import annotations

import re

_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b([a-z][a-z0-9+.-]{1,15}://)[^\s/@]{1,200}@", re.I), r"\1***@"),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,500}", re.I), r"\1 ***"),
    (
        re.compile(
            r"\b(password|passwd|secret|token|api[_-]?key|authorization)(\s?[=:]\s?)[^\s,;&]{1,500}", re.I
        ),
        r"\1\2***",
    ),
    (re.compile(r"[^\s<>@,;:\"'()]{1,128}@([A-Za-z0-9.-]{1,255})"), r"***@\1"),
)
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def redact(text: str) -> str:
    """The text with passwords, keys and the local parts of addresses masked."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def printable(text: str) -> str:
    """The text without control and ANSI sequences, safe on a terminal."""
    return _CONTROL.sub("", text)
