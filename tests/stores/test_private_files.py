"""What a SQLite store leaves on disk is its owner's alone, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive.core.condition import Finding, Grade
from redrive.stores.sqlite import SqliteStore
from tests.conformance import makers


@pytest.fixture(autouse=True, params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def privacy(store: SqliteStore) -> Finding:
    return next(one for one in await store.examine() if one.subject == "privacy")


async def test_the_database_and_every_file_beside_it_are_private(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    try:
        await makers.submit(store)
        found = modes(tmp_path)
        assert {f"redrive.db{end}" for end in ("", "-wal", "-shm", "-gate", "-turn", "-reserve")} == set(
            found
        )
        assert set(found.values()) == {0o600}
        assert (await privacy(store)).grade is Grade.RIGHT
    finally:
        await store.close()


async def test_a_backup_is_private_from_its_first_byte(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "redrive.db")
    target = tmp_path / "copy.db"
    seen: list[dict[str, int]] = []
    await store.open()
    try:
        await store.backup(target, lambda done, total: seen.append(modes(tmp_path)))
    finally:
        await store.close()
    assert set().union(*(found.values() for found in [*seen, modes(tmp_path)])) == {0o600}


async def test_a_database_behind_a_link_is_made_private_too(tmp_path: Path) -> None:
    (tmp_path / "redrive.db").symlink_to(tmp_path / "elsewhere.db")
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    await store.close()
    assert stat.S_IMODE((tmp_path / "elsewhere.db").stat().st_mode) == 0o600


async def test_a_file_that_a_group_shares_stays_shared_and_the_doctor_says_so(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    path.touch()
    path.chmod(0o660)
    store = SqliteStore(path)
    await store.open()
    try:
        await makers.submit(store)
        assert set(modes(tmp_path).values()) == {0o660}
        found = await privacy(store)
    finally:
        await store.close()
    assert found.grade is Grade.WARNING
    assert "redrive.db (mode 660)" in found.found
    assert "chmod 600" in found.fix
