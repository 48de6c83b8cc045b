"""The same failure many times is one piece of news: in full at first, then once a minute with a count."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from redrive import Permanent, Redrive, Submission
from redrive.config import Settings
from redrive.config.keys import LogSettings
from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lease, Message, Progress
from redrive.core.verdict import Reason
from redrive.telemetry.events import Buried, Completed, Event, RetryScheduled, WorkerStopped
from redrive.telemetry.log_format import configure_logs
from redrive.telemetry.log_sink import LogSink
from redrive.telemetry.repeats import KINDS, Repeated, Repeats

DELIVERY = Delivery(
    Message("019a8b7c-1234-7abc-8def-0123456789ab", "orders", "acme", b'{"card": 4111}', 0, 60.0),
    Progress(State.CLAIMED, 0, 60_000, attempts=1),
    Lease("orders", "token", 30_000),
)
REFUSED = Failure(1, 1, Kind.TEMPORARY, "connection refused, token=s3cret", code="111", fingerprint="aa")
RETRY = RetryScheduled(DELIVERY, REFUSED, 5, 1000)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    logger = logging.getLogger("redrive")
    before = (logger.handlers[:], logger.level, logger.propagate)
    text = io.StringIO()
    configure_logs("info", "json", text)
    yield text
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def _sampled(clock: Clock, reports: list[Repeated[str]]) -> Repeats[str]:
    return Repeats(reports.append, clock=clock)


def _at_once(sink: LogSink) -> LogSink:
    """The sink, for which no time passes."""
    sink._repeats._clock = Clock()
    return sink


def _times(repeats: Repeats[str], count: int, kind: str = "one") -> int:
    """How many of so many are logged in full."""
    return sum(repeats.admit(kind, 3, lambda: kind) for _ in range(count))


def test_of_what_happened_together_the_log_holds_what_its_level_asks_for(stream: io.StringIO) -> None:
    done = Completed(DELIVERY, 0.1)
    LogSink().hear_all([done, RETRY, done])
    logging.getLogger("redrive").setLevel(logging.WARNING)
    LogSink().hear_all([done, RETRY, done])
    levels = [json.loads(line)["level"] for line in stream.getvalue().splitlines()]
    assert levels == ["info", "warn", "info", "warn"]


def test_a_failure_is_logged_in_full_the_first_times_and_then_counted() -> None:
    clock, reports = Clock(), list[Repeated[str]]()
    repeats = _sampled(clock, reports)
    assert _times(repeats, 4_000) == 3
    assert reports == []
    clock.now_s += 60
    assert _times(repeats, 10) == 0
    assert reports == [Repeated("one", 4_000, 3_997, 60.0)]
    repeats.flush()


def test_a_failure_within_the_limit_is_never_counted() -> None:
    clock, reports = Clock(), list[Repeated[str]]()
    repeats = _sampled(clock, reports)
    for _ in range(10):
        assert _times(repeats, 3) == 3
        clock.now_s += 60
    repeats.flush()
    assert reports == []


def test_a_failure_that_became_rare_is_logged_in_full_again() -> None:
    clock, reports = Clock(), list[Repeated[str]]()
    repeats = _sampled(clock, reports)
    _times(repeats, 100)
    clock.now_s += 60
    assert _times(repeats, 2) == 0
    clock.now_s += 60
    assert _times(repeats, 2) == 2
    assert [one.count for one in reports] == [100, 2]


def test_a_failure_that_comes_back_after_a_quiet_minute_is_logged_in_full() -> None:
    clock, reports = Clock(), list[Repeated[str]]()
    repeats = _sampled(clock, reports)
    _times(repeats, 100)
    repeats.flush()
    clock.now_s += 61
    assert _times(repeats, 1) == 1


def test_the_count_is_reported_even_if_the_failure_stops() -> None:
    reported, reports = threading.Event(), list[Repeated[str]]()

    def report(one: Repeated[str]) -> None:
        reports.append(one)
        reported.set()

    clock = Clock()
    repeats = Repeats(report, window_s=0.01, clock=clock)
    _times(repeats, 10)
    clock.now_s += 0.01
    assert reported.wait(10)
    assert (reports[0].count, reports[0].untold) == (10, 7)


def test_different_failures_are_counted_apart_and_memory_is_bounded() -> None:
    clock, reports = Clock(), list[Repeated[str]]()
    repeats = _sampled(clock, reports)
    for number in range(3 * KINDS):
        _times(repeats, 1, f"kind {number}")
    assert len(repeats._windows) <= KINDS + 1
    assert _times(repeats, 1, "yet another") == 0
    clock.now_s += 120
    assert _times(repeats, 1, "yet another") == 1
    repeats.flush()


def test_the_line_says_how_often_with_what_all_of_them_share(stream: io.StringIO) -> None:
    sink = _at_once(LogSink(repeats=2))
    for number in range(4_000):
        message = replace(DELIVERY.message, id=f"message {number}", tenant=f"tenant {number}")
        sink(RetryScheduled(replace(DELIVERY, message=message), REFUSED, 5, 1000))
    sink(WorkerStopped("worker", 0))
    *full, count, stopped = _lines(stream)
    assert [line["jobId"] for line in full] == ["message 0", "message 1"]
    del count["timestamp"]
    assert count == {
        "level": "warn",
        "message": "Job failed, scheduling retry: same failure 4,000 times in 1 s",
        "queue": "orders",
        "maxAttempts": 5,
        "errorCode": "111",
        "errorReason": "connection refused, token=***",
        "isRetryable": True,
        "kind": "temporary",
        "fingerprint": "aa",
        "count": 4_000,
        "notLogged": 3_998,
        "windowS": 1,
    }
    assert stopped["message"] == "Worker stopped"


def test_another_queue_another_cause_and_another_outcome_are_not_the_same_failure(
    stream: io.StringIO,
) -> None:
    sink = LogSink(repeats=1)
    other_queue = replace(DELIVERY, message=replace(DELIVERY.message, queue="mails"))
    other_cause = Failure(1, 1, Kind.TEMPORARY, "timed out", fingerprint="bb")
    for _ in range(2):
        sink(RETRY)
        sink(RetryScheduled(other_queue, REFUSED, 5, 1000))
        sink(RetryScheduled(DELIVERY, other_cause, 5, 1000))
        sink(Buried(DELIVERY, REFUSED, Reason.EXHAUSTED, 5))
    assert len(_lines(stream)) == 4
    sink.flush()
    assert len(_lines(stream)) == 8


def test_completed_messages_have_a_limit_of_their_own(stream: io.StringIO) -> None:
    sink = _at_once(LogSink(repeats=1, completions=3))
    for _ in range(5):
        sink(Completed(DELIVERY, 0.01))
    sink(WorkerStopped("worker", 0))
    assert [line["message"] for line in _lines(stream)] == [
        *["Job completed"] * 3,
        "Job completed: 5 times in 1 s",
        "Worker stopped",
    ]


@pytest.mark.parametrize("level", ["info", "debug"])
def test_each_is_logged_when_sampling_is_off_or_the_level_is_debug(stream: io.StringIO, level: str) -> None:
    configure_logs(level, "json", stream)
    sink = LogSink(repeats=None) if level == "info" else LogSink(repeats=2)
    for _ in range(50):
        sink(RETRY)
    assert len(_lines(stream)) == 50


async def test_the_settings_choose_the_limits_and_an_app_that_closes_reports(
    stream: io.StringIO, tmp_path: Path
) -> None:
    settings = Settings(
        store=f"sqlite:///{tmp_path}/redrive.db", logs=LogSettings(repeats=5, completions=None)
    )
    async with Redrive(settings=settings) as app:
        (_,) = (_at_once(sink) for sink in app.telemetry._sinks if isinstance(sink, LogSink))
        for _ in range(30):
            app.telemetry.emit(RETRY)
            app.telemetry.emit(Completed(DELIVERY, 0.01))
    texts = [line["message"] for line in _lines(stream)]
    assert texts.count("Job failed, scheduling retry") == 5
    assert texts.count("Job completed") == 30
    assert texts[-1] == "Job failed, scheduling retry: same failure 30 times in 1 s"


async def test_a_worker_logs_twenty_of_many_dead_letters_and_their_count_before_it_stops(
    stream: io.StringIO, tmp_path: Path
) -> None:
    app = Redrive(settings=Settings(store=f"sqlite:///{tmp_path}/redrive.db"))
    dead, all_dead = list[Event](), asyncio.Event()

    @app.handler("orders")
    async def handle(payload: int) -> None:
        raise Permanent(f"no account {payload}, token=s3cret", code="404")

    def see(event: Event) -> None:
        if isinstance(event, Buried):
            dead.append(event)
            if len(dead) == 200:
                all_dead.set()

    app.telemetry.add(see)
    async with app:
        await app.submit_many("orders", [Submission(1000 + number) for number in range(200)])
        worker = asyncio.create_task(app.run(signals=False))
        async with asyncio.timeout(60):
            await all_dead.wait()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert await app.dead_letters.count() == 200
    lines = _lines(stream)
    assert [line["message"] for line in lines].count("Job moved to DLQ") == 20
    *_, count, stopped = lines
    assert count["message"].startswith("Job moved to DLQ: same failure 200 times in ")
    assert (count["count"], count["notLogged"], count["finalStatus"]) == (200, 180, "dead")
    assert stopped["message"] == "Worker stopped"
    assert "s3cret" not in stream.getvalue()


def test_a_program_that_ends_reports_what_it_counted() -> None:
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from redrive.telemetry.log_sink import LogSink\n"
        "from redrive.telemetry.log_format import configure_logs\n"
        "from tests.telemetry.test_repeats import RETRY\n"
        "configure_logs('info', 'json')\n"
        "sink = LogSink(repeats=1)\n"
        "for _ in range(7): sink(RETRY)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, count = map(json.loads, ran.stderr.splitlines())
    assert first["message"] == "Job failed, scheduling retry"
    assert (count["count"], count["notLogged"]) == (7, 6)


def test_a_forked_child_reports_only_what_it_counted_itself() -> None:
    clock, reports = Clock(), list[Repeated[str]]()
    repeats = _sampled(clock, reports)
    _times(repeats, 10)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        repeats.flush()
        os.write(writing, b"child says %d" % len(reports))
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    assert os.read(reading, 100) == b"child says 0"
    os.close(reading)
    repeats.flush()
    assert [one.count for one in reports] == [10]
