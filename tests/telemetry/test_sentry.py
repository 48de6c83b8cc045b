"""What handlers raise is reported to Sentry: once a group and hour, without payloads and secrets."""

from __future__ import annotations

import asyncio
import gzip
import json
import queue
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from redrive import ConfigurationError, Delivery, Later, Permanent, Redrive, Temporary
from redrive.config import Settings
from redrive.core.errors import MissingExtra
from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.message import Lease, Message, Progress
from redrive.core.settings import SentrySettings
from redrive.telemetry.events import Buried, Completed, Event, HandlerRaised, Released
from redrive.telemetry.sentry import _GROUPS, SentrySink
from redrive.wiring import load

DELIVERY = Delivery(
    Message("019a8b7c-1234-7abc-8def-0123456789ab", "orders", "acme", b'{"card": 4111}', 0, 60.0),
    Progress(State.CLAIMED, 0, 60_000, attempts=2),
    Lease("orders", "token", 30_000),
)
# Apart from the handler, whose own lines of code are in a report.
SECRETS = ("no route, password=hunter2", "the bank said no to ann@example.org, token=s3cret")
CARD = "4111-1111"


class Sentry:
    """An endpoint on loopback that takes envelopes as Sentry does."""

    def __init__(self) -> None:
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.raw: list[bytes] = []
        events, raw = self.events, self.raw

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                body = gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body
                raw.append(body)
                _, kind, payload, *_ = body.split(b"\n")
                if json.loads(kind)["type"] == "event":
                    events.put(json.loads(payload))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def dsn(self) -> str:
        return f"http://public@127.0.0.1:{self.server.server_port}/7"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def sentry() -> Iterator[Sentry]:
    server = Sentry()
    yield server
    server.close()


def _raised(error: Exception, fingerprint: str = "aa") -> HandlerRaised:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - it wants a traceback
        return HandlerRaised(DELIVERY, Failure(1, 2, Kind.TEMPORARY, "no", fingerprint=fingerprint), caught)


async def _run(app: Redrive, ended: type[Event], count: int = 1) -> None:
    done, seen = asyncio.Event(), list[Event]()

    def see(event: Event) -> None:
        if isinstance(event, ended):
            seen.append(event)
            if len(seen) == count:
                done.set()

    app.telemetry.add(see)
    worker = asyncio.create_task(app.run(signals=False))
    async with asyncio.timeout(60):
        await done.wait()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


def _app(tmp_path: Path, dsn: str) -> Redrive:
    given = {"store": f"sqlite:///{tmp_path}/redrive.db", "retry.base_s": 0.01, "sentry.dsn": dsn}
    return Redrive(settings=load(given, environ={}, folder=tmp_path))


async def test_many_attempts_of_one_cause_are_one_report_with_tags_and_no_payload(
    tmp_path: Path, sentry: Sentry
) -> None:
    app = _app(tmp_path, sentry.dsn)

    @app.handler("orders")
    async def charge(payload: dict[str, str]) -> None:
        card = payload["card"]
        try:
            raise OSError(f"{SECRETS[0]} {len(card)}")
        except OSError as error:
            raise ValueError(SECRETS[1]) from error

    async with app:
        receipts = [await app.submit("orders", {"card": CARD}, tenant="acme") for _ in range(3)]
        await _run(app, Buried, 3)
    event = sentry.events.get(timeout=30)
    assert sentry.events.empty()
    tags = event["tags"]
    assert tags.pop("message_id") in {receipt.id for receipt in receipts}
    assert tags == {"queue": "orders", "tenant": "acme", "attempt": "1"}
    texts = [value["value"] for value in event["exception"]["values"]]
    assert texts == ["no route, password=*** 9", "the bank said no to ***@example.org, token=***"]
    frames = event["exception"]["values"][-1]["stacktrace"]["frames"]
    assert frames[-1]["function"] == "charge"
    assert not any("vars" in frame for frame in frames)
    assert not {"request", "user", "modules"} & event.keys()
    assert event["breadcrumbs"]["values"] == []
    everything = b"".join(sentry.raw)
    for secret in (b"4111", b"hunter2", b"s3cret", b"ann@"):
        assert secret not in everything


async def test_what_was_put_off_or_done_is_not_reported(tmp_path: Path, sentry: Sentry) -> None:
    app = _app(tmp_path, sentry.dsn)

    @app.handler("orders")
    def handle(payload: int, delivery: Delivery) -> None:
        if payload:
            raise Later(60)

    async with app:
        await app.submit("orders", 1)
        await app.submit("orders", 0)
        await _run(app, Released)
    assert sentry.raw == []


async def test_a_def_handler_and_a_permanent_failure_are_reported_too(tmp_path: Path, sentry: Sentry) -> None:
    app = _app(tmp_path, sentry.dsn)

    @app.handler("orders")
    def handle(payload: int) -> None:
        raise Permanent("no such account", code="404")

    async with app:
        await app.submit("orders", 1)
        await _run(app, Buried)
    assert sentry.events.get(timeout=30)["exception"]["values"][-1]["type"] == "Permanent"


def test_a_group_is_reported_again_after_an_hour_with_how_often_it_failed(sentry: Sentry) -> None:
    now_s = 1_000.0
    sink = SentrySink(sentry.dsn, clock=lambda: now_s)
    for _ in range(5):
        sink(_raised(ValueError("a bug")))
    sink(_raised(KeyError("another"), "bb"))
    now_s += 3_601
    sink(_raised(ValueError("a bug")))
    sink.flush()
    reports = [sentry.events.get(timeout=30) for _ in range(3)]
    assert [report["fingerprint"] for report in reports] == [["aa"], ["bb"], ["aa"]]
    assert [report["extra"]["failures since the last report"] for report in reports] == [0, 0, 4]
    assert sentry.events.empty()


def test_memory_is_bounded_and_old_groups_make_room() -> None:
    now_s, sink = 0.0, SentrySink("http://public@127.0.0.1:9/7", clock=lambda: now_s)
    reported: list[int] = []
    sink._report = lambda raised, unreported: reported.append(unreported)  # type: ignore[method-assign]
    for number in range(_GROUPS + 50):
        sink(_raised(ValueError(), f"group {number}"))
    assert len(reported) == len(sink._groups) == _GROUPS
    now_s = 3_601.0
    sink(_raised(ValueError(), "a new one"))
    assert len(reported) == _GROUPS + 1
    assert len(sink._groups) == 1


async def test_a_sentry_that_does_not_answer_is_not_in_the_way(tmp_path: Path) -> None:
    app = _app(tmp_path, "http://public@127.0.0.1:9/7")
    tried: list[int] = []

    @app.handler("orders")
    async def handle(payload: int) -> None:
        tried.append(payload)
        if len(tried) == 1:
            raise Temporary("busy")

    async with app:
        await app.submit("orders", 1)
        await _run(app, Completed)
    assert tried == [1, 1]


def test_it_is_off_without_a_dsn_and_on_with_sentrys_own_variable(tmp_path: Path) -> None:
    def sinks(environ: dict[str, str], **flags: object) -> Redrive:
        return Redrive(settings=load(flags, environ=environ, folder=tmp_path))

    def reports(app: Redrive) -> list[str]:
        return [one._dsn for one in app.telemetry._sinks if isinstance(one, SentrySink)]

    own = "https://abc@sentry.example/1"
    assert reports(sinks({})) == []
    assert reports(sinks({"SENTRY_DSN": own})) == [own]
    assert reports(sinks({"SENTRY_DSN": own, "REDRIVE_SENTRY_DSN": "https://d@b.example/2"})) == [
        "https://d@b.example/2"
    ]


def test_the_key_is_not_shown() -> None:
    settings = Settings(sentry=SentrySettings(dsn="https://abc@sentry.example/1"))
    assert settings.values()["sentry.dsn"] == "https://***@sentry.example/1"


@pytest.mark.parametrize("dsn", ["sentry.example", "https://sentry.example/1", "https://abc@sentry.example"])
def test_what_is_no_dsn_is_refused_at_the_start(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="dsn is not that of a project"):
        load({"sentry.dsn": dsn}, environ={})


def test_without_the_package_our_setting_is_refused_and_sentrys_variable_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    find: Callable[..., Any] = util.find_spec
    monkeypatch.setattr("redrive.wiring.find_spec", lambda name: None if name == "sentry_sdk" else find(name))
    dsn = "https://abc@sentry.example/1"
    with pytest.raises(MissingExtra, match=r"pip install 'redrive\[sentry\]'"):
        Redrive(settings=load({"sentry.dsn": dsn}, environ={}))
    Redrive(settings=load({}, environ={"SENTRY_DSN": dsn}))
    assert "pip install 'redrive[sentry]'" in caplog.text
    assert "abc" not in caplog.text


def test_the_event_of_another_message_is_reported_with_its_own_tags(sentry: Sentry) -> None:
    sink = SentrySink(sentry.dsn)
    raised = _raised(ValueError("a bug"))
    message = replace(DELIVERY.message, queue="mails", tenant="globex")
    sink(replace(raised, delivery=replace(DELIVERY, message=message)))
    sink.flush()
    event = sentry.events.get(timeout=30)
    assert (event["tags"]["queue"], event["tags"]["tenant"]) == ("mails", "globex")
    assert (event["tags"]["attempt"], event["tags"]["message_id"]) == ("2", DELIVERY.message.id)
