"""`python -m bench dlq`: what people do with dead letters, on SQLite and on Redis, a process each.

Letters of 1 KB of 20 tenants and 20 causes. Questions are asked several times and the median counts; the
re-drive is one operation over all of them, without a rate limit, to its end in the audit.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import stores
from bench.goals import Above, Below, Goal
from bench.letters import CAUSES, bury_all
from bench.load import Figures
from bench.stores import median_s
from bench.subject import make_app, preload
from redrive import Redrive
from redrive.office.audit import Actor
from redrive.office.filters import parse
from redrive.office.groups import GroupBy
from redrive.office.operations import OperationKind, Order
from redrive.office.operations.operation import NO_RATE

LETTERS, SQL_LETTERS = 100_000, 10_000
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
    """Measure, judge, print."""
    parser = stores.parser("dlq", "The dead-letter office.")
    parser.add_argument("--letters", type=int, default=LETTERS, help=f"dead letters ({LETTERS:,})")
    options = parser.parse_args(arguments)
    return stores.run("bench.dlq", GOALS, options, letters=options.letters)


async def _measure(name: str, url: str, letters: int) -> Figures:
    await _add(url, SQL_LETTERS)
    figures = {}
    async with make_app(url) as app:
        await app.index.catch_up()
        sql = app.office.acting(_ACTOR).sql
        figures["sql"] = 1000 * await median_s(lambda: sql.ask(_SQL, reveal=True))
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
        "groups": 1000 * await median_s(lambda: groups.list(GroupBy.FINGERPRINT)),
        "page": 1000 * await median_s(lambda: index.find(parse(_PAGE))),
    }


async def _measure_redrive(app: Redrive, letters: int) -> Figures:
    await app.index.catch_up()
    resident = [_resident_mb()]
    operations = app.office.acting(_ACTOR).operations
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    operation = await operations.start(Order(OperationKind.REDRIVE, rate=NO_RATE, canary=0))
    seen = await operations.wait(operation.id, progress=lambda _: resident.append(_resident_mb()))
    passed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    assert seen.moved == letters, f"{seen.moved} of {letters} letters were moved"
    return {
        "redrive": letters / passed_s,
        "redrive cpu": 1e6 * cpu_s / letters,
        "redrive memory": max(resident) - resident[0],
    }


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
