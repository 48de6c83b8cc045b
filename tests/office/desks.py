"""Makers for the tests of operations: a desk, dead letters, and a worker that lets letters pass or fail."""

from __future__ import annotations

from collections.abc import Callable

from redrive.core.message import Message
from redrive.core.retry import RetryPolicy
from redrive.core.settings import OfficeSettings, RetentionSettings
from redrive.core.store import Store
from redrive.office.audit import Actor
from redrive.office.index import Index
from redrive.office.office import Office
from redrive.office.operations import OperationKind, Operations, Order, Selection, Snapshot
from redrive.office.operations.bodies import BodyRules
from redrive.office.operations.operation import NO_RATE
from tests.conformance.makers import QUEUE, bury, complete, dead, drain

ANA = Actor("ana@host", "test")
ORDERS = Selection(filter=f"queue:{QUEUE}")

NO_RULES: BodyRules = {}

Passes = Callable[[Message], bool]


def make_office(
    store: Store,
    index: Index | None = None,
    *,
    settings: OfficeSettings | None = None,
    retention: RetentionSettings | None = None,
    policy: RetryPolicy | None = None,
    bodies: BodyRules = NO_RULES,
) -> Office:
    """The office of a store, with its own index unless one is given."""
    return Office(
        store,
        index or Index(store),
        lambda queue: policy or RetryPolicy(),
        settings or OfficeSettings(),
        retention or RetentionSettings(),
        bodies,
    )


def desk(
    store: Store,
    *,
    actor: Actor = ANA,
    settings: OfficeSettings | None = None,
    scope: str | None = None,
    files: bool = True,
    bodies: BodyRules = NO_RULES,
) -> Operations:
    """A desk with its own conductor, as each process has one."""
    return make_office(store, settings=settings, bodies=bodies).acting(actor, scope, files=files).operations


def redrive(selection: Selection = ORDERS, **more: object) -> Order:
    """A re-drive without canary and rate, unless they are given."""
    return Order(OperationKind.REDRIVE, selection, **{"canary": 0, "rate": NO_RATE, **more})  # type: ignore[arg-type]


def discard(selection: Selection = ORDERS, **more: object) -> Order:
    return Order(OperationKind.DISCARD, selection, **more)  # type: ignore[arg-type]


async def letters(store: Store, count: int, **fields: object) -> list[str]:
    """Ids of so many dead letters."""
    return await dead(store, count, **fields)


async def work(store: Store, passes: Passes = lambda message: True, *, queue: str = QUEUE) -> int:
    """Run all that is due once: what passes is done, the rest is dead again. How many ran."""
    deliveries = await drain(store, queue=queue)
    await complete(store, *(one for one in deliveries if passes(one.message)))
    await bury(store, *(one for one in deliveries if not passes(one.message)))
    return len(deliveries)


async def step(operations: Operations, operation_id: str, times: int = 1) -> Snapshot:
    """So many steps of an operation, without waiting between them."""
    for _ in range(times):
        await operations.conductor.advance(operation_id)
    return await operations.show(operation_id)


async def run_to(operations: Operations, operation_id: str, done: Callable[[Snapshot], bool]) -> Snapshot:
    """Steps until the operation is as wanted; an error when it is not within many."""
    for _ in range(1_000):
        seen = await operations.show(operation_id)
        if done(seen):
            return seen
        await operations.conductor.advance(operation_id)
    raise AssertionError(f"never as wanted: {seen}")
