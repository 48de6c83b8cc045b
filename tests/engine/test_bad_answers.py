"""Whatever a handler raises or returns is counted: no message comes back for free, and none counts as done.

Each case is a message of its own on a running worker; its ledger is how often its handler began.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import pairwise
from typing import Any, NoReturn

import pytest
from msgspec.structs import force_setattr

from redrive import Later, Permanent, Redrive, RetryPolicy, Temporary, Uncertain
from redrive.core.errors import ConfigurationError, Hold
from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.retry import UncertainPolicy
from redrive.core.verdict import Reason
from redrive.telemetry.events import Buried, Completed, Event, LaneHeld, RetryScheduled

from .conftest import MakeApp, working

RETRY = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.02)


class Mute(Exception):
    """Every attribute raises, and so does its text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    @property
    def code(self) -> NoReturn:
        raise KeyboardInterrupt


class MutePermanent(Permanent):
    def __init__(self) -> None:
        """Sets nothing that its parent would."""

    @property
    def code(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("no code")

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Impostor(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("nobody")


class Word(str):
    __slots__ = ()

    def encode(self, *_: Any) -> NoReturn:
        raise RuntimeError("no bytes")

    def strip(self, *_: Any) -> NoReturn:
        raise RuntimeError("no ends")


def _raise(error: BaseException) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise error

    return act


def _later(until: Any) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise Later(until)

    return act


def _recurse() -> NoReturn:
    _recurse()
    raise AssertionError


def _chain() -> NoReturn:
    error: Exception = ValueError("the first")
    for number in range(3_000):
        error.__cause__, error = None, _caused(number, error)
    raise error


def _caused(number: int, cause: Exception) -> Exception:
    error = ValueError(str(number))
    error.__cause__ = cause
    return error


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - what is tested
TEMPORARY: dict[str, tuple[Callable[[], Any], str]] = {
    "an exception": (_raise(Temporary(ValueError("boom"))), "boom"),
    "an exception without a text": (_raise(Temporary(ValueError())), "ValueError"),
    "none": (_raise(Temporary(None)), "no reason given"),
    "nothing": (_raise(Temporary()), "no reason given"),
    "a number": (_raise(Temporary(504)), "504"),
    "bytes": (_raise(Temporary(b"caf\xc3\xa9 \xff")), "caf\xe9 \ufffd"),
    "a code that is a number": (_raise(Temporary("x", code=504)), "x"),
    "a code that is a status": (_raise(Temporary("x", code=HTTPStatus.GATEWAY_TIMEOUT)), "x"),
    "a scope that is none": (_raise(Temporary("x", scope=7)), "x"),
    "seconds": (_raise(Temporary("x", retry_after=0.01)), "x"),
    "a header": (_raise(Temporary("x", retry_after="0")), "x"),
    "an instant": (_raise(Temporary("x", retry_after=datetime(2020, 1, 1, tzinfo=UTC))), "x"),
    "a naive instant": (_raise(Temporary("x", retry_after=NAIVE)), "naive datetime"),
    "a delay that is none": (_raise(Temporary("x", retry_after="soon")), "not a number of seconds"),
    "not a number": (_raise(Temporary("x", retry_after=float("nan"))), "not a number of seconds"),
    "a list": (_raise(Temporary("x", retry_after=[1])), "is a list"),  # type: ignore[arg-type]
    "later, at a naive instant": (_later(NAIVE), "naive datetime"),
    "later, at no instant": (_later("soon"), "not a number of seconds"),
    "later, at nothing": (_later(None), "is a NoneType"),
    "mute": (_raise(Mute()), "Mute: its text cannot be read"),
    "an impostor": (_raise(Impostor()), "cannot be read"),
    "a word with methods": (_raise(Temporary(Word("w"))), "w"),
    "surrogates": (_raise(ValueError("a\ud800b")), "a?b"),
    "a NUL": (_raise(Temporary("a\0b")), "a?b"),
    "a huge text": (_raise(ValueError("x" * 2_000_000)), "xxxx"),
    "a huge number": (_raise(Temporary(10**5_000, code=10**5_000)), "its text cannot be read"),
    "recursion": (_recurse, "RecursionError"),
    "a long chain": (_chain, "2999"),
    "an exit": (lambda: sys.exit(3), "SystemExit: 3"),
    "a keyboard interrupt": (_raise(KeyboardInterrupt()), "KeyboardInterrupt"),
    "a generator exit": (_raise(GeneratorExit()), "GeneratorExit"),
    "a stop": (_raise(StopIteration("end")), "StopIteration"),
    "a cancellation": (_raise(asyncio.CancelledError()), "CancelledError"),
    "a group": (_raise(BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("a")])), "several"),
}
"""What is a temporary failure, and what its reason says."""

PERMANENT: dict[str, tuple[Callable[[], Any], str]] = {
    "permanent, an exception": (_raise(Permanent(ValueError("boom"))), "boom"),
    "permanent, mute": (_raise(MutePermanent()), "its text cannot be read"),
}


def _wrong(kept: list[Failure], says: str, kind: Kind, runs: int) -> bool:
    return len(kept) != runs or any(says not in one.reason or one.kind is not kind for one in kept)


@pytest.mark.parametrize("plain", [False, True])
async def test_whatever_is_raised_is_counted_and_kept_with_its_reason(each_app: Redrive, plain: bool) -> None:
    cases = TEMPORARY | PERMANENT
    if plain:
        cases = {name: case for name, case in cases.items() if name != "recursion"}
    begun: Counter[str] = Counter()

    def act(name: str) -> None:
        begun[name] += 1
        cases[name][0]()

    async def handle(name: str) -> None:
        act(name)

    each_app.handler("orders", retry=RETRY)(act if plain else handle)
    ids = {name: (await each_app.submit("orders", name)).id for name in cases}
    async with working(each_app) as events:
        await events.wait_for(Buried, len(cases))
    for name, message_id in ids.items():
        account = await each_app.store.get(message_id)
        assert account is not None
        runs, kind = (1, Kind.PERMANENT) if name in PERMANENT else (2, Kind.TEMPORARY)
        assert (account.state, begun[name]) == (State.DEAD, runs), name
        assert not _wrong(list(account.failures), cases[name][1], kind, runs), (name, account.failures)
    status = await each_app.store.get(ids["a code that is a status"])
    assert status is not None
    assert {failure.code for failure in status.failures} == {"504"}


async def test_later_takes_seconds_and_never_spins(each_app: Redrive) -> None:
    begun: defaultdict[str, list[int]] = defaultdict(list)
    answers: dict[str, Any] = {
        "now": 0,
        "past": timedelta(hours=-1),
        "soon": 30,
        "text": "30",
        "never": float("inf"),
    }

    @each_app.handler("orders")
    async def handle(name: str) -> None:
        begun[name].append(each_app.store.now())
        if name in answers:
            raise Later(answers[name])

    ids = {name: (await each_app.submit("orders", name)).id for name in answers}
    began_at = each_app.store.now()
    async with working(each_app) as events:
        await each_app.submit("orders", "ordinary")
        await events.wait_for(Completed)
    assert begun.keys() == {*answers, "ordinary"}
    assert all(later - sooner >= 1_000 for times in begun.values() for sooner, later in pairwise(times))
    assert [len(begun[name]) for name in ("soon", "text", "never", "ordinary")] == [1] * 4
    due = {}
    for name, message_id in ids.items():
        account = await each_app.store.get(message_id)
        assert account is not None
        due[name] = account.progress.due_at - began_at
        assert (account.progress.attempts, account.failures) == (0, ())
    assert due["now"] >= 1_000
    assert due["past"] >= 1_000
    assert due["soon"] >= 30_000
    assert due["text"] >= 30_000
    assert due["never"] > 86_400_000


async def test_hold_and_uncertain_take_exceptions_too(each_app: Redrive) -> None:
    @each_app.handler("orders", retry=RetryPolicy(uncertain=UncertainPolicy.BURY))
    async def handle(name: str) -> None:
        raise Uncertain(OSError("lost")) if name == "uncertain" else Hold(OSError("refused"), code=535)

    await each_app.submit("orders", "uncertain", tenant="a")
    await each_app.submit("orders", "hold", tenant="b")
    async with working(each_app) as events:
        (buried,) = await events.wait_for(Buried)
        (held,) = await events.wait_for(LaneHeld)
    assert isinstance(buried, Buried)
    assert isinstance(held, LaneHeld)
    assert (buried.reason, buried.failure.reason, held.reason) == (Reason.UNCERTAIN, "lost", "refused")


def _generator(payload: object) -> Iterator[None]:
    yield


async def _async_generator(payload: object) -> AsyncIterator[None]:
    yield


class _Callable:
    def __call__(self, payload: object) -> Iterator[None]:
        yield

    async def method(self, payload: object) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize(
    "function",
    [
        _generator,
        _async_generator,
        _Callable(),
        _Callable().method,
        functools.partial(_generator),
        functools.partial(_Callable()),
    ],
)
def test_a_handler_with_a_yield_is_refused_at_registration(make_app: MakeApp, function: Any) -> None:
    with pytest.raises(ConfigurationError, match="yield"):
        make_app().handler("orders")(function)


async def _inner() -> None:
    raise AssertionError("nobody awaits this")


WORK: dict[str, Callable[[], Any]] = {
    "coroutine": _inner,
    "generator": lambda: _generator(1),
    "async_generator": lambda: _async_generator(1),
}


@pytest.mark.parametrize("plain", [False, True])
async def test_work_that_comes_back_undone_is_a_failure_of_the_handler(
    each_app: Redrive, plain: bool
) -> None:
    def act(name: str) -> Any:
        return asyncio.get_running_loop().create_future() if name == "Future" else WORK[name]()

    async def handle(name: str) -> Any:
        return act(name)

    names = list(WORK) if plain else [*WORK, "Future"]
    each_app.handler("orders", retry=RETRY)(act if plain else handle)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ids = [(await each_app.submit("orders", name)).id for name in names]
        async with working(each_app) as events:
            await events.wait_for(Buried, len(names))
        gc.collect()
    assert [str(one.message) for one in warned if "never awaited" in str(one.message)] == []
    assert events.of(Completed) == []
    for name, message_id in zip(names, ids, strict=True):
        account = await each_app.store.get(message_id)
        assert account is not None
        assert all(name in one.reason and "async def" in one.reason for one in account.failures)


async def test_a_sink_that_raises_anything_gives_nothing_back(each_app: Redrive) -> None:
    begun: Counter[int] = Counter()

    def sink(event: Event) -> None:
        raise asyncio.CancelledError if isinstance(event, Completed) else KeyboardInterrupt

    each_app.telemetry.add(sink)

    @each_app.handler("orders", retry=RETRY)
    async def handle(number: int) -> None:
        begun[number] += 1
        if number % 2:
            raise Temporary("odd")

    for number in range(10):
        await each_app.submit("orders", number)
    async with working(each_app) as events:
        await events.wait_for(Completed, 5)
        await events.wait_for(Buried, 5)
    assert begun == {number: 1 + number % 2 for number in range(10)}


async def test_a_policy_that_cannot_be_reckoned_with_still_counts_its_attempts(each_app: Redrive) -> None:
    begun: Counter[str] = Counter()

    @each_app.handler("orders", retry=RETRY)
    async def handle(payload: str) -> None:
        begun[payload] += 1
        force_setattr(each_app.policy("orders"), "base_s", "a moment")
        raise Temporary("busy")

    message = await each_app.submit("orders", "x")
    async with working(each_app) as events:
        await events.wait_for(RetryScheduled)
    account = await each_app.store.get(message.id)
    assert account is not None
    assert (begun["x"], account.progress.attempts) == (1, 1)
    assert "could not be judged" in account.failures[0].reason


@pytest.mark.parametrize("name", ["base_s", "cap_s", "jitter", "ttl_s"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_policy_without_finite_numbers_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RetryPolicy(**{name: value})  # type: ignore[arg-type]
