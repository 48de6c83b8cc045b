"""One call of the store each, that may be cut off and is then asked again as the same call.

`prepare` makes something new to call about, `call` is the same each time it is asked, `check` looks at the
store afterwards, by a connection that nobody cuts, and leaves nothing waiting.
"""

from __future__ import annotations

from typing import Any, Protocol

from redrive.core.errors import VersionConflict
from redrive.core.lifecycle import Move, State
from redrive.core.message import Delivery, Entry, Lapse
from redrive.core.ports import Claim, Claimed, Receipt, Status
from redrive.core.store import Store
from redrive.core.verdict import Bury, Complete, Reason, RetryAt, Settlement, Verdict
from tests.conformance import makers

QUEUE = makers.QUEUE
LEASE_S = 600.0
ENDED_S = 0.001


class Trial(Protocol):
    """What is called, and what must be true afterwards."""

    async def prepare(self, store: Store) -> None: ...

    async def call(self, store: Store) -> Any: ...

    async def check(self, store: Store, answer: Any) -> None: ...


class Append:
    """The repeat of an append is accepted under its id, and there is one message."""

    entry: Entry
    number = 0

    async def prepare(self, store: Store) -> None:
        self.number += 1
        self.entry = makers.entry(store, dedupe=f"key-{self.number:06}", body=b"x" * 300)

    async def call(self, store: Store) -> list[Receipt]:
        return await makers.append(store, self.entry)

    async def check(self, store: Store, answer: list[Receipt]) -> None:
        assert answer == [Receipt(self.entry.message.id, State.WAITING, Status.ACCEPTED)]
        assert (await makers.counts(store)).pending == self.number


class Take:
    """The repeat of a claim answers with the same batch, and each attempt is counted once."""

    ids: list[str]
    token = ""

    async def prepare(self, store: Store) -> None:
        self.ids, self.token = await makers.submit(store, 3), makers.new_token()

    async def call(self, store: Store) -> Claimed:
        return await store.claim(Claim(QUEUE, self.token, 10, LEASE_S))

    async def check(self, store: Store, answer: Claimed) -> None:
        assert makers.ids_of(answer) == self.ids
        assert {one.progress.attempts for one in answer.deliveries} == {1}
        assert (await makers.counts(store)).processing == 3
        assert await makers.complete(store, *answer.deliveries) == set()


class Reclaim:
    """The repeat of a take-over answers with the same batch."""

    ids: list[str]
    token = ""

    async def prepare(self, store: Store) -> None:
        self.ids, self.token = await makers.submit(store, 2), makers.new_token()
        await makers.claim(store, lease_s=ENDED_S)
        store.skew_ms += 1_000

    async def call(self, store: Store) -> list[Delivery]:
        store.skew_ms += 1_000
        return await store.reclaim(QUEUE, self.token, LEASE_S * 1_000, 10)

    async def check(self, store: Store, answer: list[Delivery]) -> None:
        assert sorted(makers.ids_of(answer)) == sorted(self.ids)
        assert {one.lapse for one in answer} == {Lapse.LOST}
        assert await makers.complete(store, *answer) == set()


class Settle:
    """The repeat of a settle changes nothing more: one end, counted once, with one failure."""

    def __init__(self, verdict: type[Verdict]) -> None:
        self._verdict = verdict
        self._delivery: Delivery | None = None
        self.number = 0

    async def prepare(self, store: Store) -> None:
        self.number += 1
        await makers.submit(store)
        self._delivery = await makers.take_one(store)

    async def call(self, store: Store) -> set[str]:
        delivery = self._held()
        failure = makers.failure(delivery)
        verdict: Verdict = Complete()
        if self._verdict is RetryAt:
            verdict = RetryAt(makers.soon(store, makers.DAY_S), failure)
        elif self._verdict is Bury:
            verdict = Bury(Reason.PERMANENT, failure)
        return set(await store.settle([Settlement(delivery, verdict)]))

    async def check(self, store: Store, answer: set[str]) -> None:
        counts = await makers.counts(store)
        account = await makers.account(store, self._held().message.id)
        assert counts.processing == 0
        assert account.progress.attempts == 1
        if self._verdict is Complete:
            assert (account.state, counts.published) == (State.DONE, self.number)
        elif self._verdict is RetryAt:
            assert (account.state, counts.retry_scheduled) == (State.WAITING, self.number)
        else:
            assert (account.state, counts.dlq) == (State.DEAD, self.number)
        assert len(account.failures) == (0 if self._verdict is Complete else 1)

    def _held(self) -> Delivery:
        assert self._delivery is not None
        return self._delivery


class Redrive:
    """The repeat of a re-drive moves nothing more: one generation, counted once for its operation."""

    letter = ""
    number = 0

    async def prepare(self, store: Store) -> None:
        self.number += 1
        (self.letter,) = await makers.dead(store)

    async def call(self, store: Store) -> set[str]:
        letters = makers.keys([self.letter])
        return set(await store.redrive(QUEUE, letters, actor="test", operation="redrive-1"))

    async def check(self, store: Store, answer: set[str]) -> None:
        account = await makers.account(store, self.letter)
        assert (account.state, account.progress.generation) == (State.WAITING, 1)
        assert len(account.redrives) == 1
        assert (await store.tally("redrive-1")).moved == self.number
        assert await store.cancel(QUEUE, [self.letter], actor="test") == {self.letter}


class Discard:
    """The repeat of a discard moves nothing more."""

    letter = ""
    number = 0

    async def prepare(self, store: Store) -> None:
        self.number += 1
        (self.letter,) = await makers.dead(store)

    async def call(self, store: Store) -> set[str]:
        letters = makers.keys([self.letter])
        return set(await store.remove(QUEUE, letters, Move.DISCARD, actor="test", operation="discard-1"))

    async def check(self, store: Store, answer: set[str]) -> None:
        assert (await makers.account(store, self.letter)).state is State.REMOVED
        assert (await makers.counts(store)).dlq == 0
        assert (await store.tally("discard-1")).moved == self.number


class Write:
    """A record and a journal row that expect what is there are written once, whoever asks twice."""

    number = 0

    async def prepare(self, store: Store) -> None:
        self.number += 1

    async def call(self, store: Store) -> None:
        try:
            await store.put_record("note", "one", {"number": self.number}, expected=self.number - 1)
        except VersionConflict as conflict:
            if conflict.found != self.number:
                raise

    async def check(self, store: Store, answer: None) -> None:
        record = await store.get_record("note", "one")
        assert record is not None
        assert (record.version, record.document) == (self.number, {"number": self.number})


class Journal(Write):
    """The same for a row of a journal."""

    async def call(self, store: Store) -> None:
        try:
            await store.write_journal("audit", {"number": self.number}, expected_head=self.number - 1)
        except VersionConflict as conflict:
            if conflict.found != self.number:
                raise

    async def check(self, store: Store, answer: None) -> None:
        rows = await store.read_journal("audit", after=self.number - 1)
        assert [row.document for row in rows] == [{"number": self.number}]
