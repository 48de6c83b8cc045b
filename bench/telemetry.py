"""`python -m bench telemetry`: what watching costs, as processor time a message, on SQLite and on Redis.

Each figure is of a process of its own that submits messages of 1 KB one by one, 100 at a time, and works them
off: user and system time of the process, and on Redis that of the server besides. Off is without sinks; on is
what `redrive worker` does by default: JSON lines into a file, totals, and the office's duties; the traced one
has spans besides, of an SDK that makes all of them and exports none. In a round all follow one another, so
that a neighbour's load falls on each.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench import stores
from bench.goals import AtMost, Beside, Goal, Shown
from bench.load import BATCH, Figures
from bench.redis.server import Meter
from bench.running import ask
from bench.stores import STORES
from bench.subject import QUEUE, Tally, submissions, working
from redrive import Permanent, Redrive
from redrive.config import Settings
from redrive.core.settings import TelemetrySettings
from redrive.telemetry.log_format import configure_logs

MESSAGES, ROUNDS = 10_000, 5
LIMIT = 1.1


@dataclass(frozen=True, slots=True)
class Kind:
    """What is on, and whether every message fails for good."""

    name: str
    sinks: str = TelemetrySettings().sinks
    tracing: bool = False
    fails: bool = False
    hooks: bool = False


KINDS = (
    Kind("off", sinks=""),
    Kind("on"),
    Kind("hooked", hooks=True),
    Kind("traced", tracing=True),
    Kind("failing off", sinks="", fails=True),
    Kind("failing on", fails=True),
)
GOALS = tuple(
    goal
    for store in STORES
    for goal in (
        Goal(f"{store}: a message, nothing watches", f"{store} off", "µs", Shown()),
        Goal(
            f"{store}: logs and totals, as by default", f"{store} on", "µs", AtMost(LIMIT, (f"{store} off",))
        ),
        Goal(f"{store}: and a hook on each message", f"{store} hooked", "µs", Beside(f"{store} off")),
        Goal(f"{store}: and spans that nobody exports", f"{store} traced", "µs", Beside(f"{store} off")),
        Goal(f"{store}: a message that dies, nothing watches", f"{store} failing off", "µs", Shown()),
        Goal(
            f"{store}: the same, as by default",
            f"{store} failing on",
            "µs",
            AtMost(LIMIT, (f"{store} failing off",)),
        ),
    )
)


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print."""
    parser = stores.parser("telemetry", "What watching costs.")
    parser.set_defaults(rounds=ROUNDS)
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"messages ({MESSAGES:,})")
    options = parser.parse_args(arguments)
    return stores.run("bench.telemetry", GOALS, options, messages=options.messages)


def _measure_all(store: str, url: str, messages: str) -> Figures:
    figures: Figures = {}
    for kind in KINDS:
        figures |= ask([sys.executable, "-m", "bench.telemetry", kind.name, store, url, messages])
    return figures


async def _measure(kind: Kind, store: str, url: str, messages: int) -> Figures:
    app = Redrive(settings=_settings(kind, url))
    _register(app, kind)
    tally = Tally(messages)
    app.telemetry.add(tally)
    meter = Meter.of(url) if store == "redis" else None
    async with app:
        began_s = _processor_s(meter)
        waiting = submissions(messages)
        async with working(app):
            while batch := list(islice(waiting, BATCH)):
                await asyncio.gather(*(app.submit(QUEUE, one.payload, tenant=one.tenant) for one in batch))
            await tally.reached()
        taken_s = _processor_s(meter) - began_s
    return {f"{store} {kind.name}": 1e6 * taken_s / messages}


def _settings(kind: Kind, url: str) -> Settings:
    """A store of its own for each."""
    name = kind.name.replace(" ", "-")
    own = f"{url}?prefix={name}" if url.startswith("redis") else url.replace("store.db", f"{name}.db")
    return Settings(store=own, telemetry=TelemetrySettings(sinks=kind.sinks, tracing=kind.tracing))


def _register(app: Redrive, kind: Kind) -> None:
    async def handle(payload: dict[str, Any]) -> None:
        if kind.fails:
            raise Permanent("550 no such mailbox", code="550")

    async def hear(event: object) -> None:
        return None

    app.handler(QUEUE)(handle)
    if kind.hooks:
        app.on("done")(hear)


def _processor_s(meter: Meter | None) -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime + (0.0 if meter is None else meter.processor_s())


def _trace() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())


def _measure_one(name: str, store: str, url: str, messages: int) -> Figures:
    kind = next(one for one in KINDS if one.name == name)
    if kind.tracing:
        _trace()
    with (Path.cwd() / f".bench-{name}.log").open("w") as log:
        configure_logs("info", "json", log)
        try:
            return asyncio.run(_measure(kind, store, url, messages))
        finally:
            configure_logs("info", "json")
            Path(log.name).unlink()


if __name__ == "__main__":
    first, *rest = sys.argv[1:]
    if first in STORES:
        print(json.dumps(_measure_all(first, *rest)))
    else:
        print(json.dumps(_measure_one(first, rest[0], rest[1], int(rest[2]))))
