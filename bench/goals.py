"""What is to be reached: each goal names a figure of ours and what it is held against, in the same run."""

from __future__ import annotations

from dataclasses import dataclass

from bench.lanes import DEEP


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Ours is at least `share` of the best of these figures; `floor` is what must not be missed."""

    share: float
    of: tuple[str, ...]
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class AtMost:
    """Ours is at most `share` of this figure; `floor` is what must not be missed."""

    share: float
    of: tuple[str, ...]
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Below:
    """Ours is below a fixed limit; `floor` is what must not be missed."""

    limit: float
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Above:
    """Ours is a fixed limit or more."""

    limit: float


@dataclass(frozen=True, slots=True)
class Beside:
    """No goal: a figure worth knowing beside another."""

    other: str


@dataclass(frozen=True, slots=True)
class Shown:
    """No goal: a figure worth knowing."""


Aim = AtLeast | AtMost | Above | Below | Beside | Shown


@dataclass(frozen=True, slots=True)
class Goal:
    """One row of the table."""

    name: str
    ours: str
    unit: str
    aim: Aim = Shown()


FSYNCING_PEERS = ("huey", "persist-queue")

PROCESSES = tuple(
    Goal(
        f"processed by `redrive worker --processes {count}`, {words}",
        f"{handler} by {count}",
        "/s",
        Shown() if count == 1 else Beside(f"{handler} by 1"),
    )
    for handler, words in (("idle_handler", "handler does nothing"), ("busy_handler", "handler takes 0.2 ms"))
    for count in (1, 2, 4)
)

GOALS = (
    Goal("fsyncs of 4 KB", "fsync", "/s"),
    Goal("limit: bare append, batches of 100", "bare append", "/s"),
    Goal("limit: bare take and finish, batches of 100", "bare process", "/s"),
    Goal("limit: one commit a message", "one commit a message", "/s"),
    Goal("submit_many, 100 a batch, against bare append", "submit 100", "/s", AtLeast(0.5, ("bare append",))),
    Goal(
        "submit_many, 1,000 a batch, against bare append",
        "submit 1000",
        "/s",
        AtLeast(0.5, ("bare append",), floor=0.4),
    ),
    Goal(
        "200 tasks submitting one at a time, against one commit a message",
        "submit singly",
        "/s",
        AtLeast(5.0, ("one commit a message",)),
    ),
    Goal(
        "processed, against bare take and finish",
        "process",
        "/s",
        AtLeast(0.4, ("bare process",), floor=0.35),
    ),
    Goal(
        "processed, against the best peer with fsync",
        "process",
        "/s",
        AtLeast(10.0, FSYNCING_PEERS, floor=8.0),
    ),
    Goal("processed on uvloop", "process on uvloop", "/s"),
    Goal("processed by a def handler", "process in threads", "/s"),
    *PROCESSES,
    Goal("peer: huey, SQLite, fsync", "huey", "/s"),
    Goal("peer: persist-queue, SQLiteAckQueue", "persist-queue", "/s"),
    Goal("peer: litequeue, not fully durable", "litequeue", "/s"),
    Goal(
        "claim of 100, 10,000 tenants against 3",
        "claim many tenants",
        "ms",
        AtMost(1.3, ("claim few tenants",), floor=1.4),
    ),
    Goal(
        "the same on the processor alone",
        "claim cpu many tenants",
        "ms",
        AtMost(1.3, ("claim cpu few tenants",), floor=1.4),
    ),
    Goal(
        f"claim of 100, {DEEP:,} waiting against 1,000", "claim deep", "ms", AtMost(1.3, ("claim shallow",))
    ),
    Goal("the same on the processor alone", "claim cpu deep", "ms", AtMost(1.3, ("claim cpu shallow",))),
    Goal(
        "claim, settle and append 100 beside 100,000 scheduled retries, against without",
        "cycle beside retries",
        "ms",
        AtMost(1.1, ("cycle without retries",)),
    ),
    Goal(
        "processed beside 100,000 scheduled retries, against without",
        "process beside retries",
        "/s",
        AtLeast(0.95, ("process",), floor=0.9),
    ),
    Goal(f"fill with {DEEP:,}", "fill", "/s"),
    Goal("wake-up in the same process, p50", "wake in process p50", "ms"),
    Goal("wake-up in the same process, p99", "wake in process p99", "ms", Below(20.0)),
    Goal("wake-up from another process, p50", "wake from another process p50", "ms"),
    Goal("wake-up from another process, p99", "wake from another process p99", "ms", Below(20.0)),
    Goal("processor share of an idle worker", "idle cpu", "%", Below(2.0)),
    Goal("latency at 200/s, p50", "light load p50", "ms", Below(50.0)),
    Goal("latency at 200/s, p95", "light load p95", "ms", Below(250.0)),
    Goal("latency at 200/s, p99", "light load p99", "ms"),
    Goal("from redrive import Redrive, best of 7", "import", "ms", Below(100.0, floor=130.0)),
    Goal("redrive --help, best of 7", "help", "s", Below(0.2, floor=0.3)),
    Goal(f"peak memory of a worker with {DEEP:,} waiting", "worker memory", "MB", Below(100.0)),
    Goal("disk for a pending message of 1 KB", "bytes pending", "B", Below(2_048.0)),
    Goal("disk for a dead letter of 1 KB, 1 failure", "bytes dead at once", "B", Below(3_072.0)),
    Goal("disk for a dead letter of 1 KB, 5 failures", "bytes dead after 5", "B", Below(3_072.0)),
)
