"""Automatic re-drive: temporary failures alone, after a cool-down, a few first; a bad sign stops it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import pytest

from redrive.core.failure import Kind
from redrive.core.message import Delivery
from redrive.core.settings import OfficeSettings
from redrive.core.store import Store
from redrive.core.verdict import Bury, Reason, RetryAt, Settlement
from redrive.office.automatic import ACTOR, CANARY, ROUNDS, Automatic, CoolDowns
from redrive.office.duties import Duties
from redrive.office.operations import OperationState
from tests.conformance.backends import Bench
from tests.conformance.makers import QUEUE, complete, counts, drain, failure, keys, letters, soon, submit
from tests.office.desks import desk, make_office

COOL_DOWN_S = 60.0
SETTINGS = OfficeSettings(automatic_s=COOL_DOWN_S)

Works = Callable[[], Awaitable[None]]


async def _die(
    store: Store, count: int, *, kind: Kind = Kind.TEMPORARY, first: Kind | None = None, queue: str = QUEUE
) -> None:
    """So many letters whose last failure is of a kind, and their first one of another where one is given."""
    await submit(store, count, queue=queue)
    if first is not None:
        taken = await drain(store)
        await store.settle([Settlement(one, RetryAt(soon(store), failure(one, kind=first))) for one in taken])
    await _fail(store, await drain(store, queue=queue), kind)


async def _fail(store: Store, deliveries: list[Delivery], kind: Kind = Kind.TEMPORARY) -> None:
    reasons = {Kind.TEMPORARY: Reason.EXHAUSTED, Kind.PERMANENT: Reason.PERMANENT}
    reason = reasons.get(kind, Reason.UNCERTAIN)
    await store.settle([Settlement(one, Bury(reason, failure(one, kind=kind))) for one in deliveries])


def _automatic(store: Store) -> Automatic:
    return Automatic(make_office(store, settings=SETTINGS), CoolDowns(COOL_DOWN_S))


async def _turn(store: Store, automatic: Automatic, bench: Bench, steps: int = 4) -> None:
    """What the duties of a process do within some seconds."""
    office = desk(store)
    for _ in range(steps):
        await automatic.step()
        for _ in range(3):
            await office.conductor.conduct()
            bench.advance(1)
    await office.conductor.release()


async def test_letters_come_back_after_the_cool_down_a_few_first(store: Store, bench: Bench) -> None:
    await _die(store, 40)
    automatic = _automatic(store)
    await _turn(store, automatic, bench)
    assert (await counts(store)).dlq == 40
    bench.advance(COOL_DOWN_S)
    await _turn(store, automatic, bench)
    assert (await counts(store)).pending == CANARY
    for _ in range(40):
        await complete(store, *await drain(store))
        await _turn(store, automatic, bench, steps=1)
    assert (await counts(store)).published == 40
    (seen,) = (await desk(store).list()).found
    operation = seen.operation
    assert (operation.actor, operation.state) == (ACTOR.name, OperationState.FINISHED)


async def test_the_first_bad_sign_stops_a_round_and_after_three_people_decide(
    store: Store, bench: Bench
) -> None:
    await _die(store, 20)
    automatic = _automatic(store)
    moved = []
    for number in range(ROUNDS + 2):
        bench.advance(COOL_DOWN_S * 2 ** (number + 1))
        await _turn(store, automatic, bench)
        taken = await drain(store)
        moved.append(len(taken))
        await _fail(store, taken)
        await _turn(store, automatic, bench)
    assert moved == [CANARY] * ROUNDS + [0, 0]
    assert (await counts(store)).dlq == 20
    assert {one.operation.state for one in (await desk(store).list()).found} == {OperationState.CANCELLED}


async def test_a_round_that_failed_waits_longer_than_the_cool_down(store: Store, bench: Bench) -> None:
    await _die(store, 5)
    automatic = _automatic(store)
    bench.advance(COOL_DOWN_S + 1)
    await _turn(store, automatic, bench)
    await _fail(store, await drain(store))
    await _turn(store, automatic, bench)
    bench.advance(COOL_DOWN_S)
    await _turn(store, automatic, bench)
    assert (await counts(store)).pending == 0
    bench.advance(COOL_DOWN_S)
    await _turn(store, automatic, bench)
    assert (await counts(store)).pending == CANARY


async def test_a_letter_that_people_brought_back_in_vain_cools_down_anew(store: Store, bench: Bench) -> None:
    await _die(store, 1)
    (letter,) = await letters(store)
    bench.advance(COOL_DOWN_S * 5)
    await store.redrive(QUEUE, keys([letter.message.id]), actor="ann")
    await _fail(store, await drain(store))
    await _turn(store, _automatic(store), bench, steps=1)
    assert (await counts(store)).dlq == 1
    bench.advance(COOL_DOWN_S)
    await _turn(store, _automatic(store), bench)
    assert (await counts(store)).pending == 1


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (Kind.PERMANENT, None),
        (Kind.UNCERTAIN, None),
        (Kind.TEMPORARY, Kind.UNCERTAIN),
    ],
)
async def test_permanent_and_uncertain_failures_never_come_back_by_themselves(
    store: Store, bench: Bench, kind: Kind, first: Kind | None
) -> None:
    await _die(store, 5, kind=kind, first=first)
    bench.advance(COOL_DOWN_S * 10)
    await _turn(store, _automatic(store), bench)
    assert (await counts(store)).dlq == 5


async def test_it_is_off_unless_a_cool_down_is_set(store: Store) -> None:
    def duties(settings: OfficeSettings, own: Mapping[str, float | None] = MappingProxyType({})) -> Duties:
        return Duties(make_office(store, settings=settings), cool_downs=own)

    assert "automatic" not in duties(OfficeSettings()).steps()
    assert "automatic" in duties(SETTINGS).steps()
    assert "automatic" in duties(OfficeSettings(), {"orders": COOL_DOWN_S}).steps()
    assert "automatic" not in duties(OfficeSettings(), {"orders": None}).steps()


async def test_a_queue_has_a_cool_down_of_its_own_or_none(store: Store, bench: Bench) -> None:
    for queue in ("orders", "billing", "mail"):
        await _die(store, 2, queue=queue)
    own = CoolDowns(COOL_DOWN_S, {"billing": None, "mail": COOL_DOWN_S * 10})
    automatic = Automatic(make_office(store, settings=SETTINGS), own)
    bench.advance(COOL_DOWN_S * 2)
    await _turn(store, automatic, bench)
    assert [(await counts(store, queue)).dlq for queue in ("orders", "billing", "mail")] == [0, 2, 2]
    bench.advance(COOL_DOWN_S * 10)
    await _turn(store, automatic, bench)
    assert [(await counts(store, queue)).dlq for queue in ("orders", "billing", "mail")] == [0, 2, 0]


async def test_one_queue_alone_may_come_back_by_itself(store: Store, bench: Bench) -> None:
    for queue in ("orders", "billing"):
        await _die(store, 2, queue=queue)
    own = CoolDowns(None, {"billing": COOL_DOWN_S})
    automatic = Automatic(make_office(store), own)
    bench.advance(COOL_DOWN_S * 2)
    await _turn(store, automatic, bench)
    assert [(await counts(store, queue)).dlq for queue in ("orders", "billing")] == [2, 0]
