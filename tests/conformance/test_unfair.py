"""Claims without fairness: by due instant over all tenants and tracks; pauses, holds, caps and rates stay."""

from __future__ import annotations

from redrive.core.lanes import LaneChange, LaneState
from redrive.core.limits import Rate
from redrive.core.message import Delivery, Track
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    append,
    bury,
    claim,
    complete,
    crash,
    entry,
    hold,
    keys,
    retry,
    submit,
    take_one,
)

QUEUE = "orders"


async def take(store: Store, limit: int = 100, **fields: int) -> list[Delivery]:
    """One claim without turns."""
    return list((await claim(store, limit, fair=False, **fields)).deliveries)


async def take_all(store: Store, limit: int) -> list[Delivery]:
    taken: list[Delivery] = []
    while batch := await take(store, limit):
        taken += batch
    return taken


async def wait(store: Store, *waiting: tuple[str, float]) -> list[str]:
    """Messages of tenants, each due so many seconds ago; their ids."""
    entries = [entry(store, tenant=tenant, delay_s=-ago_s) for tenant, ago_s in waiting]
    await append(store, *entries)
    return [one.message.id for one in entries]


def ids(deliveries: list[Delivery]) -> list[str]:
    return [one.message.id for one in deliveries]


async def test_what_is_due_first_comes_first_whosever_it_is(store: Store) -> None:
    sent = await wait(
        store, *(("acme", 90 - number) for number in range(10)), ("bob", 85.5), ("bob", 60), ("carl", 95)
    )
    expected = [sent[12], *sent[:5], sent[10], *sent[5:10], sent[11]]
    for limit in (4, 100):
        taken = await take_all(store, limit)
        assert ids(taken) == expected
        assert [one.progress.attempts for one in taken] == [taken[0].progress.attempts] * 13
        await retry_in_place(store, taken)


async def retry_in_place(store: Store, taken: list[Delivery]) -> None:
    """Give back what was taken, due in the same order."""
    for number, one in enumerate(taken):
        await retry(store, one, delay_s=-60 + number)


async def test_tracks_do_not_take_turns_either(store: Store) -> None:
    entries = [
        entry(store, track=track, delay_s=-ago_s)
        for track, ago_s in ((Track.BULK, 50), (Track.BULK, 40), (Track.MAIN, 30), (Track.BULK, 20))
    ]
    await append(store, *entries)
    assert ids(await take(store)) == [one.message.id for one in entries]


async def test_a_later_message_waits_for_its_instant(bench: Bench, store: Store) -> None:
    (later,) = await submit(store, tenant="bob", delay_s=MINUTE_S)
    (now,) = await submit(store, tenant="acme")
    claimed = await claim(store, fair=False)
    assert ids(list(claimed.deliveries)) == [now]
    assert claimed.next_at is not None
    assert claimed.next_at > store.now()
    assert await take(store) == []
    bench.advance(2 * MINUTE_S)
    assert ids(await take(store)) == [later]


async def test_when_nothing_is_left_a_claim_says_so(store: Store) -> None:
    await wait(store, ("acme", 10), ("bob", 20))
    await complete(store, *await take(store))
    assert await claim(store, fair=False) == await claim(store)
    assert (await claim(store, fair=False)).next_at is None


async def test_a_paused_tenant_is_passed_over_and_comes_back(store: Store) -> None:
    paused, other = await wait(store, ("acme", 50), ("bob", 10))
    await store.set_lane(QUEUE, "acme", LaneChange(state=LaneState.PAUSED))
    assert ids(await take(store)) == [other]
    await store.set_lane(QUEUE, "acme", LaneChange(state=LaneState.RUNNING))
    assert ids(await take(store)) == [paused]


async def test_caps_and_rates_of_tenants_hold(bench: Bench, store: Store) -> None:
    sent = await wait(store, ("acme", 50), ("acme", 40), ("bob", 30), ("bob", 20), ("carl", 10))
    await store.set_lane(QUEUE, "acme", LaneChange(cap=1))
    await store.set_lane(QUEUE, "bob", LaneChange(rate=Rate(1, 60.0)))
    first = await take(store)
    assert ids(first) == [sent[0], sent[2], sent[4]]
    assert await take(store) == []
    await complete(store, first[0])
    assert ids(await take(store)) == [sent[1]]
    bench.advance(2 * MINUTE_S)
    assert ids(await take(store)) == [sent[3]]


async def test_a_held_tenant_sends_one_probe(bench: Bench, store: Store) -> None:
    sent = await wait(store, ("acme", 50), ("acme", 40), ("acme", 30), ("bob", 10))
    await hold(store, *await take(store, 1))
    assert ids(await take(store)) == [sent[3]]
    bench.advance(2 * MINUTE_S)
    (probe,) = await take(store)
    assert probe.probe
    await complete(store, probe)
    assert len(await take(store)) == 2


async def test_suspects_are_left_and_claimed_alone(store: Store) -> None:
    suspect, other = await wait(store, ("acme", 50), ("bob", 10))
    await crash(store, *await take(store, 1))
    claimed = await claim(store, fair=False)
    assert ids(list(claimed.deliveries)) == [other]
    assert claimed.suspects
    assert (await take_one(store, alone=True)).message.id == suspect


async def test_a_batch_ends_at_its_bytes_and_the_same_token_answers_the_same(store: Store) -> None:
    entries = [entry(store, tenant=tenant, body=b"x" * 400, delay_s=-5) for tenant in ("acme", "bob", "carl")]
    await append(store, *entries)
    first = await claim(store, token="t", max_bytes=900, fair=False)  # noqa: S106 - a claim's token
    assert len(first.deliveries) == 2
    again = await claim(store, token="t", max_bytes=900, fair=False)  # noqa: S106
    assert again.deliveries == first.deliveries
    assert len(await take(store)) == 1


async def test_many_tenants_are_served_by_due_instant_and_turns_go_on_when_fairness_is_back(
    store: Store,
) -> None:
    sent = await wait(store, *((f"t{number % 150:03}", 1_000 - number) for number in range(450)))
    taken = await take_all(store, 40)
    assert ids(taken) == sent
    await complete(store, *taken)
    await wait(store, *(("acme", 90 - number) for number in range(9)), ("bob", 1))
    half = await take(store, 4)
    assert {one.message.tenant for one in half} == {"acme"}
    rest = list((await claim(store)).deliveries)
    assert "bob" in [one.message.tenant for one in rest[:4]]
    assert len(rest) == 6


async def test_what_is_brought_back_waits_behind_what_was_due_before(store: Store) -> None:
    (letter,) = await submit(store)
    await bury(store, await take_one(store))
    (older,) = await wait(store, ("bob", 30))
    await store.redrive(QUEUE, keys([letter]), actor="ann")
    assert ids(await take(store)) == [older, letter]
    (lane,) = [one for one in await store.lanes(QUEUE) if one.tenant == "bob"]
    assert (lane.served, lane.in_flight, lane.waiting, lane.rounds_waited) == (1, 1, 0, 0)
