"""Kill -9 while letters leave: each is in the store or in an archive, and all come back as they were."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive.config import Settings
from redrive.core.letters import DeadLetter
from redrive.core.settings import RetentionSettings
from redrive.office.archive.reader import read_archive
from redrive.office.archive.restore import restore
from redrive.office.retention.duty import Retention
from redrive.wiring import make_store
from tests.conformance.makers import DAY_S, letters
from tests.office.letters import child, letter
from tests.office.retention_child import POINTS
from tests.programs import run

_LETTERS = 600
_DAY_MS = round(DAY_S * 1000)


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'redrive.db'}"
    return f"{request.getfixturevalue('redis_url')}?prefix=test:{uuid.uuid4().hex[:12]}"


def _alone(number: int, at: int) -> DeadLetter:
    return letter(number, at=at)


def _one_of_many(number: int, at: int) -> DeadLetter:
    return child(number, number % 20, at=at, shared=b"the mail %d" % (number % 20))


@pytest.mark.parametrize("make", [_alone, _one_of_many])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_while_letters_leave_loses_none(
    url: str, tmp_path: Path, point: str, make: Callable[[int, int], DeadLetter]
) -> None:
    store, folder = make_store(Settings(store=url)), tmp_path / "archive"
    settings = RetentionSettings(folder=str(folder))
    await store.open()
    try:
        died_at = store.now() - 7 * _DAY_MS
        made = [make(number, died_at) for number in range(_LETTERS)]
        await store.bury(made)
        await Retention(store, settings).step()
        store.skew_ms = _DAY_MS
        await _die(url, str(folder), str(store.skew_ms), point)
        left = await letters(store)
        archived = _archived(folder)
        assert {one.message.id for one in left + archived} == {one.message.id for one in made}
        await Retention(store, settings).step()
        assert await letters(store) == []
        for path in sorted(folder.glob("*.jsonl.gz")):
            _ = [page async for page in restore(store, path)]
        assert await letters(store) == made
    finally:
        await store.close()


async def _die(*arguments: str) -> None:
    """Run the child until it has killed itself."""
    child = ["tests.office.retention_child", *arguments]
    died = await asyncio.to_thread(run, child, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr


def _archived(folder: Path) -> list[DeadLetter]:
    return [one for path in folder.glob("*.jsonl.gz") for one in read_archive(path)]
