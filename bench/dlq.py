"""`python -m bench dlq`: what people do with dead letters, on SQLite and on Redis, a process each.

Letters of 1 KB of 20 tenants and 20 causes. Questions are asked several times and the median counts; the
re-drive is one operation over all of them, without a rate limit, to its end in the audit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import machine
from bench.goals import Above, Below, Goal
from bench.letters import CAUSES, bury_all
from bench.load import Figures, file_store
from bench.redis import server
from bench.report import report
from bench.running import Results, ask, why
from bench.subject import make_app, preload
from redrive import Redrive
from redrive.office.audit import Actor
from redrive.office.filters import parse
from redrive.office.groups import GroupBy
from redrive.office.operations import OperationKind, Order

LETTERS, SQL_LETTERS = 100_000, 10_000
_TIMES = 5
_ACTOR = Actor("bench", "bench")
_PAGE = f"tenant:tenant-3 code:{CAUSES[3][0]}"
_SQL = "select companyId, count(*) from dlq group by companyId order by 2 desc"
_REDRIVE = {"sqlite": 5_000.0, "redis": 10_000.0}

GOALS = (
    *(
        goal
        for store, letters_a_second in _REDRIVE.items()
        for goal in (
            Goal(f"{store}: re-drive without a rate", f"{store} redrive", "/s", Above(letters_a_second)),
            Goal(f"{store}: processor a letter re-driven, ours", f"{store} redrive cpu", "us"),
            Goal(f"{store}: memory that the re-drive adds at most", f"{store} redrive memory", "MB"),
            Goal(f"{store}: groups by cause", f"{store} groups", "ms", Below(300.0)),
            Goal(f"{store}: first page of a tenant and a code", f"{store} page", "ms", Below(100.0)),
            Goal(f"{store}: SQL over {SQL_LETTERS:,}, with the copy", f"{store} sql", "ms", Below(500.0)),
        )
    ),
    Goal("redis: index made anew", "redis index", "s", Below(10.0)),
)


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print; 1 when a store failed, 2 for a folder that is no disk."""
    options = _parser().parse_args(arguments)
    place = options.folder or Path.cwd()
    try:
        machine.require_disk(place)
    except machine.NotADisk as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    found = machine.describe(place) | {"letters": f"{options.letters:,}", "rounds": str(options.rounds)}
    results, failed = Results(), dict[str, str]()
    for number in range(options.rounds):
        for store in options.only or _REDRIVE:
            print(f"bench: round {number + 1} of {options.rounds}: {store}", file=sys.stderr, flush=True)
            try:
                with _url(store, place) as url:
                    results.add(ask([sys.executable, "-m", "bench.dlq", store, url, str(options.letters)]))
            except (server.NoServer, subprocess.SubprocessError, ValueError) as error:
                failed[store] = why(error)
    print(report(GOALS, results.rounds, as_json=options.json, found=found, failed=failed))
    return 1 if failed else 0


@contextmanager
def _url(store: str, place: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=place) as made:
        folder = Path(made)
        if store == "sqlite":
            yield file_store(folder / "dlq.db")
        else:
            with server.running(folder) as url:
                yield url


async def _measure(name: str, url: str, letters: int) -> Figures:
    await _add(url, SQL_LETTERS)
    figures = {}
    async with make_app(url) as app:
        await app.index.catch_up()
        sql = app.office.acting(_ACTOR).sql
        figures["sql"] = 1000 * await _median_s(lambda: sql.ask(_SQL, reveal=True))
    await _add(url, letters - SQL_LETTERS)
    async with make_app(url) as app:
        figures |= await _measure_index(app)
        figures |= await _measure_redrive(app, letters)
    return {f"{name} {figure}": value for figure, value in figures.items()}


async def _add(url: str, count: int) -> None:
    await preload(url, count)
    await bury_all(url)


async def _measure_index(app: Redrive) -> Figures:
    index = app.index
    began_s = time.perf_counter()
    await index.catch_up()
    made_s = time.perf_counter() - began_s
    groups = app.office.acting(_ACTOR).groups
    return {
        "index": made_s,
        "groups": 1000 * await _median_s(lambda: groups.list(GroupBy.FINGERPRINT)),
        "page": 1000 * await _median_s(lambda: index.find(parse(_PAGE))),
    }


async def _measure_redrive(app: Redrive, letters: int) -> Figures:
    await app.index.catch_up()
    resident = [_resident_mb()]
    operations = app.office.acting(_ACTOR).operations
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    operation = await operations.start(Order(OperationKind.REDRIVE))
    seen = await operations.wait(operation.id, progress=lambda _: resident.append(_resident_mb()))
    passed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    assert seen.moved == letters, f"{seen.moved} of {letters} letters were moved"
    return {
        "redrive": letters / passed_s,
        "redrive cpu": 1e6 * cpu_s / letters,
        "redrive memory": max(resident) - resident[0],
    }


async def _median_s(question: Callable[[], Awaitable[object]]) -> float:
    passed = []
    for _ in range(_TIMES):
        began_s = time.perf_counter()
        await question()
        passed.append(time.perf_counter() - began_s)
    return statistics.median(passed)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/bench dlq", description="The dead-letter office.")
    parser.add_argument("--letters", type=int, default=LETTERS, help=f"dead letters ({LETTERS:,})")
    parser.add_argument("--rounds", type=int, default=1, help="rounds, of which the median counts (1)")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (the working folder)")
    parser.add_argument("--only", nargs="+", choices=tuple(_REDRIVE), help="one of the stores")
    parser.add_argument("--json", action="store_true", help="print JSON, with the figures of every round")
    return parser


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
