"""The state machine: hypothesis chooses the moves, the store and the model make them, and both must agree.

Rules are synchronous; the store runs on a private event loop. After each step everything that can be seen
of the store is compared with the model: states (I1), attempts, crashes, generations, lanes and counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from redrive.core.failure import Kind
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Entry, Lapse, Track
from redrive.core.ports import Store
from redrive.core.retry import RetryPolicy
from redrive.core.settings import FinishedSettings
from redrive.core.verdict import Bury, Complete, Failed, Reason, Release, RetryAt, Settlement, Verdict, decide
from tests.conformance.agreement import check_agreement
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    account,
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

queues = st.sampled_from(["orders", "mail:send"])
tenants = st.sampled_from(["a", "b", "c"])
delays = st.sampled_from([0, 0, 0, AWAY_S, 2 * STEP_S + AWAY_S])
lives = st.sampled_from([100_000 * STEP_S + AWAY_S, 100_000 * STEP_S + AWAY_S, 3 * STEP_S + AWAY_S])
picks = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)
verdicts = st.sampled_from(["complete", "retry", "retry later", "release", "release later", "crash", "bury"])


class StoreMachine(RuleBasedStateMachine):
    """One example: a fresh store, a fresh model."""

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

    @initialize()
    def open(self) -> None:
        finished = FinishedSettings(dedupe_s=DEDUPE_S)
        self._store: Store = self._runner.run(self._bench.open_store(finished))

    def teardown(self) -> None:
        self._runner.run(self._bench.close())
        self._runner.close()

    def _pick_ids(self, indexes: list[int]) -> list[str]:
        ids = list(self._model.items)
        return [ids[index % len(ids)] for index in indexes]

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
        self._entries += made
        receipts = self._run(append(self._store, *made))
        assert receipts == [self._model.append(one) for one in made]

    @precondition(lambda self: self._entries)
    @rule(indexes=picks, queue=queues)
    def repeat_append(self, indexes: list[int], queue: str) -> None:
        chosen = [self._entries[index % len(self._entries)] for index in indexes]
        again = [one for one in chosen if one.message.queue == queue]
        receipts = self._run(append(self._store, *again))
        assert receipts == [self._model.append(one) for one in again]

    @rule(queue=queues, limit=st.integers(1, 12))
    def claim(self, queue: str, limit: int) -> None:
        self._claim(queue, limit)

    @rule(queue=queues, limit=st.integers(1, 12))
    def drain(self, queue: str, limit: int) -> None:
        while self._claim(queue, limit):
            pass
        left = [item for item in self._model.runnable(queue) if not self._model.passed(item.expires_at)]
        assert left == [], "a drained queue still has due work"

    def _claim(self, queue: str, limit: int) -> int:
        token = new_token()
        claimed = self._run(claim(self._store, limit, queue=queue, token=token, lease_s=LEASE_S))
        runnable = self._model.runnable(queue)
        waiting_suspects = self._model.runnable(queue, suspects=True)
        batch = claimed.deliveries
        assert len(batch) <= limit
        assert set(ids_of(batch)) <= {item.entry.message.id for item in runnable}
        alive = [item for item in runnable if not self._model.passed(item.expires_at)]
        assert batch or not alive, "due work was not handed out"
        assert claimed.suspects == bool(waiting_suspects)
        if alive == runnable:
            self._check_turns(queue, tenants_of(batch))
        self._take(list(batch), token)
        return len(batch)

    def _check_turns(self, queue: str, order: list[str]) -> None:
        due = Counter(item.tenant for item in self._model.runnable(queue))
        ready = {tenant: min(count, self._model.room(queue, tenant)) for tenant, count in due.items()}
        check_turns(order, ready, {tenant: self._model.lanes[queue, tenant].weight for tenant in ready})

    def _take(self, batch: list[Delivery], token: str) -> None:
        for delivery in batch:
            assert delivery.lease.token == token
            self._model.hand_out(delivery.message.id, token, delivery.lease.until_at)
            item = self._model.items[delivery.message.id]
            assert delivery.message == item.entry.message
            assert delivery.progress.attempts == item.attempts
        self._deliveries += batch

    @rule(queue=queues)
    def claim_suspect(self, queue: str) -> None:
        token = new_token()
        claimed = self._run(claim(self._store, 5, queue=queue, token=token, lease_s=LEASE_S, alone=True))
        suspects = self._model.runnable(queue, suspects=True)
        assert set(ids_of(claimed)) <= {item.entry.message.id for item in suspects}
        assert len(claimed.deliveries) == min(1, len(suspects))
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
    @rule(indexes=picks, kind=verdicts)
    def settle(self, indexes: list[int], kind: str) -> None:
        """Settle some deliveries, of which any may be stale by now."""
        chosen = {index % len(self._deliveries) for index in indexes}
        self._settle([(self._deliveries[index], kind) for index in sorted(chosen)])

    def _settle(self, chosen: list[tuple[Delivery, str]]) -> None:
        settlements = [Settlement(one, self._verdict(one, kind)) for one, kind in chosen]
        refused = self._run(self._store.settle(settlements))
        accepted = {one.delivery.message.id for one in settlements if self._apply(one)}
        assert refused == {one.delivery.message.id for one in settlements} - accepted or self._shared(chosen)

    def _apply(self, settlement: Settlement) -> bool:
        delivery = settlement.delivery
        return self._model.settle(delivery.message.id, delivery.lease.token, settlement.verdict)

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
            case "crash":
                return Release(soon(self._store), failure(delivery, kind=Kind.LOST))
        return Bury(Reason.PERMANENT, failure(delivery, kind=Kind.PERMANENT))

    @precondition(lambda self: self._deliveries)
    @rule(indexes=picks)
    def extend(self, indexes: list[int]) -> None:
        leases = {self._deliveries[index % len(self._deliveries)].lease for index in indexes}
        gone = self._run(self._store.extend(sorted(leases, key=lambda one: one.token), LEASE_S))
        assert gone == {one.token for one in leases if not self._model.held_by(one.token)}
        for lease in leases:
            for message_id in self._model.held_by(lease.token):
                self._model.items[message_id].until_at = self._model.now + round(LEASE_S * 1000)

    @rule(steps=st.integers(1, 4))
    def advance(self, steps: int) -> None:
        self._bench.advance(steps * STEP_S)

    @rule(queue=queues, decided=st.booleans())
    def reclaim(self, queue: str, decided: bool) -> None:
        """Take over what lapsed; then decide and settle, unless this process is lost as well."""
        token = new_token()
        taken = self._run(self._store.reclaim(queue, token, LEASE_S, 500))
        assert {one.message.id: one.lapse for one in taken} == self._model.lapsed(queue)
        for delivery in taken:
            self._model.take_over(delivery.message.id, token, delivery.lease.until_at)
        self._deliveries += taken
        if decided and taken:
            settlements = [Settlement(one, self._judge(one)) for one in taken]
            assert self._run(self._store.settle(settlements)) == set()
            applied = [self._apply(one) for one in settlements]
            assert all(applied)

    def _judge(self, delivery: Delivery) -> Verdict:
        lost = delivery.lapse is Lapse.LOST and self._model.items[delivery.message.id].counted
        outcome = Failed(failure(delivery, kind=Kind.LOST if lost else Kind.EXPIRED))
        return decide(outcome, delivery.progress, RetryPolicy(), now=soon(self._store), jitter=0.5)

    @precondition(lambda self: self._model.items)
    @rule(queue=queues, indexes=picks, verb=st.sampled_from(["redrive", "discard", "cancel", "run_now"]))
    def move(self, queue: str, indexes: list[int], verb: str) -> None:
        ids = self._pick_ids(indexes)
        before = State.DEAD if verb in ("redrive", "discard") else State.WAITING
        moved = self._run(self._call_move(verb, queue, ids))
        items = self._model.move(queue, ids, before)
        assert moved == {item.entry.message.id for item in items}
        for item in items:
            if verb == "redrive":
                self._model.redrive(item)
            elif verb == "run_now":
                item.due_at = min(item.due_at, self._model.now)
            else:
                self._model.remove(item)

    async def _call_move(self, verb: str, queue: str, ids: list[str]) -> object:
        if verb == "run_now":
            return await self._store.run_now(queue, ids)
        return await getattr(self._store, verb)(queue, ids, actor="ann")

    @rule(queue=queues)
    def purge_a_page(self, queue: str) -> None:
        waiting = {item.entry.message.id for item in self._model.of(queue, State.WAITING)}
        went = self._run(self._store.purge(queue, actor="ann", limit=2))
        assert went == min(2, len(waiting))
        for message_id in waiting:
            if self._run(account(self._store, message_id)).state is State.REMOVED:
                self._model.remove(self._model.items[message_id])

    @rule(queue=queues, tenant=tenants, state=st.sampled_from([None, *LaneState]), weight=st.integers(1, 3))
    def set_lane(self, queue: str, tenant: str, state: LaneState | None, weight: int) -> None:
        self._run(self._store.set_lane(queue, tenant, LaneChange(state=state, weight=weight)))
        lane = self._model.touch(queue, tenant)
        lane.state, lane.weight = state or lane.state, weight

    @rule(queue=queues, tenant=tenants, cap=st.sampled_from([0, 0, 1, 2, 4]))
    def set_cap(self, queue: str, tenant: str, cap: int) -> None:
        self._run(self._store.set_lane(queue, tenant, LaneChange(cap=cap)))
        self._model.touch(queue, tenant).cap = cap or None

    @rule(queue=queues, paused=st.booleans())
    def set_queue(self, queue: str, paused: bool) -> None:
        state = LaneState.PAUSED if paused else LaneState.RUNNING
        self._run(self._store.set_queue(queue, state))
        self._model.queues[queue] = state

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "_store"):
            self._run(check_agreement(self._store, self._model))
