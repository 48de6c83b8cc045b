"""Retention on every store: announced a day before, archived, removed; and back as it was."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from redrive.core.letters import DeadLetter
from redrive.core.lifecycle import Move, State
from redrive.core.retry import RetryPolicy
from redrive.core.settings import FinishedSettings, RetentionSettings
from redrive.core.store import Store
from redrive.engine.upkeep import Housekeeping
from redrive.office.archive.lines import ArchiveError
from redrive.office.archive.reader import read_archive
from redrive.office.archive.restore import restore
from redrive.office.archive.writer import ArchiveWriter
from redrive.office.audit import AUDIT
from redrive.office.retention.departure import Departure
from redrive.office.retention.duty import BEAT_S, LOOK_S, Retention
from redrive.office.retention.notice import Notice, notices
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event, LettersArchived, LettersLeaving, RetentionFailed
from tests.conformance.backends import Bench
from tests.conformance.families import CONTENT, body_of, fan_out, running_parent
from tests.conformance.makers import DAY_S, account, bury, counts, dead, drain, keys, letters

_HOUR_S = 3_600.0


def retention(store: Store, folder: Path | None, **limits: float | None) -> Retention:
    fields = {"folder": None if folder is None else str(folder), **limits}
    return Retention(store, RetentionSettings(**fields))  # type: ignore[arg-type]


def archives(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl.gz"))


def archived(folder: Path) -> list[DeadLetter]:
    return [letter for path in archives(folder) for letter in read_archive(path)]


async def said(store: Store) -> str:
    return "\n".join(sentence for notice in await notices(store) for sentence in notice.sentences())


async def restore_all(store: Store, path: Path) -> int:
    return sum([len(page.ids) async for page in restore(store, path)])


async def test_letters_leave_for_age_a_day_after_it_was_announced(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    duty = retention(store, tmp_path / "archive")
    await dead(store, 3)
    before = await letters(store)
    bench.advance(5.9 * DAY_S)
    assert await duty.step() <= BEAT_S
    assert await said(store) == ""
    bench.advance(0.2 * DAY_S)
    await duty.step()
    assert "3 letters of orders leave for age on" in await said(store)
    assert str(tmp_path / "archive") in await said(store)
    bench.advance(0.9 * DAY_S)
    await duty.step()
    assert await letters(store) == before
    bench.advance(0.1 * DAY_S)
    await duty.step()
    assert await letters(store) == []
    assert archived(tmp_path / "archive") == before
    assert "3 letters of orders left on" in await said(store)


async def test_an_archived_letter_comes_back_equal_to_what_left(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    await dead(store, 2, body=b"\xff\x00raw", headers={"Trace": "1"}, dedupe=None)
    await store.redrive("orders", keys([(await letters(store))[0].message.id]), actor="ann")
    for delivery in await drain(store):
        await bury(store, delivery)
    before = await letters(store)
    await leave(bench, store, tmp_path)
    assert await letters(store) == []
    (path,) = archives(tmp_path)
    assert await restore_all(store, path) == 2
    assert await letters(store) == before
    assert (await counts(store)).dlq == 2
    assert await restore_all(store, path) == 0


async def test_a_restored_letter_stays_for_a_day_and_can_be_brought_back_to_work(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    (one,) = await dead(store)
    duty = await leave(bench, store, tmp_path)
    await restore_all(store, archives(tmp_path)[0])
    await duty.step()
    bench.advance(23 * _HOUR_S)
    await duty.step()
    assert (await account(store, one)).state is State.DEAD
    assert await store.redrive("orders", keys([one]), actor="ann") == {one}
    assert [delivery.message.id for delivery in await drain(store)] == [one]


async def test_what_is_above_the_number_leaves_oldest_first_and_never_within_a_day(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    duty = retention(store, tmp_path, keep=2, keep_s=None)
    old = await dead(store, 3)
    bench.advance(_HOUR_S)
    new = await dead(store, 2)
    await duty.step()
    assert "3 letters of orders leave for number" in await said(store)
    bench.advance(23 * _HOUR_S)
    await duty.step()
    assert len(await letters(store)) == 5
    bench.advance(_HOUR_S)
    await duty.step()
    assert [one.message.id for one in await letters(store)] == new
    assert [one.message.id for one in archived(tmp_path)] == old


async def test_without_a_folder_nothing_leaves_and_it_is_told_once(bench: Bench, store: Store) -> None:
    told: list[Event] = []
    duty = Retention(store, RetentionSettings(), told.append)
    await dead(store, 2)
    for _ in range(12):
        bench.advance(DAY_S)
        await duty.step()
    assert len(await letters(store)) == 2
    assert "2 letters of orders should leave for age and cannot: there is no folder" in await said(store)
    assert [type(event) for event in told] == [RetentionFailed]


async def test_a_folder_that_cannot_be_written_to_keeps_everything_until_it_can(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    told: list[Event] = []
    duty = Retention(store, RetentionSettings(folder=str(folder)), told.append)
    await dead(store, 2)
    bench.advance(7 * DAY_S)
    await duty.step()
    folder.rmdir()
    folder.write_text("in the way")
    bench.advance(DAY_S)
    await duty.step()
    assert len(await letters(store)) == 2
    assert "cannot write" in await said(store)
    assert [type(event) for event in told] == [LettersLeaving, RetentionFailed]
    folder.unlink()
    bench.advance(DAY_S)
    await duty.step()
    assert await letters(store) == []
    assert [type(event) for event in told] == [LettersLeaving, RetentionFailed, LettersArchived]


async def test_that_letters_will_leave_is_told_once_a_departure(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    told: list[Event] = []
    duty = Retention(store, RetentionSettings(folder=str(tmp_path)), told.append)
    await dead(store, 2)
    bench.advance(7 * DAY_S)
    for _ in range(3):
        await duty.step()
        bench.advance(LOOK_S)
    leaving = [event for event in told if isinstance(event, LettersLeaving)]
    assert [(event.queue, event.count, event.folder) for event in leaving] == [("orders", 2, str(tmp_path))]


async def test_a_letter_that_was_redriven_meanwhile_is_not_taken(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    duty = retention(store, tmp_path)
    taken, kept = await dead(store, 2)
    bench.advance(7 * DAY_S)
    await duty.step()
    await store.redrive("orders", keys([kept]), actor="ann")
    bench.advance(DAY_S)
    await duty.step()
    assert [(await account(store, one)).state for one in (taken, kept)] == [State.REMOVED, State.WAITING]


async def test_a_letter_archived_twice_after_a_crash_comes_back_once(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    await dead(store, 2)
    before = await letters(store)
    crashed = ArchiveWriter(tmp_path, store="", queue="orders", made_at=store.now())
    crashed.add(before)
    crashed.finish()
    await leave(bench, store, tmp_path)
    assert await letters(store) == []
    first, second = archives(tmp_path)
    assert [await restore_all(store, path) for path in (first, second)] == [2, 0]
    assert await letters(store) == before


async def test_a_departure_is_in_the_audit_with_its_file_and_hash(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    (one,) = await dead(store)
    await leave(bench, store, tmp_path)
    intent, outcome = [row.document for row in await store.read_journal(AUDIT)]
    (path,) = archives(tmp_path)
    assert (intent["verb"], intent["subject"]["file"], intent["subject"]["letters"]) == (
        "archive",
        str(path),
        1,
    )
    assert len(intent["subject"]["sha256"]) == 64
    assert outcome["result"]["moved"] == 1
    removal = (await account(store, one)).removal
    assert removal is not None
    assert (removal.move, removal.actor) == (Move.ARCHIVE, "retention")


async def test_letters_of_one_mail_leave_with_what_they_share_and_come_back(
    bench: Bench, store: Store, tmp_path: Path
) -> None:
    parent = await running_parent(store)
    await fan_out(store, parent, 2)
    await bury(store, *await drain(store))
    before = await letters(store)
    await leave(bench, store, tmp_path)
    assert await letters(store) == []
    assert await body_of(store, parent.message.id) == b""
    (path,) = archives(tmp_path)
    assert archived(tmp_path) == before
    assert gzip.decompress(path.read_bytes()).count(CONTENT) == 1
    assert await restore_all(store, path) == 2
    assert await letters(store) == before
    await store.redrive("orders", keys([one.message.id for one in before]), actor="ann")
    assert [one.parent_body for one in await drain(store)] == [CONTENT, CONTENT]


async def test_a_family_that_left_in_two_files_comes_back_from_each(store: Store, tmp_path: Path) -> None:
    await fan_out(store, await running_parent(store), 2)
    await bury(store, *await drain(store))
    before = await letters(store)
    for name, letter in zip(("early", "late"), before, strict=True):
        departure = Departure(store, "orders", tmp_path / name)
        await departure.add([letter])
        await departure.end()
    assert await letters(store) == []
    (early,), (late,) = archives(tmp_path / "early"), archives(tmp_path / "late")
    assert await restore_all(store, late) == 1
    assert await letters(store) == before[1:]
    assert await restore_all(store, late) == 0
    assert await restore_all(store, early) == 1
    assert await letters(store) == before


async def test_a_letter_that_has_lost_what_it_shares_stays_and_is_counted(
    store: Store, tmp_path: Path
) -> None:
    parent = await running_parent(store)
    await fan_out(store, parent, 1)
    await bury(store, *await drain(store))
    lost = [replace(one, shared=None) for one in await letters(store)]
    departure = Departure(store, "orders", tmp_path)
    await departure.add(lost)
    await departure.end()
    assert (departure.left, archives(tmp_path), len(await letters(store))) == (0, [], 1)
    notice = Notice("orders", store.now(), shared=2)
    assert "2 letters of orders stay beyond that: what they share" in "".join(notice.sentences())


async def test_a_discarded_letter_keeps_its_content_as_long_as_a_dead_one(bench: Bench, store: Store) -> None:
    (one,) = await dead(store, body=b"content")
    await store.remove("orders", keys([one]), Move.DISCARD, actor="ann")
    upkeep = Housekeeping(
        store,
        Telemetry(),
        lambda _: RetryPolicy(),
        FinishedSettings(keep_s=30 * DAY_S),
        RetentionSettings(),
        30,
    )
    bench.advance(6.9 * DAY_S)
    await upkeep.cleanup()
    assert (await account(store, one)).message.body == b"content"
    bench.advance(0.2 * DAY_S)
    await upkeep.cleanup()
    kept = await store.get(one)
    assert kept is None or kept.message.body == b""


async def test_an_altered_archive_moves_nothing(bench: Bench, store: Store, tmp_path: Path) -> None:
    await dead(store, 2)
    await leave(bench, store, tmp_path)
    (path,) = archives(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ArchiveError):
        await restore_all(store, path)
    assert await letters(store) == []


async def leave(bench: Bench, store: Store, folder: Path) -> Retention:
    """Let everything that is dead now leave for age."""
    duty = retention(store, folder)
    bench.advance(7 * DAY_S)
    await duty.step()
    bench.advance(DAY_S)
    await duty.step()
    return duty
