"""Work on many at once in which the trouble of one does not keep the others waiting: queues, and messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from redrive.core.carrier import Parcel
from redrive.core.errors import StoreUnavailable


async def go_round(queues: Iterable[str], work: Callable[[str], Awaitable[bool]]) -> bool:
    """Work on each; whether any has more to do. What went wrong first is raised after all."""
    more, problem = False, None
    for queue in queues:
        try:
            more = await work(queue) or more
        except Exception as error:  # noqa: BLE001 - whatever it is, the other queues go on
            problem = problem or error
    if problem is not None:
        raise problem
    return more


async def by_halves(
    parcels: Sequence[Parcel],
    work: Callable[[Sequence[Parcel]], Awaitable[None]],
    alone: Callable[[Parcel, Exception], Awaitable[None]],
) -> None:
    """Work on all of them; where that fails, on each half, down to the one that is the trouble.

    `alone` is what is done about that one. A store that does not answer is nobody's trouble: it is raised.
    """
    try:
        await work(parcels)
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - a store may fail on a message in any way
        if len(parcels) == 1:
            await alone(parcels[0], error)
            return
        middle = len(parcels) // 2
        for half in (parcels[:middle], parcels[middle:]):
            await by_halves(half, work, alone)
