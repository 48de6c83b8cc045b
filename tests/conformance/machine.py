"""The state machine: hypothesis chooses the moves, the store and the model make them, and both must agree.

Here are the rules for families and for what people do; the others are in worker_rules and time_rules. After
each step everything that can be seen of the store is compared with the model: states (I1), attempts, crashes,
generations, bodies, families, lanes and counts.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from redrive.core.errors import InvalidMessage
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import State
from tests.conformance.agreement import check_agreement
from tests.conformance.makers import account, append, entry
from tests.conformance.time_rules import TimeRules
from tests.conformance.worker_rules import delays, lives, queues, tenants

counts, strangers = st.integers(1, 6), st.integers(0, 10_000)
lane_states = st.sampled_from([None, LaneState.RUNNING, LaneState.RUNNING, LaneState.PAUSED, LaneState.HELD])


class StoreMachine(TimeRules):
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
    def move_dead(self, queue: str, count: int, stranger: int, kept: bool) -> None:
        self._move(queue, count, stranger, "redrive" if kept else "discard")

    @rule(queue=queues, count=counts, stranger=strangers, kept=st.booleans())
    def move_waiting(self, queue: str, count: int, stranger: int, kept: bool) -> None:
        self._move(queue, count, stranger, "run_now" if kept else "cancel")

    def _move(self, queue: str, count: int, stranger: int, verb: str) -> None:
        """Move some that can be moved, and try one that perhaps cannot."""
        before = State.DEAD if verb in ("redrive", "discard") else State.WAITING
        movable = [item.entry.message.id for item in self._model.of(queue, before)]
        known = list(self._model.items)
        ids = [*movable[:count], known[stranger % len(known)]]
        moved = self._run(self._call_move(verb, queue, ids))
        items = self._model.move(queue, ids, before)
        assert moved == {item.entry.message.id for item in items}
        self.seen[verb] += len(items)
        for item in items:
            if verb == "redrive":
                self._model.redrive(item)
            elif verb == "run_now":
                item.due_at = min(item.due_at, self._model.now)
            else:
                self._model.remove(item, discarded=verb == "discard")

    async def _call_move(self, verb: str, queue: str, ids: list[str]) -> object:
        if verb == "run_now":
            return await self._store.run_now(queue, ids)
        return await getattr(self._store, verb)(queue, ids, actor="ann")

    @precondition(lambda self: len(self._model.items) > 40)
    @rule(queue=queues)
    def purge_a_page(self, queue: str) -> None:
        waiting = {item.entry.message.id for item in self._model.of(queue, State.WAITING)}
        went = self._run(self._store.purge(queue, actor="ann", limit=2))
        assert went == min(2, len(waiting))
        for message_id in waiting:
            if self._run(account(self._store, message_id)).state is State.REMOVED:
                self._model.remove(self._model.items[message_id])

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

    @rule(queue=queues, paused=st.sampled_from([True, False, False]))
    def set_queue(self, queue: str, paused: bool) -> None:
        state = LaneState.PAUSED if paused else LaneState.RUNNING
        self._run(self._store.set_queue(queue, state))
        self._model.queues[queue] = state

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "_store"):
            self._run(check_agreement(self._store, self._model))
