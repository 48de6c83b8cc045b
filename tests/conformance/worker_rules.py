"""The machine's rules for submitters and workers: append, claim, settle.

Rules are synchronous; the store runs on a private event loop. Rules are weighted towards work that moves:
most claims are settled in the same step, and leases are lost on purpose, because a machine that mostly
claims from paused or empty queues proves nothing. `seen` counts what happened; test_state_machine reads it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from redrive.core.failure import Kind
from redrive.core.message import Delivery, Entry, Track
from redrive.core.ports import Status
from redrive.core.settings import FinishedSettings
from redrive.core.store import Store
from redrive.core.verdict import (
    Bury,
    Complete,
    HoldLane,
    Reason,
    Release,
    RetryAt,
    Settlement,
    Verdict,
)
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    append,
    claim,
    entry,
    failure,
    ids_of,
    new_token,
    soon,
    tenants_of,
)
from tests.conformance.model import Model
from tests.conformance.turns import check_turns

T = TypeVar("T")

# Steps of the clock are multiples of STEP_S; whatever ends or becomes due lies AWAY_S past such a step.
STEP_S = 100
AWAY_S = 30
LEASE_S = float(STEP_S + AWAY_S)
DEDUPE_S = float(5 * STEP_S + AWAY_S)
PERIOD_S = float(STEP_S + AWAY_S)

queues = st.sampled_from(["orders", "mail:send"])
tenants = st.sampled_from(["a", "b", "c"])
delays = st.sampled_from([0, 0, 0, AWAY_S, 2 * STEP_S + AWAY_S])
LONG_S, SHORT_S = float(100_000 * STEP_S + AWAY_S), float(3 * STEP_S + AWAY_S)
lives = st.sampled_from([LONG_S, LONG_S, SHORT_S])
picks = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)
changes = st.sampled_from(
    [{"tenant": "c"}, {"body": b"2"}, {"headers": {"to": "ann"}}, {"track": Track.BULK}, {"dedupe": "k1"}]
)
VERDICTS = ("complete", "retry", "retry later", "release", "release later", "crash", "bury", "bury", "hold")


def spread(seed: bytes) -> list[str]:
    """Sixty-four verdicts, all as likely: hypothesis by itself favours the first of a list."""
    return [VERDICTS[byte % len(VERDICTS)] for byte in blake2b(seed).digest()]


seeds = st.binary(min_size=2, max_size=2).map(spread)


class WorkerRules(RuleBasedStateMachine):
    """One example: a fresh store, a fresh model."""

    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self, make_bench: Callable[[], Bench]) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._bench = make_bench()
        self._deliveries: list[Delivery] = []
        self._entries: list[Entry] = []
        self._model = Model(round(DEDUPE_S * 1000))

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        self._model.now = self._store.now()
        return self._runner.run(step)

    def _open(self) -> None:
        """A store in which something of everything has happened."""
        finished = FinishedSettings(dedupe_s=DEDUPE_S)
        self._store: Store = self._runner.run(self._bench.open_store(finished))
        for queue in ("orders", "mail:send"):
            made = [entry(self._store, queue=queue, tenant=tenant) for tenant in "aaaaabbc"]
            brief = [entry(self._store, queue=queue, tenant=tenant, ttl_s=SHORT_S) for tenant in "ab"]
            self._append(made + brief)
            self._claim(queue, 5)
            kinds = ("bury", "bury", "bury", "complete", "retry later")
            self._settle(list(zip(self._deliveries[-5:], kinds, strict=True)))
            self._claim(queue, 1)
            self._settle([(self._deliveries[-1], "crash")])
            dead = made[0].message
            self._append([entry(self._store, queue=queue, tenant="c", parent=dead.id) for _ in range(2)])
            self._claim(queue, 1)
            self._settle([(self._deliveries[-1], "hold")])

    def teardown(self) -> None:
        self._runner.run(self._bench.close())
        self._runner.close()

    @rule(
        queue=queues,
        tenant=tenants,
        track=st.sampled_from([Track.MAIN, Track.BULK]),
        delay_s=delays,
        ttl_s=lives,
        dedupe=st.sampled_from([None, None, None, "k1", "k2"]),
        body=st.sampled_from([b"1", b"2"]),
        count=st.integers(1, 5),
    )
    def append(self, queue: str, tenant: str, dedupe: str | None, count: int, **fields: Any) -> None:
        if dedupe is not None:
            count = 1
        made = [entry(self._store, queue=queue, tenant=tenant, dedupe=dedupe, **fields) for _ in range(count)]
        self._append(made)

    def _append(self, made: list[Entry]) -> None:
        self._entries += made
        receipts = self._run(append(self._store, *made))
        assert receipts == [self._model.append(one) for one in made]

    @precondition(lambda self: self._entries)
    @rule(indexes=picks, queue=queues, change=changes)
    def repeat_append(self, indexes: list[int], queue: str, change: dict[str, Any]) -> None:
        """Repeats, and another message under the id of one in whatever state."""
        chosen = [self._entries[index % len(self._entries)] for index in indexes]
        again = [one for one in chosen if one.message.queue == queue]
        receipts = self._run(append(self._store, *again))
        assert receipts == [self._model.append(one) for one in again]
        self._reuse_ids([one for one in again if one.message.id in self._model.items], change)

    def _reuse_ids(self, entries: list[Entry], change: dict[str, Any]) -> None:
        others = [replace(one, message=replace(one.message, **change)) for one in entries]
        receipts = self._run(append(self._store, *others))
        assert receipts == [self._model.append(one) for one in others]
        self.seen["id reused"] += sum(one.status is Status.CONFLICT for one in receipts)

    @rule(queue=queues, limit=st.integers(1, 12))
    def claim(self, queue: str, limit: int) -> None:
        self._claim(queue, limit)

    @rule(queue=queues, limit=st.integers(1, 12))
    def drain(self, queue: str, limit: int) -> None:
        while self._claim(queue, limit):
            pass
        left = [item for item in self._model.runnable(queue) if not self._model.passed(item.expires_at)]
        assert left == [], "a drained queue still has due work"

    @rule(queue=queues, limit=st.integers(1, 12), kinds=seeds, settled=st.integers(1, 12))
    def work(self, queue: str, limit: int, kinds: list[str], settled: int) -> None:
        """Claim a batch and settle it, or its first part."""
        batch = self._deliveries[-count:] if (count := self._claim(queue, limit)) else []
        self._settle(list(zip(batch[:settled], kinds, strict=False)))

    @rule(queue=queues, kinds=seeds)
    def work_to_one_end(self, queue: str, kinds: list[str]) -> None:
        """A whole batch comes to the same end: many dead letters, or many suspects."""
        batch = self._deliveries[-count:] if (count := self._claim(queue, 12)) else []
        self._settle([(delivery, kinds[0]) for delivery in batch])
        self.claim_suspect(queue)

    def _claim(self, queue: str, limit: int) -> int:
        token = new_token()
        claimed = self._run(claim(self._store, limit, queue=queue, token=token, lease_s=LEASE_S))
        runnable = self._model.runnable(queue)
        suspects = {bool(self._model.runnable(queue, suspects=True))}
        batch = claimed.deliveries
        assert len(batch) <= limit
        assert set(ids_of(batch)) <= {item.entry.message.id for item in runnable}
        alive = [item for item in runnable if not self._model.passed(item.expires_at)]
        assert batch or not alive, "due work was not handed out"
        if alive == runnable:
            self._check_turns(queue, tenants_of(batch))
        self._take(list(batch), token)
        # The batch may fill a lane's cap: a store may look at its suspects before or after that.
        assert claimed.suspects in suspects | {bool(self._model.runnable(queue, suspects=True))}
        return len(batch)

    def _check_turns(self, queue: str, order: list[str]) -> None:
        due = Counter(item.tenant for item in self._model.runnable(queue))
        ready = {tenant: min(count, self._model.room(queue, tenant)) for tenant, count in due.items()}
        check_turns(order, ready, {tenant: self._model.lanes[queue, tenant].weight for tenant in ready})

    def _take(self, batch: list[Delivery], token: str) -> None:
        for delivery in batch:
            assert delivery.lease.token == token
            held = self._model.lanes[delivery.message.queue, delivery.message.tenant].probe_at is not None
            assert delivery.probe is held
            self.seen["probes"] += held
            self._check_parent(delivery)
            self._model.hand_out(delivery.message.id, token, delivery.lease.until_at)
            item = self._model.items[delivery.message.id]
            assert delivery.message == item.entry.message
            assert delivery.progress.attempts == item.attempts
        self._deliveries += batch
        self.seen["handed out"] += len(batch)

    def _check_parent(self, delivery: Delivery) -> None:
        parent = delivery.message.parent
        body = None if parent is None else self._model.items[parent].entry.message.body
        assert (delivery.parent_body, delivery.unreadable) == (body, None)
        self.seen["children"] += parent is not None

    @rule(queue=queues)
    def claim_suspect(self, queue: str) -> None:
        token = new_token()
        claimed = self._run(claim(self._store, 5, queue=queue, token=token, lease_s=LEASE_S, alone=True))
        suspects = self._model.runnable(queue, suspects=True)
        assert set(ids_of(claimed)) <= {item.entry.message.id for item in suspects}
        assert len(claimed.deliveries) == min(1, len(suspects))
        self.seen["suspects"] += len(claimed.deliveries)
        self._take(list(claimed.deliveries), token)

    @precondition(lambda self: self._deliveries)
    @rule(index=st.integers(0, 10_000))
    def repeat_claim(self, index: int) -> None:
        lease = self._deliveries[index % len(self._deliveries)].lease
        held = self._model.held_by(lease.token)
        if held:
            again = self._run(claim(self._store, queue=lease.queue, token=lease.token, lease_s=LEASE_S))
            assert set(ids_of(again)) == held

    @precondition(lambda self: self._deliveries)
    @rule(indexes=picks, kinds=seeds)
    def settle(self, indexes: list[int], kinds: list[str]) -> None:
        """Settle some deliveries, of which any may be stale by now."""
        chosen = {-1 - index % len(self._deliveries) for index in indexes}
        late = [self._deliveries[index] for index in sorted(chosen)]
        self._settle(list(zip(late, kinds, strict=False)))

    def _settle(self, chosen: list[tuple[Delivery, str]]) -> None:
        settlements = [Settlement(one, self._verdict(one, kind)) for one, kind in chosen]
        refused = self._run(self._store.settle(settlements))
        holds_last = sorted(settlements, key=lambda one: isinstance(one.verdict, HoldLane))
        accepted = {one.delivery.message.id for one in holds_last if self._apply(one)}
        assert refused == {one.delivery.message.id for one in settlements} - accepted or self._shared(chosen)

    def _apply(self, settlement: Settlement) -> bool:
        delivery, verdict = settlement.delivery, settlement.verdict
        item = self._model.items[delivery.message.id]
        taken_over = item.token not in (None, delivery.lease.token)
        applied = self._model.settle(delivery.message.id, delivery.lease.token, verdict)
        self.seen[type(verdict).__name__ if applied else "stale"] += 1
        self.seen["overtaken"] += taken_over
        return applied

    def _shared(self, chosen: list[tuple[Delivery, str]]) -> bool:
        """Two deliveries of one message in one call: the answer names the id for the stale one."""
        return len({one.message.id for one, _ in chosen}) < len(chosen)

    def _verdict(self, delivery: Delivery, kind: str) -> Verdict:
        item = self._model.items[delivery.message.id]
        if not item.counted:
            return Bury(Reason.EXPIRED, failure(delivery, kind=Kind.EXPIRED))
        later = AWAY_S if kind.endswith("later") else 0
        match kind.split()[0]:
            case "complete":
                return Complete()
            case "retry":
                return RetryAt(soon(self._store, later), failure(delivery))
            case "release":
                return Release(soon(self._store, later))
            case "hold":
                return HoldLane(soon(self._store, AWAY_S), "wrong password")
            case "crash":
                return Release(soon(self._store), failure(delivery, kind=Kind.LOST))
        return Bury(Reason.PERMANENT, failure(delivery, kind=Kind.PERMANENT))
