"""Dead letters of every make, written into a store by `bury` as if they came from elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from redrive.core.failure import Failure, Kind
from redrive.core.letters import DeadLetter, Redriven, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Message, Progress
from redrive.core.store import Store
from redrive.core.verdict import Reason

QUEUE = "email:send"
TENANT = "acme"
MINUTE_MS = 60_000

_numbers = itertools.count(1)


def letter(
    store: Store,
    *,
    queue: str = QUEUE,
    tenant: str = TENANT,
    body: bytes = b"{}",
    reason: Reason = Reason.PERMANENT,
    kind: Kind | None = Kind.PERMANENT,
    code: str | None = "550",
    why: str = "mailbox full",
    fingerprint: str = "f" * 16,
    attempts: int = 1,
    redriven: int = 0,
    age_ms: int = MINUTE_MS,
    first_age_ms: int | None = None,
) -> DeadLetter:
    """A letter that died `age_ms` ago, and for the first time `first_age_ms` ago where that is given; without
    a kind, nothing was ever attempted."""
    died_at = store.now() - age_ms
    failures = (
        [] if kind is None else [_failure(died_at, n, kind, code, why, fingerprint) for n in range(attempts)]
    )
    redrives = [
        Redriven(died_at - 2, generation, "ana", result=RedriveResult.DEAD)
        for generation in range(1, redriven + 1)
    ]
    return DeadLetter(
        Message(
            f"{next(_numbers):08x}-0000-7000-8000-000000000000",
            queue,
            tenant,
            body,
            died_at - 1_000,
            86_400.0,
        ),
        Progress(State.DEAD, died_at, died_at + 1_000, attempts, generation=redriven),
        reason,
        died_at,
        died_at if first_age_ms is None else store.now() - first_age_ms,
        fingerprint,
        tuple(failures),
        tuple(redrives),
    )


async def bury(store: Store, letters: Sequence[DeadLetter]) -> list[str]:
    """Put the letters in; their ids in order."""
    for start in range(0, len(letters), 500):
        await store.bury(letters[start : start + 500])
    return [one.message.id for one in letters]


def _failure(at: int, number: int, kind: Kind, code: str | None, why: str, fingerprint: str) -> Failure:
    return Failure(at, number + 1, kind, why, code, fingerprint=fingerprint)
