"""The peers, as their users run them, each with every commit on disk where it can be had.

Runs in the peers' own environment, where neither Redrive nor its dependencies are: standard library and
`bench.load` only. Prints its figures as JSON. A peer's messages wait before the clock starts.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from bench.load import PAYLOAD, Conditions, Figures, answer

_HUEY_WORKERS = (1, 4)
_HUEY_MESSAGES_A_SECOND = 1_000
# persist-queue and litequeue keep what is done and slow down with it: few messages show them at their best.
_MESSAGES = 1_000


def measure_huey(conditions: Conditions) -> Figures:
    """Processed a second by huey's consumer on SQLite with fsync; the better of 1 and 4 threads."""
    return {"huey": max(_huey(conditions, workers) for workers in _HUEY_WORKERS)}


def _huey(conditions: Conditions, workers: int) -> float:
    from huey import SqliteHuey  # type: ignore[import-not-found]

    count = round(_HUEY_MESSAGES_A_SECOND * conditions.seconds)
    queue = SqliteHuey("bench", filename=str(conditions.folder / f"huey{workers}.db"), fsync=True)
    done, lock, ended = [0], threading.Lock(), threading.Event()

    @queue.task()  # type: ignore[untyped-decorator]
    def handle(payload: dict[str, Any]) -> None:
        with lock:
            done[0] += 1
            if done[0] == count:
                ended.set()

    for _ in range(count):
        handle(PAYLOAD)
    consumer = queue.create_consumer(workers=workers, worker_type="thread", periodic=False)
    began_s = time.perf_counter()
    consumer.start()
    ended.wait()
    passed_s = time.perf_counter() - began_s
    consumer.stop(graceful=True)
    return count / passed_s


def measure_persist_queue(conditions: Conditions) -> Figures:
    """Got and acknowledged a second on persist-queue's SQLiteAckQueue, which leaves fsync on."""
    from persistqueue import SQLiteAckQueue  # type: ignore[import-not-found]

    queue = SQLiteAckQueue(str(conditions.folder / "persist-queue"))
    for _ in range(_MESSAGES):
        queue.put(PAYLOAD)
    began_s = time.perf_counter()
    for _ in range(_MESSAGES):
        queue.ack(queue.get())
    return {"persist-queue": _MESSAGES / (time.perf_counter() - began_s)}


def measure_litequeue(conditions: Conditions) -> Figures:
    """Popped and marked done a second on litequeue, which turns fsync on commit off by itself."""
    from litequeue import LiteQueue  # type: ignore[import-not-found]

    text = json.dumps(PAYLOAD)
    queue = LiteQueue(str(conditions.folder / "litequeue.db"))
    for _ in range(_MESSAGES):
        queue.put(text)
    began_s = time.perf_counter()
    for _ in range(_MESSAGES):
        message = queue.pop()
        json.loads(message.data)
        queue.done(message.message_id)
    return {"litequeue": _MESSAGES / (time.perf_counter() - began_s)}


_PEERS: dict[str, Callable[[Conditions], Figures]] = {
    "huey": measure_huey,
    "persist-queue": measure_persist_queue,
    "litequeue": measure_litequeue,
}

if __name__ == "__main__":
    answer(_PEERS, sys.argv[1:])
