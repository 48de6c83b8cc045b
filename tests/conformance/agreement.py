"""Whether a store and the model agree on everything that can be seen."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from redrive.core.lanes import Lane
from redrive.core.letters import MessagePhase, OperationTally
from redrive.core.lifecycle import State
from redrive.core.store import Store
from tests.conformance.makers import account, letters, listed
from tests.conformance.model import SLACK_MS, Item, Model


async def check_agreement(store: Store, model: Model) -> None:
    checks = (_check_item(store, model, message_id, item) for message_id, item in model.items.items())
    await asyncio.gather(*checks)
    for queue in model.queues:
        dead = {letter.message.id for letter in await letters(store, queue)}
        assert dead == {item.entry.message.id for item in model.of(queue, State.DEAD)}
        await _check_lists(store, model, queue)
        await _check_lanes(store, model, queue)
    await _check_families(store, model)
    await _check_counts(store, model)
    await _check_tallies(store, model)


_PHASES = {
    State.WAITING: (MessagePhase.WAITING, MessagePhase.SCHEDULED),
    State.CLAIMED: (MessagePhase.RUNNING,),
    State.DONE: (MessagePhase.DONE,),
    State.REMOVED: (MessagePhase.REMOVED,),
}


async def _check_lists(store: Store, model: Model, queue: str) -> None:
    for state, phases in _PHASES.items():
        found = [one.id for phase in phases for one in await listed(store, phase, queue=queue)]
        expected = [item.entry.message.id for item in model.of(queue, state)]
        assert sorted(found) == sorted(expected), f"{state} messages of {queue} are listed otherwise"


async def _check_families(store: Store, model: Model) -> None:
    parents = {item.entry.message.parent for item in model.items.values()} - {None}
    for parent in sorted(map(str, parents)):
        found = [one.message.id for one in await store.family(parent)]
        assert found == [item.entry.message.id for item in model.children(parent)]


async def _check_item(store: Store, model: Model, message_id: str, item: Item) -> None:
    found = await account(store, message_id)
    assert found.state is item.state, f"{message_id} is {found.state}, not {item.state}"
    body = item.entry.message.body if model.keeps_body(message_id) else b""
    assert found.message.body == body, f"the body of {message_id} is {found.message.body!r}, not {body!r}"
    if item.state is State.REMOVED:
        return
    progress = found.progress
    assert (progress.attempts, progress.crashes, progress.generation) == (
        item.attempts,
        item.crashes,
        item.generation,
    )
    assert (found.lease_until_at is not None) == (item.state is State.CLAIMED)
    if item.state is State.WAITING:
        assert abs(progress.due_at - item.due_at) < SLACK_MS
        assert abs(progress.expires_at - item.expires_at) < SLACK_MS


async def _check_lanes(store: Store, model: Model, queue: str) -> None:
    found = {lane.tenant: lane for lane in await store.lanes(queue)}
    expected = {tenant for name, tenant in model.lanes if name == queue}
    assert set(found) == expected
    for tenant in expected:
        _check_lane(found[tenant], model)


def _check_lane(found: Lane, model: Model) -> None:
    lane = model.lanes[found.queue, found.tenant]
    assert (found.state, found.weight) == (lane.state, lane.weight)
    assert (found.cap, found.rate) == (lane.cap, lane.rate)
    assert (found.probe_at, found.held_reason) == (lane.probe_at, lane.held_reason)
    assert (found.served, found.done) == (lane.served, lane.done)
    states = [(State.WAITING, found.waiting), (State.CLAIMED, found.in_flight), (State.DEAD, found.dead)]
    for state, count in states:
        expected = sum(item.tenant == found.tenant for item in model.of(found.queue, state))
        assert count == expected, f"{found.tenant} has {expected} {state}, its lane says {count}"


async def _check_counts(store: Store, model: Model) -> None:
    found = await store.queues()
    expected = [model.counts(queue) for queue in sorted(model.queues)]
    for one, other in zip(found, expected, strict=True):
        assert replace(one, oldest_due_at=None) == replace(other, oldest_due_at=None)
        assert (one.oldest_due_at is None) == (other.oldest_due_at is None)
        assert abs((one.oldest_due_at or 0) - (other.oldest_due_at or 0)) < SLACK_MS


async def _check_tallies(store: Store, model: Model) -> None:
    for operation, counts in model.tallies.items():
        assert await store.tally(operation) == OperationTally(**counts)
