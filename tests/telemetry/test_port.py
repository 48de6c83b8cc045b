"""A worker's own port for Prometheus: it answers, on this machine alone, and never stops the work."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from redrive.core.errors import ConfigurationError
from redrive.core.settings import MetricsSettings
from redrive.telemetry.port import answering
from tests.cli.processes import ENVIRONMENT, started
from tests.servers import free_port
from tests.waiting import wait_until

APP = """
from redrive import Redrive
app = Redrive("sqlite:///redrive.db")
@app.handler("orders")
async def charge(order): ...
"""


async def _text() -> str:
    return "redrive_workers 1\n"


async def _ready() -> bool:
    return True


async def _listens(url: str) -> bool:
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(url)).status_code == 200
    except httpx.TransportError:
        return False


async def test_it_answers_metrics_and_nothing_else() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with (
        answering(MetricsSettings(listen=url.removeprefix("http://")), _text, _ready),
        httpx.AsyncClient() as client,
    ):
        await wait_until(lambda: _listens(f"{url}/metrics"), 10, "it listens")
        response = await client.get(f"{url}/metrics")
        assert response.text == "redrive_workers 1\n"
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert (await client.get(f"{url}/")).status_code == 404
        assert (await client.post(f"{url}/metrics")).status_code == 405
    assert not await _listens(f"{url}/metrics")


async def test_a_scrape_that_fails_is_answered_and_the_next_may_do_better() -> None:
    url, broken = f"127.0.0.1:{free_port()}", [True]

    async def text() -> str:
        if broken:
            raise ValueError("a bug")
        return await _text()

    async with answering(MetricsSettings(listen=url), text, _ready), httpx.AsyncClient() as client:
        await wait_until(lambda: _answers(url, 503), 10, "it answers")
        broken.clear()
        assert (await client.get(f"http://{url}/metrics")).status_code == 200


async def _answers(url: str, status: int) -> bool:
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"http://{url}/metrics")).status_code == status
    except httpx.TransportError:
        return False


async def test_a_port_that_is_taken_is_said_once_and_the_work_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        async with answering(MetricsSettings(listen=listen), _text, _ready):
            await wait_until(lambda: f"cannot listen on {listen}" in caplog.text, 10, "it is said")
    for part in ("metrics", "Address already in use", "REDRIVE_METRICS", "every 5 s"):
        assert part in caplog.text


@pytest.mark.parametrize(
    ("listen", "said"),
    [("9400", "not an address"), ("0.0.0.0:9400", "allow_remote"), ("[::]:9400", "allow_remote")],
)
async def test_an_address_that_cannot_be_meant_is_refused_at_the_start(listen: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        async with answering(MetricsSettings(listen=listen), _text, _ready):
            raise AssertionError("it should not begin")


async def test_without_the_setting_there_is_no_port() -> None:
    before = len(asyncio.all_tasks())
    async with answering(MetricsSettings(), _text, _ready):
        assert len(asyncio.all_tasks()) == before


async def test_requests_that_are_none_are_closed() -> None:
    port = free_port()
    async with answering(MetricsSettings(listen=f"127.0.0.1:{port}"), _text, _ready):
        await wait_until(lambda: _listens(f"http://127.0.0.1:{port}/metrics"), 10, "it listens")
        for sent in (b"\r\n\r\n", b"x" * 100_000, b"GET\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            async with asyncio.timeout(20):
                assert b"200 OK" not in await _rest(reader)
            writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_each_worker_process_has_its_port_with_the_totals_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.setitem(ENVIRONMENT, "REDRIVE_METRICS", "127.0.0.1:0")
    with (
        started(tmp_path, "worker", "shop:app", "--json") as first,
        started(tmp_path, "worker", "shop:app", "--json") as second,
    ):
        urls = [await asyncio.to_thread(_metrics_url, one.stderr) for one in (first, second)]
        async with httpx.AsyncClient() as client:

            async def both_are_seen() -> bool:
                texts = [(await client.get(url)).text for url in urls]
                return all("redrive_workers 2\n" in text for text in texts)

            await wait_until(both_are_seen, 30, "both workers are seen on both ports")
            families = {one.name for one in text_string_to_metric_families((await client.get(urls[0])).text)}
        assert {"redrive_process_cpu_seconds", "redrive_process_peak_bytes"} <= families
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.communicate)
        assert (first.returncode, second.returncode) == (0, 0)


def _metrics_url(lines: object) -> str:
    for line in lines:  # type: ignore[attr-defined]
        message = json.loads(line)["message"]
        if "metrics are on" in message:
            return str(message.split(" ")[-1])
    raise AssertionError("it ended without a port")
