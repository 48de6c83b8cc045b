"""Which failures are the same failure: a short hash that groups them.

Made of the exception's type, the code, the place in the code that raised, and the reason with
whatever differs from one message to the next masked: quoted text, addresses, URLs, ids, numbers. The
patterns are linear on hostile text, and only the reason's first part is read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

_READ = 500
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`|«[^»\n]{0,200}»"), "<text>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s<>]{1,300}", re.I), "<url>"),
    (re.compile(r"<?[^\s<>@,;:]{1,128}@[^\s<>@,;:]{1,255}>?"), "<address>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b(?=[a-z]{0,40}[0-9])[0-9a-z_-]{12,64}\b", re.I), "<id>"),
    (re.compile(r"[0-9]+(?:[.:,-][0-9]+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def mask(reason: str) -> str:
    """The reason without what differs from message to message."""
    return _masked(reason[:_READ])


@lru_cache(maxsize=1024)
def _masked(text: str) -> str:
    """Failures come in crowds with the same words."""
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text.strip().lower()


def fingerprint(exception: str, code: str | None, reason: str, call_site: str) -> str:
    """Sixteen hex digits; equal for failures of one cause, stable across processes and versions."""
    parts = "\x00".join((exception, code or "", mask(reason), call_site))
    return blake2b(parts.encode("utf-8", "replace"), digest_size=8).hexdigest()
