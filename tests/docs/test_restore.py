"""docs/cli.md, backup and restore: its commands bring every message back as it was."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from redrive.core.letters import Account, LetterKey
from redrive.core.lifecycle import Move, State
from redrive.core.settings import FinishedSettings
from redrive.stores.sqlite import SqliteStore
from tests.cli.processes import ENVIRONMENT, finish
from tests.conformance import makers

PAGE = (Path(__file__).parents[2] / "docs/cli.md").read_text("utf-8")
SECTION = PAGE.partition("## Backup and restore\n")[2].partition("\n## ")[0]
BACKUP, RESTORE = re.findall(r"^```sh\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


def play(folder: Path, commands: str) -> str:
    """Run a block of the page as it stands; what it printed."""
    path = f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"
    ended = subprocess.run(
        ["sh", "-euc", commands],
        cwd=folder,
        env={**ENVIRONMENT, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def listed(folder: Path, *flags: str) -> str:
    """What is printed of the dead letters."""
    ended = finish(folder, "dlq", "list", "--json", *flags)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def store_in(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "redrive.db", finished=FinishedSettings())


async def fill(folder: Path) -> list[str]:
    """A message in every state; their ids."""
    store = store_in(folder)
    await store.open()
    try:
        ids = await makers.submit(store, 7)
        dead, discarded, retried, done, _ = await makers.take(store, 5)
        await makers.bury(store, dead, discarded)
        key = LetterKey(discarded.message.id)
        await store.remove(makers.QUEUE, [key], Move.DISCARD, actor="ana")
        await makers.retry(store, retried, delay_s=600)
        await makers.complete(store, done)
        await store.cancel(makers.QUEUE, ids[-1:], actor="ana")
        return ids
    finally:
        await store.close()


async def go_on(folder: Path) -> None:
    """Two more messages are accepted, and two that wait die."""
    store = store_in(folder)
    await store.open()
    try:
        await makers.submit(store, 2)
        await makers.bury(store, *await makers.take(store, 2))
    finally:
        await store.close()


async def lives(folder: Path, ids: Sequence[str]) -> list[Account | None]:
    store = store_in(folder)
    await store.open()
    try:
        return [await store.get(one) for one in ids]
    finally:
        await store.close()


async def letters_found(folder: Path) -> set[str]:
    """What the office finds."""
    return {one["jobId"] for one in json.loads(listed(folder))["letters"]}


async def letters_kept(folder: Path) -> set[str]:
    """What the store has."""
    store = store_in(folder)
    await store.open()
    try:
        return {one.message.id for one in await makers.letters(store)}
    finally:
        await store.close()


async def test_a_restored_backup_has_every_message_as_it_was(tmp_path: Path) -> None:
    ids = await fill(tmp_path)
    before = await lives(tmp_path, ids)
    assert {one.state for one in before if one is not None} == set(State)
    letters = listed(tmp_path)
    play(tmp_path, BACKUP)
    await go_on(tmp_path)
    assert listed(tmp_path) != letters
    old_file = (tmp_path / "redrive.db").stat().st_ino
    printed = play(tmp_path, RESTORE)
    assert "lost" not in printed
    assert (tmp_path / "redrive.db").stat().st_ino != old_file
    assert (tmp_path / "redrive.db").stat().st_mode & 0o777 == 0o600
    assert await lives(tmp_path, ids) == before
    assert listed(tmp_path) == letters
    await go_on(tmp_path)
    assert await letters_found(tmp_path) == await letters_kept(tmp_path)


async def test_letters_that_died_after_the_restore_are_found_although_nobody_looked_in_between(
    tmp_path: Path,
) -> None:
    await fill(tmp_path)
    play(tmp_path, BACKUP)
    await go_on(tmp_path)
    assert len(await letters_found(tmp_path)) == 3
    play(tmp_path, RESTORE)
    await go_on(tmp_path)
    assert await letters_found(tmp_path) == await letters_kept(tmp_path)


async def test_what_came_after_the_backup_is_still_in_the_old_store(tmp_path: Path) -> None:
    await fill(tmp_path)
    play(tmp_path, BACKUP)
    await go_on(tmp_path)
    letters = listed(tmp_path)
    play(tmp_path, RESTORE)
    assert listed(tmp_path, "--store", "sqlite:///before-restore/redrive.db") == letters
