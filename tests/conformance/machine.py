"""The state machine: hypothesis chooses the moves, the store and the model make them, and both must agree.

Here are the rules for families and for what people switch; the others are in worker_rules, time_rules and
letter_rules. After
each step everything that can be seen of the store is compared with the model: states, attempts, crashes,
generations, bodies, families, lanes and counts.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from redrive.core.errors import InvalidMessage
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import Move, State
from redrive.core.limits import Rate
from tests.conformance.agreement import check_agreement
from tests.conformance.letter_rules import LetterRules, counts, strangers
from tests.conformance.makers import account, append, entry, keys
from tests.conformance.worker_rules import PERIOD_S, delays, lives, queues, tenants

rates = st.sampled_from([None, None, Rate(1, PERIOD_S), Rate(4, PERIOD_S)])
lane_states = st.sampled_from([None, LaneState.RUNNING, LaneState.RUNNING, LaneState.PAUSED, LaneState.HELD])


class StoreMachine(LetterRules):
    """Everyone at once on one store."""

    @rule(index=strangers, fit=st.booleans(), count=st.integers(1, 3), delay_s=delays, ttl_s=lives)
    def append_children(self, index: int, fit: bool, count: int, **fields: Any) -> None:
        """Children of a message in whatever state; one that has lost its body, or never was, refuses them."""
        fitting = [one for one in self._entries if self._model.keeps_body(one.message.id) is fit]
        parents = fitting or self._entries
        parent = parents[index % len(parents)].message
        made = [
            entry(self._store, queue=parent.queue, tenant=parent.tenant, parent=parent.id, **fields)
            for _ in range(count)
        ]
        if self._model.keeps_body(parent.id):
            self._append(made)
        else:
            with pytest.raises(InvalidMessage, match=parent.id):
                self._run(append(self._store, *made))

    @rule(queue=queues, count=counts, stranger=strangers, kept=st.booleans())
    def move_waiting(self, queue: str, count: int, stranger: int, kept: bool) -> None:
        """Move some that can be moved, and try one that perhaps cannot."""
        movable = [item.entry.message.id for item in self._model.of(queue, State.WAITING)]
        ids = [*movable[:count], self._stranger(stranger)]
        if kept:
            moved = self._run(self._store.run_now(queue, ids))
        else:
            moved = self._run(self._store.cancel(queue, ids, actor="ann"))
        items = self._model.move(queue, keys(ids), State.WAITING)
        assert moved == {item.entry.message.id for item in items}
        self.seen["run_now" if kept else "cancel"] += len(items)
        for item in items:
            if kept:
                item.due_at = min(item.due_at, self._model.now)
            else:
                self._model.remove(item, Move.CANCEL)

    @precondition(lambda self: len(self._model.items) > 40)
    @rule(queue=queues, tenant=st.one_of(st.none(), tenants))
    def purge_a_page(self, queue: str, tenant: str | None) -> None:
        waiting = {
            item.entry.message.id
            for item in self._model.of(queue, State.WAITING)
            if tenant in (None, item.tenant)
        }
        went = self._run(self._store.purge(queue, actor="ann", tenant=tenant, limit=2))
        assert went == min(2, len(waiting))
        for message_id in waiting:
            if self._run(account(self._store, message_id)).state is State.REMOVED:
                self._model.remove(self._model.items[message_id], Move.PURGE)

    @rule(queue=queues, tenant=tenants, state=lane_states, weight=st.integers(1, 3))
    def set_lane(self, queue: str, tenant: str, state: LaneState | None, weight: int) -> None:
        self._run(self._store.set_lane(queue, tenant, LaneChange(state=state, weight=weight)))
        lane = self._model.touch(queue, tenant)
        lane.weight = weight
        if state is not None:
            lane.switch(state)

    @rule(queue=queues, tenant=tenants, cap=st.sampled_from([0, 0, 1, 2, 4]))
    def set_cap(self, queue: str, tenant: str, cap: int) -> None:
        self._run(self._store.set_lane(queue, tenant, LaneChange(cap=cap)))
        self._model.touch(queue, tenant).cap = cap or None

    @rule(queue=queues, tenant=tenants, rate=rates)
    def set_rate(self, queue: str, tenant: str, rate: Rate | None) -> None:
        self._run(self._store.set_lane(queue, tenant, LaneChange(rate=rate, unlimited=rate is None)))
        self._model.touch(queue, tenant).rate = rate

    @rule(queue=queues, paused=st.sampled_from([True, False, False]))
    def set_queue(self, queue: str, paused: bool) -> None:
        state = LaneState.PAUSED if paused else LaneState.RUNNING
        self._run(self._store.set_queue(queue, state))
        self._model.queues[queue] = state

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "_store"):
            self._run(check_agreement(self._store, self._model))
