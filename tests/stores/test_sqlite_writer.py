"""The writer: steps share a transaction, one that raises undoes only itself, nobody is answered early."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from redrive.core.condition import Grade
from redrive.core.errors import InvalidMessage, StoreError, StoreUnavailable, VersionConflict
from redrive.core.ports import Status
from redrive.stores.sqlite import SqliteStore, writer
from redrive.stores.sqlite.reserve import Reserve, Room
from redrive.stores.sqlite.turn_lock import TurnLock
from tests.conformance import makers
from tests.waiting import wait_until


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    yield store
    await store.close()


async def commits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that grows by one with each commit from now on."""
    seen: list[None] = []
    original = writer.Writer._commit_now

    def commit_now(self: writer.Writer) -> float:
        seen.append(None)
        return original(self)

    monkeypatch.setattr(writer.Writer, "_commit_now", commit_now)
    return seen


async def test_calls_made_at_the_same_time_share_a_commit(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = await commits(store, monkeypatch)
    await asyncio.gather(*(makers.submit(store) for _ in range(20)))
    assert len(seen) <= 3
    assert (await makers.counts(store)).pending == 20


async def test_a_step_that_raises_undoes_only_itself(store: SqliteStore) -> None:
    await store.put_record("note", "a", {"text": "first"}, expected=0)
    answers = await asyncio.gather(
        makers.submit(store),
        store.put_record("note", "a", {"text": "second"}, expected=0),
        makers.submit(store),
        return_exceptions=True,
    )
    assert isinstance(answers[1], VersionConflict)
    assert (await makers.counts(store)).pending == 2


async def test_many_steps_that_raise_leave_the_others_as_they_were_asked_for(store: SqliteStore) -> None:
    """Those beside a failure run again: each is answered once, and counted once."""
    await store.put_record("note", "a", {"text": "first"}, expected=0)
    answers = await asyncio.gather(
        *(
            store.put_record("note", "a", {"text": str(number)}, expected=number % 2)
            for number in range(2, 10)
        ),
        *(store.write_journal("changes", {"number": number}) for number in range(3)),
        return_exceptions=True,
    )
    refused, version, journal = answers[::2], answers[1], answers[8:]
    assert all(isinstance(answer, VersionConflict) for answer in refused[:4])
    assert version == 2
    assert journal == [1, 2, 3]
    record = await store.get_record("note", "a")
    assert record is not None
    assert record.document == {"text": "3"}


async def test_a_step_that_raises_first_does_not_look_like_a_loss(tmp_path: Path) -> None:
    """Its transaction, the first one, raised the file's number and was undone."""
    store = SqliteStore(tmp_path / "redrive.db")
    for _ in range(2):
        await store.open()
        with pytest.raises(VersionConflict):
            await store.put_record("note", "a", {}, expected=7)
        assert all(finding.grade is not Grade.WRONG for finding in await store.examine())
        await store.close()


async def test_text_that_cannot_be_stored_is_refused_and_spoils_nothing(store: SqliteStore) -> None:
    good, bad = makers.entry(store), makers.entry(store, dedupe="\ud800")
    answers = await asyncio.gather(
        makers.append(store, good), makers.append(store, bad), return_exceptions=True
    )
    assert isinstance(answers[1], InvalidMessage)
    assert answers[0][0].status is Status.ACCEPTED
    assert (await makers.counts(store)).pending == 1


async def test_a_cancelled_caller_leaves_the_store_whole(store: SqliteStore) -> None:
    calls = [asyncio.create_task(makers.submit(store)) for _ in range(10)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await makers.submit(store)
    assert 6 <= (await makers.counts(store)).pending <= 11


async def test_a_turn_that_is_never_given_up_is_told_as_unavailable(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PATIENCE_S", 0.2)
    other = TurnLock(store.path)
    assert other.try_take()
    with pytest.raises(StoreUnavailable, match="another Redrive process"):
        await makers.submit(store)
    other.close()
    assert len(await makers.submit(store)) == 1


async def test_while_somebody_waits_at_the_gate_nobody_takes_the_turn_past_him(store: SqliteStore) -> None:
    first = TurnLock(store.path)
    gate = os.open(f"{store.path}-gate", os.O_RDWR)
    fcntl.flock(gate, fcntl.LOCK_EX)
    assert not first.try_take()
    os.close(gate)
    assert first.try_take()
    first.close()


_ERRORS = (
    OSError(5, "Input/output error"),
    apsw.IOError("disk I/O error"),
    AttributeError("no such attribute"),
    MemoryError(),
    asyncio.CancelledError(),
)
_PLACES = (
    (Room, "look"),
    (Reserve, "tight"),
    (TurnLock, "try_take"),
    (writer.Writer, "_begin"),
    (writer.Writer, "_run_group"),
    (writer.Writer, "_run_job"),
    (writer.Writer, "_commit_now"),
    (writer.Writer, "_answer"),
)


def fails_once(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, error: BaseException) -> None:
    """The method raises the next time it is called, and works again after that."""
    original = getattr(owner, method)

    def failing(*_: object, **__: object) -> object:
        monkeypatch.setattr(owner, method, original)
        raise error

    monkeypatch.setattr(owner, method, failing)


@pytest.mark.parametrize("error", _ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("owner", "method"), _PLACES, ids=[method for _, method in _PLACES])
async def test_whatever_goes_wrong_every_caller_is_answered_and_the_writer_goes_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, error: BaseException
) -> None:
    loop, seen = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: seen.append(context))
    fails_once(monkeypatch, owner, method, error)
    async with asyncio.timeout(10):
        calls = [asyncio.create_task(makers.submit(store)) for _ in range(5)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert any(isinstance(answer, StoreError) for answer in answers), answers
        assert all(isinstance(answer, StoreError | list) for answer in answers), answers
        assert len(await makers.submit(store)) == 1
    other = TurnLock(store.path)
    assert other.try_take(), "the turn is still held"
    other.close()


async def test_a_failed_rollback_is_tried_again_and_nobody_waits_for_ever(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_once(monkeypatch, writer.Writer, "_commit_now", OSError(5, "Input/output error"))
    failed: list[str] = []

    def deny(action: int, operation: str | None, *_: object) -> int:
        if action == apsw.SQLITE_TRANSACTION and operation == "ROLLBACK" and not failed:
            failed.append(operation)
            return apsw.SQLITE_DENY
        return apsw.SQLITE_OK

    connection = store._workings().writer._connection
    connection.authorizer = deny
    async with asyncio.timeout(10):
        for _ in range(2):
            with pytest.raises(StoreError):
                await makers.submit(store)
        connection.authorizer = None
        assert len(await makers.submit(store)) == 1
    assert failed


async def test_waking_those_who_wait_may_fail_without_failing_what_was_committed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_once(monkeypatch, type(store._workings().waiting), "committed", RuntimeError("a bug"))
    monkeypatch.setattr(
        store._workings().writer, "_committed", lambda due: store._workings().waiting.committed(due)
    )
    async with asyncio.timeout(10):
        assert len(await makers.submit(store)) == 1


async def test_cancelling_every_other_task_does_not_stop_the_writer(store: SqliteStore) -> None:
    other = TurnLock(store.path)
    assert other.try_take()
    calls = [asyncio.create_task(makers.submit(store)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {*calls, asyncio.current_task()}:
        task.cancel()
    other.close()
    async with asyncio.timeout(10):
        assert len(await asyncio.gather(*calls)) == 5


async def test_a_thread_that_cannot_be_started_is_told_to_the_callers(store: SqliteStore) -> None:
    other = TurnLock(store.path)
    assert other.try_take()
    live = store._workings().writer
    live._thread.shutdown()
    with pytest.raises(StoreUnavailable, match="shutdown"):
        await makers.submit(store)
    other.close()
    live._commit_s = 1.0
    assert len(await makers.submit(store)) == 1
    live._thread = ThreadPoolExecutor(1)


async def test_a_blocked_loop_does_not_keep_the_turn_that_its_thread_waited_for(store: SqliteStore) -> None:
    other, third = TurnLock(store.path), TurnLock(store.path)
    assert other.try_take()
    call = asyncio.create_task(makers.submit(store))
    await wait_until(lambda: _gate_is_held(store), 20, "its thread waits at the gate")
    other.release()
    # The loop is blocked here: nothing but the thread can give the turn up.
    assert third.take(5.0)
    third.release()
    assert len(await call) == 1
    other.close()
    third.close()


async def test_a_blocked_loop_does_not_keep_the_turn_of_a_slow_commit(store: SqliteStore) -> None:
    live, other = store._workings().writer, TurnLock(store.path)
    live._commit_s = 1.0
    call = asyncio.create_task(makers.submit(store))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert other.take(5.0)
    other.close()
    assert len(await call) == 1


def _gate_is_held(store: SqliteStore) -> bool:
    """Whether somebody waits at the gate."""
    gate = os.open(f"{store.path}-gate", os.O_RDWR)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(gate)
    return False


async def test_without_posix_fallocate_the_reserve_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, where os has no such function."""
    monkeypatch.delattr(os, "posix_fallocate")
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    async with asyncio.timeout(10):
        await makers.submit(store)
    reserve = (tmp_path / "redrive.db-reserve").stat()
    assert reserve.st_blocks * 512 >= reserve.st_size == 16 * 1024 * 1024
    await store.close()


async def test_a_reserve_that_cannot_be_made_is_told_for_what_it_is(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files is not a full disk; what drains goes on."""
    fails_once(monkeypatch, os, "open", OSError(24, "Too many open files"))
    with pytest.raises(StoreUnavailable, match="Too many open files"):
        await makers.submit(store)
    assert await makers.take(store) == []
