"""What must not reach a log, an error or a terminal: secrets, addresses, control sequences (S15, S23).

Patterns are linear. Redaction is for text that people and machines read; what is stored stays whole. Known
weakness: of a URL with an @ in its path, the host is masked too; it could be a part of a password.
"""

from __future__ import annotations

import re

_URL = re.compile(r"://(\S+)")
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,500}", re.I), r"\1 ***"),
    (
        re.compile(
            r"\b(password|passwd|secret|token|api[_-]?key|authorization)(\s?[=:]\s?)[^\s,;&]{1,500}", re.I
        ),
        r"\1\2***",
    ),
)
# The first branch steps over what the URL's mask has left.
_ADDRESS = re.compile(r"(://\*\*\*@)|[^\s<>@,;:\"'()]{1,128}@(?=[A-Za-z0-9.-])")
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def redact(text: str) -> str:
    """The text with passwords, keys and the local parts of addresses masked."""
    text = _URL.sub(_mask_url, text)
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return _ADDRESS.sub(lambda found: found[1] or "***@", text)


def printable(text: str) -> str:
    """The text without control and ANSI sequences, safe on a terminal."""
    return _CONTROL.sub("", text)


def _mask_url(found: re.Match[str]) -> str:
    """Up to the last @, since a password that was not encoded may hold @ and / itself."""
    _, at, where = found[1].rpartition("@")
    return f"://***@{where}" if at else found[0]
