"""Who did what: an intent row before each action and an outcome row after it, under one action id (I12).

The rows go to the store's journal and are only ever added. An action that ends in an error has an
outcome row that says so; one whose process died has an intent row and no outcome.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from redrive.core.ports import Journal

AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and from where: `ana@host`, `cli`."""

    name: str
    origin: str


@dataclass(slots=True)
class Action:
    """An action under way; what is put into `result` stands in its outcome row."""

    id: str
    result: dict[str, Any] = field(default_factory=dict)


@asynccontextmanager
async def action(
    journal: Journal, actor: Actor, verb: str, subject: Mapping[str, Any]
) -> AsyncIterator[Action]:
    """Write the intent, let the caller act, write the outcome."""
    current = Action(uuid4().hex)
    head = {"action": current.id, "actor": actor.name, "origin": actor.origin, "verb": verb}
    await journal.write_journal(AUDIT, head | {"row": "intent", "subject": dict(subject)})
    try:
        yield current
    except BaseException as error:
        failed = {"row": "outcome", "ok": False, "error": type(error).__name__, "result": current.result}
        await journal.write_journal(AUDIT, head | failed)
        raise
    await journal.write_journal(AUDIT, head | {"row": "outcome", "ok": True, "result": current.result})
