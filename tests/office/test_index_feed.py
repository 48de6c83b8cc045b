"""The disposable index: fed page by page, in a private file, shared, mended, and honest about its age."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from redis.asyncio import Redis

from redrive.core.errors import StoreUnavailable
from redrive.core.failure import Kind
from redrive.core.letters import LetterKey
from redrive.core.store import OwnIndex, Store
from redrive.core.verdict import Reason
from redrive.office.filters import Filter
from redrive.office.index import Index
from redrive.office.index.disposable import Disposable
from redrive.office.index.feed import PAGE, Fed
from redrive.office.index.read import connect, read_only
from tests.conformance.backends import Bench
from tests.office.deaths import QUEUE, bury, letter
from tests.office.feeds import Telling, ToldStore

on_sqlite = pytest.mark.parametrize("bench", ["sqlite"], indirect=True)
on_redis = pytest.mark.parametrize("bench", ["redis"], indirect=True)


@pytest.fixture
def feed() -> Telling:
    return Telling()


@pytest.fixture
async def clock(bench: Bench, feed: Telling, tmp_path: Path) -> Store:
    """A store for its clock and its one queue; its letters are told by `feed`."""
    told = ToldStore(tmp_path / "told.db")
    told.feed = feed
    store = await bench.adopt(told)
    await store.bury([letter(store)])
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "index"


def rows(address: str, relation: str = "letters") -> list[tuple[object, ...]]:
    db = connect(address)
    try:
        return sorted(db.execute(f"select * from {relation}"))  # noqa: S608 - one of two names
    finally:
        db.close()


def databases(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix == ".db"]


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def make_open(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def block(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file is in the way")


def columns(address: str, relation: str) -> list[tuple[str, str]]:
    db = connect(address)
    try:
        return [(name, kind) for _, name, kind, *_ in db.execute(f"pragma table_xinfo({relation})")]
    finally:
        db.close()


async def ids(fed: Fed) -> list[object]:
    return [row[0] for row in rows(await fed.ready(5))]


@on_sqlite
async def test_a_disposable_index_has_the_columns_and_rows_of_the_stores_own(
    store: Store, feed: Telling
) -> None:
    letters = [
        letter(store, attempts=5, kind=Kind.TEMPORARY, reason=Reason.EXHAUSTED, body=b'{"a": 1}'),
        letter(store, kind=None, code=None, reason=Reason.POISON, body=b"\xff"),
        letter(store, redriven=3, code=None, queue="orders", tenant="umbra"),
        letter(store, kind=Kind.LOST, reason=Reason.WORKER_LOST, attempts=3),
    ]
    await bury(store, letters)
    feed.died(*letters)
    fed = Fed(store, feed, None, "")
    disposable = await fed.ready(None)
    assert isinstance(store.index, OwnIndex)
    own = read_only(Path(store.index.path))
    for relation in ("letters", "letter_bodies"):
        assert rows(own, relation) == rows(disposable, relation)
    assert columns(own, "letters") == columns(disposable, "letters")
    assert [name for name, _ in columns(own, "letter_bodies")] == [
        name for name, _ in columns(disposable, "letter_bodies")
    ]
    await fed.close()


@on_sqlite
async def test_letters_that_left_are_gone_and_what_died_again_is_as_it_is_now(
    clock: Store, feed: Telling
) -> None:
    stays, leaves, again = (letter(clock) for _ in range(3))
    fed = Fed(clock, feed, None, "")
    feed.died(stays, leaves, again)
    assert await ids(fed) == [stays.message.id, leaves.message.id, again.message.id]
    feed.left(leaves, again)
    feed.died(again)
    assert await ids(fed) == [stays.message.id, again.message.id]
    assert len(rows(await fed.ready(5), "letter_bodies")) == 2
    await fed.close()


@on_sqlite
async def test_only_what_is_new_is_asked_for(clock: Store, feed: Telling, folder: Path) -> None:
    feed.died(*(letter(clock) for _ in range(PAGE + 5)))
    first = Fed(clock, feed, folder, "redis://a")
    await first.ready(None)
    assert feed.asked == [0, PAGE]
    feed.died(letter(clock))
    second = Fed(clock, feed, folder, "redis://a")
    assert len(await ids(second)) == PAGE + 6
    assert feed.asked == [0, PAGE, PAGE + 5]


@on_sqlite
async def test_when_the_store_has_forgotten_what_left_the_queue_is_read_anew(
    clock: Store, feed: Telling
) -> None:
    stays, leaves = letter(clock), letter(clock)
    fed = Fed(clock, feed, None, "")
    feed.died(stays, leaves)
    await fed.ready(5)
    feed.left(leaves)
    feed.forget()
    assert await ids(fed) == [stays.message.id]
    await fed.close()


@on_sqlite
async def test_several_at_once_feed_one_file_and_agree(clock: Store, feed: Telling, folder: Path) -> None:
    feed.died(*(letter(clock) for _ in range(2 * PAGE + 1)))
    several = [Fed(clock, feed, folder, "redis://a") for _ in range(4)]
    found = await asyncio.gather(*(fed.ready(None) for fed in several))
    assert len(set(found)) == 1
    assert len(rows(found[0])) == 2 * PAGE + 1
    assert not any(fed.freshness.behind for fed in several)


@on_sqlite
async def test_it_is_a_private_file_and_another_store_has_another(
    clock: Store, feed: Telling, folder: Path
) -> None:
    feed.died(letter(clock))
    assert len(await ids(Fed(clock, feed, folder, "redis://a"))) == 1
    assert len(await ids(Fed(clock, Telling(), folder, "redis://b"))) == 0
    assert len(databases(folder)) == 2
    assert modes(folder) == {0o600}
    assert modes(folder.parent) == {0o700}


@on_sqlite
async def test_where_others_could_write_it_stays_in_memory(clock: Store, feed: Telling, folder: Path) -> None:
    feed.died(letter(clock))
    make_open(folder)
    fed = Fed(clock, feed, folder, "redis://a")
    assert len(await ids(fed)) == 1
    assert databases(folder) == []
    await fed.close()


@on_sqlite
async def test_where_no_folder_can_be_made_it_stays_in_memory(
    clock: Store, feed: Telling, folder: Path
) -> None:
    feed.died(letter(clock))
    block(folder)
    fed = Fed(clock, feed, folder, "redis://a")
    assert len(await ids(fed)) == 1
    await fed.close()


def spoil_all(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 1_000)


def spoil_a_page(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def another_schema(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("drop table letters; create table letters (other); pragma user_version = 99")
    db.close()


@on_sqlite
@pytest.mark.parametrize("spoil", [spoil_all, spoil_a_page, another_schema])
async def test_a_damaged_file_is_built_anew(
    clock: Store, feed: Telling, folder: Path, spoil: Callable[[Path], None]
) -> None:
    feed.died(*(letter(clock) for _ in range(300)))
    address = await Fed(clock, feed, folder, "redis://a").ready(None)
    (path,) = databases(folder)
    spoil(path)
    index = Index(clock, folder, "redis://a")
    assert await index.count(Filter()) == 300
    assert len(rows(address)) == 300


@on_sqlite
async def test_a_store_that_does_not_answer_leaves_an_answer_with_its_age(
    clock: Store, feed: Telling, folder: Path, bench: Bench
) -> None:
    feed.died(letter(clock))
    await Fed(clock, feed, folder, "redis://a").ready(5)
    feed.silent = True
    bench.advance(120)
    later = Fed(clock, feed, folder, "redis://a")
    assert len(await ids(later)) == 1
    assert later.freshness.behind
    assert 119 < later.freshness.stale_s < 150
    assert later.freshness.problem == "the store does not answer"
    feed.silent = False
    await later.ready(5)
    assert later.freshness.stale_s == 0
    assert not later.freshness.behind


@on_sqlite
async def test_without_anything_known_a_silent_store_is_an_error(clock: Store, feed: Telling) -> None:
    feed.silent = True
    fed = Fed(clock, feed, None, "")
    with pytest.raises(StoreUnavailable, match="not known yet"):
        await fed.ready(5)
    await fed.close()


@on_sqlite
async def test_a_file_that_another_writes_to_for_long_is_read_as_it_is(
    clock: Store, feed: Telling, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(clock, feed, folder, "redis://a")
    feed.died(letter(clock))
    await fed.ready(5)
    monkeypatch.setattr("redrive.office.index.disposable.PATIENCE_MS", 1)
    other = apsw.Connection(str(databases(folder)[0]))
    other.execute("begin immediate")
    feed.died(letter(clock))
    assert len(await ids(fed)) == 1
    assert fed.freshness.behind
    other.execute("rollback")
    assert len(await ids(fed)) == 2
    other.close()


@on_sqlite
async def test_what_cannot_be_taken_in_at_once_is_said_to_be_missing(clock: Store, feed: Telling) -> None:
    feed.died(letter(clock))
    fed = Fed(clock, feed, None, "")
    await fed.ready(0)
    assert fed.freshness.behind
    await fed.ready(None)
    assert not fed.freshness.behind
    await fed.close()


def test_a_disposable_index_in_memory_goes_with_its_owner() -> None:
    disposable = Disposable(None, "")
    write(disposable, 7)
    assert write(disposable) == 7
    disposable.close()
    assert write(disposable) is None
    disposable.close()


def write(disposable: Disposable, at: int | None = None) -> int | None:
    """Note when it was caught up, if at all; when it was."""
    filling = disposable.open()
    if at is not None:
        filling.set_caught_up(at)
    noted = filling.caught_up_at()
    filling.close()
    return noted


def test_a_file_that_nobody_used_for_a_week_goes(folder: Path) -> None:
    for name, age_s in (("old", 8 * 86_400), ("recent", 86_400)):
        write(Disposable(folder, name), 7)
        (path,) = (one for one in databases(folder) if one.stat().st_mtime > time.time() - 60)
        os.utime(path, (time.time() - age_s,) * 2)
    assert write(Disposable(folder, "another")) is None
    assert len(databases(folder)) == 2
    assert write(Disposable(folder, "recent")) == 7


def test_a_file_in_use_is_kept_and_one_that_went_comes_back_private(folder: Path) -> None:
    used = Disposable(folder, "used")
    write(used, 7)
    (path,) = databases(folder)
    os.utime(path, (time.time() - 8 * 86_400,) * 2)
    assert write(used) == 7
    write(Disposable(folder, "another"))
    assert path.exists()
    path.unlink()
    before = os.umask(0)
    try:
        write(used, 8)
    finally:
        os.umask(before)
    assert modes(folder) == {0o600}


@on_redis
async def test_an_index_of_redis_follows_deaths_and_departures(store: Store, folder: Path) -> None:
    index = Index(store, folder, "redis://a")
    gone, stays, archived = await bury(store, [letter(store) for _ in range(3)])
    assert await index.count(Filter()) == 3
    await store.redrive(QUEUE, [LetterKey(gone)], actor="ana")
    (found, other) = (await index.find(Filter())).letters
    assert {found.id, other.id} == {stays, archived}
    again = Index(store, folder, "redis://a")
    assert await again.count(Filter()) == 2


@on_redis
async def test_a_store_that_was_emptied_is_read_anew(store: Store, folder: Path, redis_url: str) -> None:
    index = Index(store, folder, "redis://a")
    await bury(store, [letter(store) for _ in range(3)])
    assert await index.count(Filter()) == 3
    client = Redis.from_url(redis_url)
    await client.flushall()
    await client.aclose()
    await bury(store, [letter(store)])
    assert await index.count(Filter()) == 1
