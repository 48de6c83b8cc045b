"""Dead letters for the probes: what waits is claimed and buried, for one of a few causes each."""

from __future__ import annotations

from itertools import count

from bench.lanes import claim
from bench.subject import make_app
from redrive.core.failure import Failure, Kind
from redrive.core.fingerprint import fingerprint
from redrive.core.ports import PAGE
from redrive.core.store import Store
from redrive.core.verdict import Bury, Reason, Settlement

CAUSES = tuple(
    (f"5{number:02}", f"5{number:02} 5.1.{number} refused by policy {number}") for number in range(20)
)


async def bury_all(url: str) -> None:
    """Make a dead letter of everything that waits in a store."""
    async with make_app(url) as app:
        await bury_waiting(app.store)


async def bury_waiting(store: Store) -> None:
    """The same in a store that is open."""
    numbers = count()
    while deliveries := await claim(store, PAGE):
        verdicts = [_verdict(next(numbers), store.now()) for _ in deliveries]
        await store.settle([Settlement(*pair) for pair in zip(deliveries, verdicts, strict=True)])


def _verdict(number: int, now: int) -> Bury:
    code, reason = CAUSES[number % len(CAUSES)]
    failure = Failure(
        now, 1, Kind.PERMANENT, reason, code, fingerprint=fingerprint("Permanent", code, reason, "bench")
    )
    return Bury(Reason.PERMANENT, failure)
