"""Documents as they may be shown on a terminal: masked, or revealed after the audit was told (S15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redrive.cli.session import Session
from redrive.office.masking import record_reveal


async def shown(
    current: Session, documents: Iterable[Mapping[str, Any]], *, reveal: bool
) -> list[dict[str, Any]]:
    """The documents of letters or messages, fit to be shown."""
    given = list(documents)
    if not reveal:
        return [current.mask.document(document) for document in given]
    await record_reveal(current.store, current.actor, [str(document["jobId"]) for document in given])
    return [dict(document) for document in given]
