"""Addresses of brokers that were mistyped: what, why and what to write, before or when it connects."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.brokers.rabbitmq.connection import BrokerLine, BrokerRefused, BrokerUnavailable
from redrive.brokers.rabbitmq.management import read_topology
from redrive.cli import run
from redrive.core.errors import StoreError
from redrive.wiring import load
from tests.brokers.server import RabbitServer
from tests.cli.conftest import Result
from tests.servers import free_port

COMMANDS = (("status",), ("send", "q.one", "{}"), ("rabbitmq", "topology", "plan"))
HOW = "percent-encoded"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology.toml").write_text('[queues."q.one"]\n')
    (tmp_path / "nonsense.pem").write_text("no certificate")
    return tmp_path


def _ran(capsys: pytest.CaptureFixture[str], *words: str) -> Result:
    capsys.readouterr()
    code = run(words)
    return Result(code, *capsys.readouterr())


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[-1])
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("amqp://guest:hunter2@localhost:port/", HOW),
        ("amqp://guest:hunter2@localhost:99999/", HOW),
        ("amqp://guest:hun/ter2@localhost/", HOW),
        ("amqp://guest:hunter2@[::1/", HOW),
        ("amqp://guest:hunter2@localhost/?heartbeat=often", "heartbeat is 'often': write whole seconds"),
        ("amqps://guest:hunter2@localhost/?caflie=x.pem", "knows no 'caflie': did you mean cafile?"),
        ("amqps://guest:hunter2@localhost/?cafile=no.pem", "cafile names no.pem, which cannot be read"),
        ("amqps://guest:hunter2@localhost/?cafile=nonsense.pem", "nonsense.pem, which holds no certificate"),
        ("amqps://guest:hunter2@localhost/?cadata=%21", "cadata"),
    ],
)
def test_an_address_that_cannot_be_right_is_named_before_anything_connects(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    address: str,
    problem: str,
) -> None:
    result = _ran(capsys, *words, "--store", address)
    assert result.code == 2, result.error
    assert problem in result.error
    assert "Traceback" not in result.error
    assert not [part for part in ("hunter2", "hun", "ter2") if part in result.error + result.out]


@pytest.mark.parametrize(
    "management",
    ["http://localhost:port", "http://localhost:99999", "http://[::1", "localhost:15672", "ftp://localhost"],
)
def test_an_address_of_the_management_api_that_cannot_be_right_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], management: str
) -> None:
    result = _ran(
        capsys, "rabbitmq", "topology", "diff", "--management", management, "--store", "amqp://localhost/"
    )
    assert result.code == 2, result.error
    assert "write http://broker.example:15672" in result.error


@pytest.mark.parametrize("answer", ["<html>", '{"error": "no"}', '[{"name": "q.one"}]', "[3]"])
def test_a_page_that_is_not_the_management_api_is_named_as_such(
    folder: Path, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    with _answering(answer) as port:
        management = f"http://127.0.0.1:{port}"
        result = _ran(
            capsys, "rabbitmq", "topology", "diff", "--management", management, "--store", "amqp://localhost/"
        )
    assert result.code == 5, result.error
    assert f"{management} is not the management API of RabbitMQ" in result.error


def test_a_broker_without_a_host_is_this_machine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = _ran(capsys, "rabbitmq", "topology", "plan", "--store", f"amqp://:{free_port()}/")
    assert result.code == 5
    assert "amqp://localhost:" in result.error


def test_a_broker_that_does_not_answer_is_told_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = _ran(capsys, "rabbitmq", "topology", "plan", "--store", f"amqp://127.0.0.1:{free_port()}/")
    assert result.error.count("\n") == 1
    assert "start it, or check the address in `store`" in result.error


def test_a_virtual_host_that_is_not_there_is_named(
    folder: Path, rabbitmq: RabbitServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for code, words in ((5, ("rabbitmq", "topology", "plan")), (1, ("doctor",)), (0, ("status",))):
        result = _ran(capsys, *words, "--store", f"{rabbitmq.url}nowhere")
        assert result.code == code, result.error
        said = " ".join((result.error + result.out).split())
        assert "vhost nowhere not found" in said
        assert "check the virtual host" in said


async def test_what_works_there_ends_at_once_instead_of_asking_for_ever(
    folder: Path, rabbitmq: RabbitServer
) -> None:
    app = Redrive(settings=load({"store": f"{rabbitmq.url}nowhere", "data": str(folder)}, environ={}))

    @app.handler("q.one")
    async def handle(payload: dict[str, str]) -> None:
        """Nothing arrives."""

    with pytest.raises(StoreError, match="vhost nowhere not found"):
        async with asyncio.timeout(30):
            await app.run(signals=False)


def test_a_server_beside_it_ends_at_once(folder: Path, rabbitmq: RabbitServer) -> None:
    flags = ("--listen", f"127.0.0.1:{free_port()}", "--store", f"{rabbitmq.url}nowhere")
    ended = subprocess.run(
        [sys.executable, "-m", "redrive", "serve", *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 5
    assert "vhost nowhere not found" in ended.stderr


def test_a_user_without_this_virtual_host_is_told_so(
    folder: Path, rabbitmq: RabbitServer, broker_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rabbitmq.control("add_user", folder.name, "hunter2")
    address = broker_url.replace("guest:guest", f"{folder.name}:hunter2")
    result = _ran(capsys, "rabbitmq", "topology", "plan", "--store", address)
    rabbitmq.control("delete_user", folder.name)
    assert result.code == 5
    assert "refused for user" in result.error
    assert "hunter2" not in result.error


async def test_a_broker_that_has_too_many_connections_may_have_room_later(
    rabbitmq: RabbitServer, broker_url: str
) -> None:
    host = broker_url.rpartition("/")[2]
    limit = json.dumps({"max-connections": 0})
    await asyncio.to_thread(rabbitmq.control, "set_vhost_limits", "--vhost", host, limit)
    with pytest.raises(BrokerUnavailable, match="limit"):
        await BrokerLine(broker_url, "the broker", "test").connection()


async def test_a_port_that_speaks_no_tls_is_named(rabbitmq: RabbitServer) -> None:
    line = BrokerLine(rabbitmq.url.replace("amqp://", "amqps://"), "the broker", "test")
    with pytest.raises((BrokerUnavailable, BrokerRefused), match="without TLS"):
        await line.connection()


@contextmanager
def _answering(answer: str) -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_a_management_api_that_says_nothing_can_be_left_at_once() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        left.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reading = asyncio.create_task(read_topology(f"http://127.0.0.1:{port}", "amqp://localhost/"))
        await asked.wait()
        reading.cancel()
        async with asyncio.timeout(10):
            await left.wait()
        assert (await asyncio.gather(reading, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_a_broker_that_says_nothing_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.brokers.rabbitmq.connection._CONNECT_S", 0.1)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        url = f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(BrokerUnavailable, match="it took too long"):
            await BrokerLine(url, "the broker", "test").connection()
