"""The subjects that are measured on SQLite and on Redis alike: a fresh store of each, a process a round."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import machine
from bench.goals import Goal
from bench.load import file_store
from bench.redis import server
from bench.report import report
from bench.running import Results, ask, why

STORES = ("sqlite", "redis")
_TIMES = 5
_PATIENCE_S = 3_600.0


def parser(subject: str, description: str) -> argparse.ArgumentParser:
    """The options that all of them have."""
    made = argparse.ArgumentParser(prog=f"script/bench {subject}", description=description)
    made.add_argument("--rounds", type=int, default=1, help="rounds, of which the median counts (1)")
    made.add_argument("--folder", type=Path, help="a folder on the disk to measure (the working folder)")
    made.add_argument("--only", nargs="+", choices=STORES, help="one of the stores")
    made.add_argument("--json", action="store_true", help="print JSON, with the figures of every round")
    return made


def run(module: str, goals: Sequence[Goal], options: argparse.Namespace, **counts: int) -> int:
    """Measure, judge, print; 1 when a store failed, 2 for a folder that is no disk.

    The module is asked with the store's name, its address and the counts, and prints its figures.
    """
    place = options.folder or Path.cwd()
    try:
        machine.require_disk(place)
    except machine.NotADisk as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    found = machine.describe(place) | {name: f"{count:,}" for name, count in counts.items()}
    results, failed = Results(), dict[str, str]()
    for number in range(options.rounds):
        for store in options.only or STORES:
            print(f"bench: round {number + 1} of {options.rounds}: {store}", file=sys.stderr, flush=True)
            try:
                with _url(store, place) as url:
                    command = [sys.executable, "-m", module, store, url, *map(str, counts.values())]
                    results.add(ask(command, _PATIENCE_S))
            except (server.NoServer, subprocess.SubprocessError, ValueError) as error:
                failed[store] = why(error)
    print(report(goals, results.rounds, as_json=options.json, found=found, failed=failed))
    return 1 if failed else 0


async def median_s(question: Callable[[], Awaitable[object]]) -> float:
    """Seconds that a question takes, asked several times."""
    passed = []
    for _ in range(_TIMES):
        began_s = time.perf_counter()
        await question()
        passed.append(time.perf_counter() - began_s)
    return statistics.median(passed)


@contextmanager
def _url(store: str, place: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=place) as made:
        folder = Path(made)
        if store == "sqlite":
            yield file_store(folder / "store.db")
        else:
            with server.running(folder) as url:
                yield url
