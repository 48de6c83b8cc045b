"""Our own figures on a broker, and those of the bare driver beside them; each part in a process of its own.

Arguments: the part, the broker's address, how many messages, a folder. Answers with figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aio_pika

from bench.load import PAYLOAD, Figures
from redrive import Permanent, Redrive
from redrive.brokers.carried import CarriedStore
from redrive.brokers.collector import Collector
from redrive.core.letters import LetterKey
from redrive.office.duties import DUTY_RECORDS
from redrive.wiring import load

QUEUE = "q.bench"
_BODY = json.dumps(PAYLOAD).encode()
_WINDOW = 500
_ACKNOWLEDGED = 50
_SAMPLES = 100


class _Clock:
    """Seconds on the wall and of this process's processor time, since it was made."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def figures(self, name: str, count: int) -> Figures:
        """So many a second, and microseconds of processor time for each."""
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        return {name: count / wall_s, f"{name} cpu": cpu_s / count * 1e6}


def _app(url: str, folder: Path, **given: str) -> Redrive:
    flags = {"store": url, "data": str(folder), "telemetry.sinks": "logs,totals"} | given
    return Redrive(settings=load(flags, environ={}))


async def _declare(app: Redrive) -> CarriedStore:
    store = app.store
    assert isinstance(store, CarriedStore)
    await store.carrier.collect(QUEUE, 0)
    await store.carrier.stop(QUEUE)
    return store


async def _fill(url: str, queue: str, count: int) -> Figures:
    """Publish with confirms in a window by aio-pika."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        clock = _Clock()
        for start in range(0, count, _WINDOW):
            await asyncio.gather(
                *(
                    channel.default_exchange.publish(
                        aio_pika.Message(
                            _BODY, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, message_id=f"m-{number}"
                        ),
                        queue,
                    )
                    for number in range(start, min(start + _WINDOW, count))
                )
            )
        return clock.figures("bare publish", count)


async def bare(url: str, count: int, folder: Path) -> Figures:
    """aio-pika alone: publishing, and consuming in batches of acknowledgements."""
    async with _app(url, folder) as app:
        await _declare(app)
    published = await _fill(url, QUEUE, count)
    done, seen = asyncio.Event(), [0]
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=_WINDOW)
        queue = await channel.get_queue(QUEUE, ensure=False)

        async def handle(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            json.loads(message.body)
            seen[0] += 1
            if seen[0] % _ACKNOWLEDGED == 0 or seen[0] == count:
                await message.ack(multiple=True)
            if seen[0] == count:
                done.set()

        clock = _Clock()
        await queue.consume(handle)
        await done.wait()
        consumed = clock.figures("bare consume", count)
    return published | consumed


async def consume(url: str, count: int, folder: Path) -> Figures:
    """Our consumer with everything on: policy, deadlines, events, totals."""
    return await _run("consume", _app(url, folder), url, count, _nothing)


async def classic(url: str, count: int, folder: Path) -> Figures:
    """The same from a queue of the kind that Celery and dramatiq declare."""
    topology = folder / "topology.toml"
    topology.write_text(f'[queues."{QUEUE}"]\ntype = "classic"\n')
    app = _app(url, folder, **{"broker.topology": str(topology)})
    return await _run("consume classic", app, url, count, _nothing)


async def park(url: str, count: int, folder: Path) -> Figures:
    """Every message is parked with a confirm, then acknowledged; another process would collect."""
    return await _run("park", _app(url, folder), url, count, _fail)


async def _run(name: str, app: Redrive, url: str, count: int, end: Callable[[], None]) -> Figures:
    seen, clock, done = [0], [_Clock()], asyncio.Event()

    @app.handler(QUEUE, concurrency=100)
    async def handle(payload: dict[str, Any]) -> None:
        seen[0] += 1
        if seen[0] == 1:
            clock[0] = _Clock()
        if seen[0] == count:
            done.set()
        end()

    async with app:
        store = await _declare(app)
        await store.put_record(
            DUTY_RECORDS, "collect", {"holder": "another process"}, expected=None, ttl_s=600
        )
        await _fill(url, QUEUE, count)
        worker = asyncio.create_task(app.run(signals=False))
        await done.wait()
        while store.outstanding:  # noqa: ASYNC110 - the end of the last settlements is told to nobody
            await asyncio.sleep(0.001)
        figures = clock[0].figures(name, count)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return figures


def _nothing() -> None:
    """The handler's work."""


def _fail() -> None:
    raise Permanent("parked")


async def letters(url: str, count: int, folder: Path) -> Figures:
    """Letters of a dead-letter queue into the ledger, and back to their queue."""
    async with _app(url, folder) as app:
        store = await _declare(app)
        await _fill(url, f"{QUEUE}.dlq", count)
        clock = _Clock()
        await _collect(store, count, lambda _: None)
        collected = clock.figures("collect", count)
        keys, cursor = list[LetterKey](), None
        while len(keys) < count:
            page = await store.letters(QUEUE, after=cursor)
            cursor = page.cursor
            keys += [LetterKey(one.message.id, 0) for one in page.letters]
        clock = _Clock()
        for start in range(0, count, _WINDOW):
            await store.redrive(QUEUE, keys[start : start + _WINDOW], actor="bench", operation="bench")
        return collected | clock.figures("redrive", count)


async def _collect(store: CarriedStore, count: int, tell: Callable[[int], None]) -> None:
    collector, found = Collector(store), 0
    while found < count:
        await asyncio.sleep(await collector.step())
        found = sum(one.dlq for one in await store.ledger.queues() if one.queue == QUEUE)
        tell(found)
    await collector.stop()


async def fill(url: str, count: int, folder: Path) -> Figures:
    """Letters for another process to collect."""
    async with _app(url, folder) as app:
        await _declare(app)
    return await _fill(url, f"{QUEUE}.dlq", count)


async def backlog(url: str, count: int, folder: Path) -> Figures:
    """Collect what is there, with an eye on the memory: what a tenth of it took is all it may take."""
    samples: dict[int, float] = {}

    def look(found: int) -> None:
        samples.setdefault(found * _SAMPLES // count, _resident_mb())

    async with _app(url, folder) as app:
        store, clock = await _declare(app), _Clock()
        await _collect(store, count, look)
        figures = clock.figures("backlog", count)
    tenth = max(mb for share, mb in samples.items() if share <= _SAMPLES // 10)
    over_time = {f"backlog memory at {share} %": mb for share, mb in samples.items() if share % 25 == 0}
    return figures | {"backlog tenth": tenth, "backlog memory": max(samples.values())} | over_time


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576


_PARTS: dict[str, Callable[[str, int, Path], Awaitable[Figures]]] = {
    "bare": bare,
    "consume": consume,
    "classic": classic,
    "park": park,
    "letters": letters,
    "fill": fill,
    "backlog": backlog,
}


async def _main(part: str, url: str, count: int, folder: Path) -> Figures:
    return await _PARTS[part](url, count, folder)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))))
