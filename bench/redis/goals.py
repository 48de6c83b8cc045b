"""What is to be reached on Redis: ratios within one run, and limits of processor time and bytes."""

from __future__ import annotations

from bench.goals import PROCESSES, Above, AtLeast, AtMost, Below, Goal
from bench.lanes import DEEP
from bench.redis.peers import PEERS
from bench.redis.room import CAPACITY_MB

GOALS = (
    Goal("processed by one worker, against BullMQ", "process", "/s", AtLeast(4.0, ("bullmq",), floor=2.5)),
    Goal(
        "processed, against the best Python peer",
        "process",
        "/s",
        AtLeast(15.0, tuple(peer.name for peer in PEERS), floor=10.0),
    ),
    Goal("processed on uvloop", "process on uvloop", "/s"),
    *PROCESSES,
    Goal(
        "processed beside 100,000 scheduled retries, against without",
        "process beside retries",
        "/s",
        AtLeast(0.95, ("process",), floor=0.9),
    ),
    Goal(
        "submit_many of 1,000, against addBulk",
        "submit 1000",
        "/s",
        AtLeast(3.0, ("bullmq bulk",), floor=2.5),
    ),
    Goal(
        "200 tasks submitting one at a time, against BullMQ",
        "submit singly",
        "/s",
        AtLeast(1.5, ("bullmq singly",), floor=1.3),
    ),
    Goal("Redis processor a message: append", "append redis cpu", "us", Below(20.0)),
    Goal("Redis processor a message: claim and settle", "process redis cpu", "us", Below(25.0)),
    Goal("worker's processor a message", "process python cpu", "us"),
    Goal("submitter's processor a message", "append python cpu", "us"),
    Goal(
        "latency at 200/s, p50, against BullMQ",
        "light load p50",
        "ms",
        AtMost(1.0, ("bullmq light p50",), floor=1.2),
    ),
    Goal(
        "latency at 200/s, p99, against BullMQ",
        "light load p99",
        "ms",
        AtMost(1.0, ("bullmq light p99",), floor=1.2),
    ),
    Goal(
        "claim of 100, 10,000 tenants against 3",
        "claim many tenants",
        "ms",
        AtMost(1.3, ("claim few tenants",), floor=1.4),
    ),
    Goal(
        "the same in the server's scripts",
        "claim cpu many tenants",
        "ms",
        AtMost(1.3, ("claim cpu few tenants",), floor=1.4),
    ),
    Goal("commands of an idle worker, one queue", "idle commands", "/s", Below(2.0, floor=4.0)),
    Goal(
        f"claim of 100, {DEEP:,} waiting against 1,000", "claim deep", "ms", AtMost(1.3, ("claim shallow",))
    ),
    Goal("the same in the server's scripts", "claim cpu deep", "ms", AtMost(1.3, ("claim cpu shallow",))),
    Goal(f"{DEEP:,} waiting, memory of Redis", "memory of deep", "GB", Below(1.6)),
    Goal("a pending message of 1 KB with dedupe, 20 tenants", "bytes pending", "B", Below(1_520.0)),
    Goal("a dead letter of 1 KB, 1 failure", "bytes dead", "B"),
    Goal(f"waiting messages in {CAPACITY_MB} MB", "capacity pending", "", Above(300_000.0)),
    Goal(f"dead letters in {CAPACITY_MB} MB", "capacity dead", "", Above(200_000.0)),
    Goal("filled for that, before scaling", "capacity limit", "MB"),
    Goal("peer: BullMQ, 10,000 finished kept", "bullmq", "/s"),
    Goal("peer: BullMQ, nothing finished kept", "bullmq forgetting", "/s"),
    Goal("peer: BullMQ, Redis processor a job: addBulk", "bullmq bulk cpu", "us"),
    Goal("peer: BullMQ, Redis processor a job: process", "bullmq cpu", "us"),
    Goal("peer: BullMQ, a waiting job of 1 KB with its own id", "bullmq bytes", "B"),
    *(Goal(f"peer: {peer.name}", peer.name, "/s") for peer in PEERS),
)
