"""What the worker process under test runs: handlers that do as their payload says, and write it down.

`orders` is served by an `async def`, `plain` by a `def`. Every hand-over writes `begin` before the work and
`end` after it; an attempt that is cancelled or killed has no `end`. `claimed` is written when a claim was
answered, so that what a killed process held can be told from what another one holds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

from redrive import Delivery, Later, Permanent, Redrive, RetryPolicy, Temporary
from redrive.core.ports import Claim, Claimed
from redrive.core.store import Store
from redrive.telemetry.events import (
    Buried,
    Completed,
    Event,
    HandlerOverran,
    LeaseLost,
    LoopFailed,
    Released,
    RetryScheduled,
    SettleRefused,
    StoreTrouble,
    WorkerStarted,
    WorkerStopped,
)
from tests.faults.ledger import Ledger, Line, Plan
from tests.waiting import wait_in_thread, wait_until

ORDERS = "orders"
PLAIN = "plain"
ATTEMPTS = 4
RETRY = RetryPolicy(attempts=ATTEMPTS, base_s=0.05, cap_s=0.1)
HANG_S = 60.0
GATE_S = 30.0


class Mute(Exception):
    """An exception that cannot be looked at."""

    code = property(lambda self: 1 / 0)

    def __str__(self) -> str:
        raise RuntimeError("no words")


WRONG_ANSWERS: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: Temporary(ValueError("as planned")),
    "none": lambda: Temporary(None),
    "code": lambda: Temporary("as planned", code=504),
    "seconds": lambda: Temporary("as planned", retry_after=0.01),
    "later": lambda: Later("never"),
    "mute": Mute,
    "interrupt": KeyboardInterrupt,
    "close": GeneratorExit,
    "leave": lambda: SystemExit(3),
}
"""What a handler may raise by mistake, each a failure that counts."""

_pools: list[ProcessPoolExecutor] = []

_JOB_EVENTS: dict[type, str] = {
    Completed: "completed",
    Buried: "buried",
    RetryScheduled: "retried",
    Released: "released",
    SettleRefused: "refused",
    HandlerOverran: "overran",
}


def serve(app: Redrive, ledger: Ledger, *, concurrency: int, deadline_s: float) -> None:
    """Register both handlers and a sink that writes down what the worker tells."""
    deadline = timedelta(seconds=deadline_s)

    @app.handler(ORDERS, retry=RETRY, concurrency=concurrency, deadline=deadline)
    async def orders(plan: Plan, delivery: Delivery) -> None:
        ledger.write(_line("begin", delivery))
        if plan.act == "open":
            async with app:
                await app.store.get(delivery.message.id)
        if plan.act == "fork":
            _fork_workers(ledger, delivery)
        await _work(plan, delivery.progress.attempts)
        _end(ledger, plan, delivery)

    @app.handler(PLAIN, retry=RETRY, concurrency=concurrency, deadline=deadline)
    def plain(plan: Plan, delivery: Delivery) -> None:
        ledger.write(_line("begin", delivery))
        if plan.work_s:
            time.sleep(plan.work_s)
        if plan.gate is not None:
            wait_in_thread(Path(plan.gate).exists, GATE_S)
        _end(ledger, plan, delivery)

    app.telemetry.add(lambda event: _tell(ledger, event))


def tell_claims(store: Store, ledger: Ledger) -> None:
    """Write down every message that a claim of this process hands out."""
    original = store.claim

    async def claim(asked: Claim) -> Claimed:
        claimed = await original(asked)
        for delivery in claimed.deliveries:
            ledger.write(_line("claimed", delivery))
        return claimed

    store.claim = claim  # type: ignore[assignment, method-assign]


def _fork_workers(ledger: Ledger, delivery: Delivery) -> None:
    """A pool of forked processes, as users have one for work on the processor; it is never shut down."""
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
    for begun in [pool.submit(os.getpid) for _ in range(4)]:
        begun.result(GATE_S)
    for child in multiprocessing.active_children():
        ledger.write(_line("forked", delivery, str(child.pid)))
    _pools.append(pool)


async def _work(plan: Plan, attempt: int) -> None:
    match plan.act:
        case "hang":
            await asyncio.sleep(HANG_S)
        case "block":
            time.sleep(plan.work_s)  # noqa: ASYNC251 - blocking the loop is what is tested
        case "exit":
            os._exit(3)
        case "cancel":
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(0)
        case _ if plan.act in WRONG_ANSWERS:
            raise WRONG_ANSWERS[plan.act]()
        case _ if plan.work_s:
            await asyncio.sleep(plan.work_s)
    if plan.gate is not None and plan.act == "block":
        wait_in_thread(Path(plan.gate).exists, GATE_S)
    elif plan.gate is not None and attempt > plan.gate_after:
        await wait_until(Path(plan.gate).exists, GATE_S, f"{plan.gate} opens")


def _end(ledger: Ledger, plan: Plan, delivery: Delivery) -> None:
    """Write how the attempt ends, then end it that way."""
    if delivery.progress.generation < plan.permanent:
        ledger.write(_line("end", delivery, "permanent"))
        raise Permanent("as planned")
    if delivery.progress.attempts <= plan.fails:
        ledger.write(_line("end", delivery, "temporary"))
        raise Temporary("as planned")
    ledger.write(_line("end", delivery, "ok"))


def _line(what: str, delivery: Delivery, note: str = "") -> Line:
    progress = delivery.progress
    return Line(
        what=what,
        id=delivery.message.id,
        attempt=progress.attempts,
        generation=progress.generation,
        note=note,
    )


def _tell(ledger: Ledger, event: Event) -> None:
    name = _JOB_EVENTS.get(type(event))
    match event:
        case Buried():
            ledger.write(_line("buried", event.delivery, event.reason))
        case Completed() | RetryScheduled() | Released() | SettleRefused() | HandlerOverran() if name:
            ledger.write(_line(name, event.delivery))
        case LeaseLost():
            ledger.write(Line(what="lease lost"))
        case StoreTrouble():
            ledger.write(Line(what="trouble", note=f"{event.doing}: {event.error}"))
        case LoopFailed():
            ledger.write(Line(what="bug", note=f"{event.doing}: {event.error!r}"))
        case WorkerStarted():
            ledger.write(Line(what="started"))
        case WorkerStopped():
            ledger.write(Line(what="stopped"))
