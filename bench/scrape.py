"""`python -m bench scrape`: what looking costs: `/metrics` and the overview, on SQLite and on Redis.

Messages of 1 KB of 1,000 tenants: two fifths wait, two fifths are retries for later, a fifth is dead; every
label is given, and each histogram has something in every bucket. Asked several times, and the median counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence

from bench import stores
from bench.goals import Below, Goal
from bench.lanes import schedule_retries
from bench.letters import bury_all
from bench.load import Figures
from bench.stores import STORES, median_s
from bench.subject import QUEUE, make_app, preload
from redrive import Redrive
from redrive.core.failure import Kind
from redrive.core.totals import (
    BOUNDS,
    LABEL_LIMITS,
    SUM,
    Flow,
    LabelKind,
    Measured,
    Occurrence,
    Total,
    TotalsBatch,
    label_kind,
)
from redrive.office.audit import Actor
from redrive.office.metrics import scrape
from redrive.telemetry.totals import HIGHEST_ATTEMPT

MESSAGES, TENANTS = 100_000, 1_000
_ACTOR = Actor("bench", "bench")

GOALS = tuple(
    goal
    for store in STORES
    for goal in (
        Goal(f"{store}: a scrape", f"{store} scrape", "ms", Below(200.0)),
        Goal(f"{store}: its length", f"{store} length", "KB"),
        Goal(f"{store}: the overview, causes counted", f"{store} first overview", "ms"),
        Goal(f"{store}: the overview again", f"{store} overview", "ms", Below(200.0)),
    )
)


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print."""
    parser = stores.parser("scrape", "What looking costs.")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"messages ({MESSAGES:,})")
    parser.add_argument("--tenants", type=int, default=TENANTS, help=f"tenants ({TENANTS:,})")
    options = parser.parse_args(arguments)
    return stores.run("bench.scrape", GOALS, options, messages=options.messages, tenants=options.tenants)


async def _measure(name: str, url: str, messages: int, tenants: int) -> Figures:
    await preload(url, messages // 5, tenants)
    await bury_all(url)
    await schedule_retries(url, 2 * messages // 5, tenants)
    await preload(url, 2 * messages // 5, tenants)
    async with make_app(url) as app:
        await app.store.add_totals(TotalsBatch("bench", 1, tuple(_every_total(tenants))))
        figures = await _look(app)
    return {f"{name} {figure}": value for figure, value in figures.items()}


async def _look(app: Redrive) -> Figures:
    text = (await scrape(app.store)).text()
    await app.index.catch_up()
    overview = app.office.acting(_ACTOR).overview

    async def scraped() -> str:
        return (await scrape(app.store)).text()

    began_s = time.perf_counter()
    await overview.show()
    first_s = time.perf_counter() - began_s
    return {
        "scrape": 1000 * await median_s(scraped),
        "length": len(text) / 1000,
        "first overview": 1000 * first_s,
        "overview": 1000 * await median_s(overview.show),
    }


def _every_total(tenants: int) -> Iterator[Total]:
    """Something for every label and every bucket there is."""
    labels = {
        LabelKind.NONE: [""],
        LabelKind.QUEUE: [QUEUE, *(f"queue-{number}" for number in range(LABEL_LIMITS[LabelKind.QUEUE]))],
        LabelKind.TENANT: [f"tenant-{number}" for number in range(tenants)],
        LabelKind.CODE: [f"5{number:02}" for number in range(LABEL_LIMITS[LabelKind.CODE])],
    }
    parts: dict[object, list[str]] = {
        Occurrence.ATTEMPTS: [str(number + 1) for number in range(HIGHEST_ATTEMPT)],
        Occurrence.SUCCEEDED: [str(number + 1) for number in range(HIGHEST_ATTEMPT)],
        Occurrence.FAILURES: [kind.value for kind in Kind],
        **{name: [*map(str, range(len(BOUNDS[name]) + 1)), SUM] for name in Measured},
    }
    for name in (*Flow, *Occurrence, *Measured):
        for label in labels[label_kind(name)]:
            for part in parts.get(name, [""]):
                yield Total(name, label, part, 7)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))))
