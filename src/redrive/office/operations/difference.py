"""What changed in a letter that was edited, as the audit keeps it: which fields, masked.

A payload that is not JSON is told by its size and hash. Known weakness: a list is shown whole, on both sides,
where one of its elements changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from redrive.core.failure import clip
from redrive.core.redaction import MASKED, redact
from redrive.office.masking import Mask

_SHOWN = 50
_LENGTH = 200
_ABSENT = object()


def difference(before: bytes, after: bytes, mask: Mask) -> list[dict[str, Any]]:
    """The changed fields by path, before and after, masked; the first fifty."""
    try:
        old, new = json.loads(before), json.loads(after)
    except (ValueError, RecursionError):
        return [{"path": "", "before": _bytes(before), "after": _bytes(after)}]
    changed = []
    for path, *values in _changes((), old, new):
        was, becomes = (_shown(path, value, mask) for value in values)
        changed.append({"path": redact(".".join(path)), "before": was, "after": becomes})
        if len(changed) == _SHOWN:
            break
    return changed


def _changes(path: tuple[str, ...], old: Any, new: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _changes((*path, name), old.get(name, _ABSENT), new.get(name, _ABSENT))
    elif type(old) is not type(new) or old != new:
        yield path, old, new


def _shown(path: tuple[str, ...], value: Any, mask: Mask) -> Any:
    """The value as everyone may see it: what is secret by a name on the way to it stays so here."""
    if value is _ABSENT:
        return None
    if any(map(mask.hides, path)):
        return MASKED
    for name in reversed(path):
        value = {name: value}
    masked = mask.payload(value)
    for _ in path:
        if isinstance(masked, Mapping):
            (masked,) = masked.values()
    text = masked if isinstance(masked, str) else json.dumps(masked)
    return clip(text, _LENGTH)


def _bytes(body: bytes) -> str:
    return f"{len(body):,} bytes, sha256 {sha256(body).hexdigest()}"
