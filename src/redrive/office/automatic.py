"""Automatic re-drive : letters of temporary failures come back by themselves once their cause is gone.

Off unless a cool-down is set, for all queues or for some. Letters of one queue with one fingerprint have one
cause and are judged together: after the cool-down a few go first, then ever larger parts, each waited for.
The first failure among them halts it, and the next round waits twice as long. After three rounds in a row
that failed, people decide. Never taken: a letter that any attempt called permanent, uncertain, expired or
lost, or that was re-driven three times already. Known weakness: it looks at the 10,000 oldest letters of a
cool-down.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from redrive.core.failure import Kind as FailureKind
from redrive.core.letters import Account
from redrive.core.ports import PAGE
from redrive.core.verdict import Reason
from redrive.office.audit import Actor
from redrive.office.filters import Filter, parse
from redrive.office.filters.terms import Comparison, Dated, MomentField, Named, NameField
from redrive.office.index import Found
from redrive.office.office import Office
from redrive.office.operations.operation import (
    NoOperation,
    Operation,
    OperationKind,
    OperationState,
    Order,
    Selection,
)
from redrive.office.records import every_record

ACTOR = Actor("automatic re-drive", "duty")
AUTOMATIC_RECORDS = "automatic"
ROUNDS = 3
CANARY = 3
RATE = "20/s"
_LETTERS = 2_000
_PAGES = 20
_SHORTEST_S, _LONGEST_S = 1.0, 60.0
_KEEP_S = 30 * 86_400.0

Cause = tuple[str, str]
"""A queue and a fingerprint."""


@dataclass(frozen=True, slots=True)
class CoolDowns:
    """How long letters must be dead first: usually, and in queues with one of their own; None is never."""

    usual_s: float | None
    queues: Mapping[str, float | None] = field(default_factory=dict)

    def of(self, queue: str) -> float | None:
        return self.queues.get(queue, self.usual_s)

    @property
    def shortest_s(self) -> float | None:
        """The shortest there is; None when all is off."""
        return min((each for each in (self.usual_s, *self.queues.values()) if each is not None), default=None)

    def filters(self, now: int) -> list[Filter]:
        """The letters that have been dead for long enough, by cool-down; each death begins it anew."""
        own = {each: tuple(name for name in self.queues if self.queues[name] == each) for each in self._own()}
        asked = [_dead_for(each, now, Named(NameField.QUEUE, names)) for each, names in own.items()]
        if self.usual_s is not None:
            others = [Named(NameField.QUEUE, tuple(self.queues), negated=True)] if self.queues else []
            asked.append(_dead_for(self.usual_s, now, *others))
        return asked

    def _own(self) -> list[float]:
        return sorted({each for each in self.queues.values() if each is not None})


def _dead_for(cool_down_s: float, now: int, *queues: Named) -> Filter:
    asked = parse(f"kind:temporary reason:{Reason.EXHAUSTED} redriven:<{ROUNDS}")
    before_at = now - 1000 * max(1, round(cool_down_s))
    return Filter((*asked.terms, Dated(MomentField.MOVED, Comparison.LESS, before_at), *queues))


@dataclass(frozen=True, slots=True)
class CauseTrial:
    """What is known of a cause: the round under way, how many failed in a row, and when the next may be."""

    operation: str | None = None
    failed: int = 0
    not_before_at: int = 0


class Automatic:
    """The duty on one store."""

    def __init__(self, office: Office, cool_downs: CoolDowns) -> None:
        self._store = office.store
        self._index = office.index
        self._cool_downs = cool_downs
        self._operations = office.acting(ACTOR).operations

    async def step(self) -> float:
        """End the rounds that are over, and begin those that are due."""
        busy = await self._end_rounds()
        for cause, ids in (await self._causes()).items():
            if cause not in busy:
                await self._begin(cause, ids)
        return min(_LONGEST_S, max(_SHORTEST_S, (self._cool_downs.shortest_s or _LONGEST_S) / 10))

    async def _end_rounds(self) -> set[Cause]:
        """The causes whose round is still under way."""
        busy: set[Cause] = set()
        async for record in every_record(self._store, AUTOMATIC_RECORDS):
            trial = CauseTrial(**record.document)
            if trial.operation is None:
                continue
            cause = _cause(record.id)
            ended = await self._end(cause, trial, trial.operation)
            if ended is None:
                busy.add(cause)
            else:
                await self._keep(cause, ended)
        return busy

    async def _end(self, cause: Cause, trial: CauseTrial, operation_id: str) -> CauseTrial | None:
        """What a round came to; None while it goes on. A halted one is cancelled: nobody need look at it."""
        try:
            seen = await self._operations.show(operation_id)
        except NoOperation:
            return replace(trial, operation=None)
        operation = seen.operation
        if operation.state is OperationState.HALTED:
            operation = await self._operations.cancel(operation_id)
        if not operation.state.ended:
            return None
        if operation.state is OperationState.FINISHED and not seen.failed:
            return None if seen.outstanding else CauseTrial()
        failed = trial.failed + 1
        wait_ms = round(1000 * (self._cool_downs.of(cause[0]) or 0) * 2**failed)
        return CauseTrial(None, failed, self._store.now() + wait_ms)

    async def _begin(self, cause: Cause, ids: list[str]) -> None:
        record = await self._store.get_record(AUTOMATIC_RECORDS, _name(cause))
        trial = CauseTrial() if record is None else CauseTrial(**record.document)
        if trial.failed >= ROUNDS or self._store.now() < trial.not_before_at:
            return
        order = Order(
            OperationKind.REDRIVE,
            Selection(ids=tuple(ids)),
            rate=RATE,
            canary=CANARY,
            ramp=True,
            halt_share=0.0,
            halt_least=1,
        )
        started: Operation = await self._operations.start(order)
        await self._keep(cause, replace(trial, operation=started.id))

    async def _keep(self, cause: Cause, trial: CauseTrial) -> None:
        await self._store.put_record(
            AUTOMATIC_RECORDS, _name(cause), asdict(trial), expected=None, ttl_s=_KEEP_S
        )

    async def _causes(self) -> dict[Cause, list[str]]:
        """The letters that may come back, by cause, oldest first."""
        causes: dict[Cause, list[str]] = {}
        for asked in self._cool_downs.filters(self._index.now()):
            async for account in self._meant(asked):
                ids = causes.setdefault((account.message.queue, account.failures[-1].fingerprint), [])
                if len(ids) < _LETTERS:
                    ids.append(account.message.id)
        return causes

    async def _meant(self, asked: Filter) -> AsyncIterator[Account]:
        cursor = None
        for _ in range(_PAGES):
            page = await self._index.find(asked, after=cursor, limit=PAGE)
            for account in await self._accounts(page.letters):
                yield account
            cursor = page.cursor
            if cursor is None:
                return

    async def _accounts(self, letters: tuple[Found, ...]) -> list[Account]:
        found: list[Account] = []
        for queue in dict.fromkeys(one.queue for one in letters):
            ids = [one.id for one in letters if one.queue == queue]
            found += [one for one in await self._store.accounts(queue, ids) if _may_return(one)]
        return found


def _may_return(account: Account) -> bool:
    temporary = all(one.kind is FailureKind.TEMPORARY for one in account.failures)
    return account.reason is Reason.EXHAUSTED and bool(account.failures) and temporary


def _name(cause: Cause) -> str:
    return "/".join(cause)


def _cause(name: str) -> Cause:
    queue, _, fingerprint = name.partition("/")
    return queue, fingerprint
