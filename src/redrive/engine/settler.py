"""Settles in batches, few store calls for many attempts, and does not let go of what the store refuses.

A settlement waits a few milliseconds for company while other attempts are under way, and goes at once
when nothing else is. A store that does not answer, or refuses, is asked again for as long as the lease is
held. What is refused is asked again apart and singly, so that it never holds back its neighbours: when it is
refused for a lease's length it goes on with a plain failure in place of its own, and when even that is
refused while others get through, it is given up, lapses, and comes back as lost.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.ports import Source
from redrive.core.verdict import Bury, Release, RetryAt
from redrive.engine.failures import plain_failure
from redrive.engine.keeper import Keeper
from redrive.engine.ruling import Holds, Ruling, apply, not_ours
from redrive.engine.slots import Slots
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import LoopFailed, SettleRefused, StoreBack, StoreTrouble

_COMPANY = 500
_COMPANY_S = 0.010
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_FAILURES_A_PASS = 20


@dataclass(slots=True)
class _Refused:
    """A settlement that the store did not take, since when, and whether its failure is a plain one by now."""

    ruling: Ruling
    since_s: float
    plain: bool = False


class Settler:
    """The rulings of one worker, in order of arrival. `outstanding` counts the attempts under way."""

    def __init__(
        self,
        source: Source,
        telemetry: Telemetry,
        keeper: Keeper,
        slots: Slots,
        outstanding: Callable[[], int],
        lease_s: float,
    ) -> None:
        self._source = source
        self._telemetry = telemetry
        self._holds = Holds(telemetry)
        self._keeper = keeper
        self._slots = slots
        self._outstanding = outstanding
        self._lease_s = lease_s
        self._waiting: list[Ruling] = []
        self._some = asyncio.Event()
        self._enough = asyncio.Event()
        self._refused: deque[_Refused] = deque()
        self._any_refused = asyncio.Event()
        self._under_way: list[Ruling] = []
        self._passes = 0
        self._accepted_s = 0.0

    @property
    def unsettled(self) -> int:
        """How many outcomes the store has not taken yet."""
        return len(self._waiting) + len(self._under_way) + len(self._refused)

    def add(self, ruling: Ruling, *, last: bool = True) -> None:
        """Settle this soon; at once when it is the `last` of its queue and no other queue is at work."""
        if not self._waiting:
            self._some.set()
        self._waiting.append(ruling)
        if len(self._waiting) >= _COMPANY or (last and self._outstanding() <= 1):
            self._enough.set()

    def hurry(self) -> bool:
        """Settle now what waits, if anything does: a claim is about to write, and both share one write."""
        if self._waiting:
            self._enough.set()
        return bool(self._waiting)

    def nudge(self) -> None:
        """Wake the loops so that they see that the worker stops."""
        self._some.set()
        self._enough.set()
        self._any_refused.set()

    async def step(self) -> float:
        """Settle one batch."""
        await self._some.wait()
        await self._wait_for_company()
        self._some.clear()
        self._enough.clear()
        await self._settle_waiting()
        return 0.0

    async def repeat(self) -> float:
        """Ask once more, one by one, for what was refused; how long to wait before the next pass."""
        await self._any_refused.wait()
        self._drop_lost_refused()
        await self._ask_again()
        self._change_stubborn()
        if not self._refused:
            self._any_refused.clear()
            self._passes = 0
            return 0.0
        self._passes += 1
        return _pause_s(self._passes)

    async def flush(self) -> None:
        """Settle all that waits now; what is refused for a lease's length more is left to lapse."""
        while self._waiting:
            await self._settle_waiting()
        ends_s = time.monotonic() + self._lease_s
        while self._refused and time.monotonic() < ends_s:
            pause_s = await self.repeat()
            await asyncio.sleep(pause_s)
        while self._refused:
            self._give_up(self._refused.popleft())

    async def _wait_for_company(self) -> None:
        try:
            async with asyncio.timeout(_COMPANY_S):
                await self._enough.wait()
        except TimeoutError:
            return

    async def _settle_waiting(self) -> None:
        batch = self._under_way = self._waiting
        self._waiting = []
        for token, count in _tokens(batch).items():
            self._keeper.settling(token, count)
        try:
            await self._settle(batch)
        except BaseException:
            for token, count in _tokens(batch).items():
                self._keeper.settling(token, -count)
            self._waiting = batch + self._waiting
            self._under_way = []
            self._some.set()
            raise

    async def _settle(self, batch: list[Ruling]) -> None:
        """Settle a batch, which is emptied; without an answer it is asked for again as a whole."""
        since_s, tries, ours = time.monotonic(), 0, not_ours
        while batch:
            try:
                await apply(self._source, batch, self._holds.tell, ours)
            except Exception as error:  # noqa: BLE001 - whatever it is, these settlements are not given up
                if not isinstance(error, StoreUnavailable) or time.monotonic() > since_s + self._lease_s:
                    self._refuse(batch, error)
                    return
                tries, ours = tries + 1, self._keeper.holds
                await asyncio.sleep(_pause_s(tries))
                batch[:] = self._drop_lost(batch)
            else:
                taken = batch.copy()
                batch.clear()
                self._accept(taken)

    def _refuse(self, batch: list[Ruling], error: Exception) -> None:
        if not self._refused:
            self._tell(error)
        now_s = time.monotonic()
        self._refused.extend(_Refused(ruling, now_s) for ruling in batch)
        batch.clear()
        self._any_refused.set()

    def _tell(self, error: Exception) -> None:
        known = isinstance(error, StoreError)
        self._telemetry.emit(StoreTrouble("settle", str(error), 1) if known else LoopFailed("settle", error))

    async def _ask_again(self) -> None:
        """One pass; it ends early when the store takes nothing, and the next begins where this one ended."""
        failures, had = 0, len(self._refused)
        for _ in range(had):
            if failures >= _FAILURES_A_PASS:
                return
            refused = self._refused[0]
            try:
                await apply(self._source, [refused.ruling], self._holds.tell, self._keeper.holds)
            except Exception:  # noqa: BLE001 - told when it began; it stays in line
                failures += 1
                self._refused.rotate(-1)
            else:
                failures = 0
                self._refused.popleft()
                self._accept([refused.ruling])
        if had and not self._refused:
            self._telemetry.emit(StoreBack("settle", self._passes + 1))

    def _drop_lost_refused(self) -> None:
        lost = [one.ruling for one in self._refused if not self._keeper.holds(_token(one.ruling))]
        if lost:
            self._refused = deque(one for one in self._refused if self._keeper.holds(_token(one.ruling)))
            self._forget_lost(lost)

    def _change_stubborn(self) -> None:
        """What is refused for a lease's length: a plain failure first, an end when others get through."""
        now_s, kept, given_up = time.monotonic(), deque[_Refused](), list[_Refused]()
        for refused in self._refused:
            stubborn = now_s > refused.since_s + self._lease_s
            if stubborn and not refused.plain:
                kept.append(_Refused(_with_plain_failure(refused.ruling), now_s, plain=True))
            elif stubborn and self._accepted_s > refused.since_s:
                given_up.append(refused)
            else:
                kept.append(refused)
        self._refused = kept
        for refused in given_up:
            self._give_up(refused)

    def _give_up(self, refused: _Refused) -> None:
        delivery = refused.ruling.delivery
        why = f"the store refuses every outcome of {delivery.message.id}: its lease is left to lapse"
        self._telemetry.emit(LoopFailed("settle", StoreError(why)))
        self._forget([refused.ruling])

    def _drop_lost(self, batch: list[Ruling]) -> list[Ruling]:
        kept = [ruling for ruling in batch if self._keeper.holds(_token(ruling))]
        self._forget_lost([ruling for ruling in batch if not self._keeper.holds(_token(ruling))])
        return kept

    def _forget_lost(self, lost: Sequence[Ruling]) -> None:
        for ruling in lost:
            self._telemetry.emit(SettleRefused(ruling.delivery))
        self._forget(lost)

    def _accept(self, batch: Sequence[Ruling]) -> None:
        self._accepted_s = time.monotonic()
        self._forget(batch)

    def _forget(self, batch: Sequence[Ruling]) -> None:
        for token, count in _tokens(batch).items():
            self._keeper.settled(token, count)
        self._slots.settled(len(batch))


def _with_plain_failure(ruling: Ruling) -> Ruling:
    """The same verdict; its failure, where it has one, holds nothing of the user's any more."""
    verdict, delivery = ruling.verdict, ruling.delivery
    if not isinstance(verdict, RetryAt | Release | Bury) or verdict.failure is None:
        return ruling
    reason = "the attempt failed, and the store refused to keep how: see the worker's log"
    plain = plain_failure(delivery, verdict.failure.at, verdict.failure.kind, reason)
    return replace(ruling, verdict=replace(verdict, failure=plain))


def _pause_s(tries: int) -> float:
    grown = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10))
    return grown * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret


def _token(ruling: Ruling) -> str:
    return ruling.delivery.lease.token


def _tokens(batch: Sequence[Ruling]) -> Counter[str]:
    return Counter(map(_token, batch))
