"""What the mailbox remembers of earlier tries, and the actions that depend on it.

Bounded: of more than MOST tries, and of more than MOST_LIMITED addresses with a rate, the oldest are
forgotten, and what they asked for begins anew.
Instants here are seconds of whatever clock the caller uses.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar, assert_never

from redrive.mailbox.behaviours import (
    Action,
    Delay,
    Drop,
    DropOnce,
    FailFirst,
    Greylist,
    Hang,
    Largest,
    Limit,
    Plain,
    Raw,
    Refuse,
)
from redrive.mailbox.replies import SIZE_EXCEEDED, reply

MOST = 100_000
MOST_LIMITED = 1_000
K = TypeVar("K")
V = TypeVar("V")

_TRY_AGAIN = reply(451, "4.3.0 simulated passing trouble, try again")
_GREYLISTED = reply(450, "4.2.0 greylisted, try again later")
_TOO_FAST = reply(451, "4.7.0 too many mails to this address, slow down")
_TOO_FAST_CLOSING = reply(421, "4.7.0 too many mails to this address, slow down")


class Bounded(Generic[K, V]):
    """A dictionary of at most `most` keys: the first written are the first to go."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        items = self._items
        if key not in items and len(items) >= self._most:
            del items[next(iter(items))]
        items[key] = value

    def clear(self) -> None:
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)


class MailTries:
    """Turns an action into what happens now. `mail` tells one mail's tries from another's."""

    def __init__(self) -> None:
        self._tries: Bounded[tuple[str, str], int] = Bounded(MOST)
        self._first_try: Bounded[tuple[str, str], float] = Bounded(MOST)
        self._accepted: Bounded[str, deque[float]] = Bounded(MOST_LIMITED)

    def clear(self) -> None:
        """Forget everything."""
        self._tries.clear()
        self._first_try.clear()
        self._accepted.clear()

    def now_does(self, action: Action, address: str, mail: str, size: int, now: float) -> Plain | None:
        """The plain action, or None for the ordinary course."""
        address = address.lower()
        match action:
            case Refuse() | Raw() | Drop() | Hang() | Delay():
                return action
            case Largest(size_bytes=largest):
                return Refuse(SIZE_EXCEEDED) if size > largest else None
            case FailFirst(times=times):
                return Refuse(_TRY_AGAIN) if self._count(address, mail) <= times else None
            case DropOnce(kept=kept):
                return Drop(kept) if self._count(address, mail) == 1 else None
            case Greylist(delay_s=delay_s):
                return self._greylist(address, mail, delay_s, now)
            case Limit():
                return self._limit(action, address, now)
        assert_never(action)

    def _count(self, address: str, mail: str) -> int:
        tries = (self._tries.get((address, mail)) or 0) + 1
        self._tries.put((address, mail), tries)
        return tries

    def _greylist(self, address: str, mail: str, delay_s: float, now: float) -> Plain | None:
        first = self._first_try.get((address, mail))
        if first is None:
            self._first_try.put((address, mail), now)
            first = now
        return None if now - first >= delay_s else Refuse(_GREYLISTED)

    def _limit(self, limit: Limit, address: str, now: float) -> Plain | None:
        accepted = self._accepted.get(address)
        if accepted is None:
            accepted = deque(maxlen=limit.count)
            self._accepted.put(address, accepted)
        if len(accepted) == limit.count and now - accepted[0] < limit.period_s:
            return Refuse(_TOO_FAST_CLOSING if limit.closing else _TOO_FAST)
        accepted.append(now)
        return None
