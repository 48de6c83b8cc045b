"""`redrive alerts`: what fires, silences, and a test of a channel, without a secret of any of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from redrive import Redrive
from redrive.cli.problems import Exit
from redrive.office.alerts.watch import AlertWatch
from tests.cli.conftest import Shop


class Taker(BaseHTTPRequestHandler):
    """Takes what is posted."""

    received: list[bytes]

    def do_POST(self) -> None:
        self.received.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def hook() -> Iterator[tuple[int, list[bytes]]]:
    Taker.received = []
    server = HTTPServer(("127.0.0.1", 0), Taker)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, Taker.received
    server.shutdown()
    server.server_close()
    thread.join()


def configure(shop: Shop, port: int, more: str = "") -> None:
    (shop.folder / "redrive.toml").write_text(
        f"""
[channels.hook]
url = "http://127.0.0.1:{port}/canary-path"
secret = "canary-secret"
allow_http = true
allow_private = true
[alerts.dlq_high]
above = 1
{more}
"""
    )


def look(shop: Shop, *, send: bool = True) -> None:
    async def once(app: Redrive) -> None:
        watch = AlertWatch(app.office)
        await watch.look()
        if send:
            await watch.step()

    shop.with_app(once)


def test_what_fires_is_listed_with_since_when_and_who_was_told(
    shop: Shop, hook: tuple[int, list[bytes]]
) -> None:
    configure(shop, hook[0])
    for _ in range(2):
        shop.bury()
    look(shop)
    listed = shop.ok("alerts", "list")
    (alert,) = [one for one in listed["alerts"] if one["alert"] == "dlq_high"]
    assert (alert["state"], alert["text"], alert["waitingFor"]) == (
        "firing",
        "2 dead letters (more than 1)",
        [],
    )
    assert json.loads(hook[1][0])["alert"] == "dlq_high"
    shown = shop("alerts", "list")
    assert "2 dead letters (more than 1)" in shown.out
    assert "redrive docs runbook" in shown.error
    for text in (shown.out, json.dumps(listed), shop("config", "show").out, shop("alerts", "rules").out):
        assert "canary" not in text


def test_a_channel_is_tested_and_says_what_is_wrong(shop: Shop, hook: tuple[int, list[bytes]]) -> None:
    configure(shop, hook[0])
    shop.send()
    assert shop.ok("alerts", "test", "hook") == {"channel": "hook", "taken": True, "problem": None}
    assert json.loads(hook[1][0])["kind"] == "test"
    configure(shop, 1)
    failed = shop("alerts", "test", "hook")
    assert (failed.code, "did not take the test" in failed.out) == (Exit.FAILED, True)
    assert "canary" not in failed.out + failed.error
    assert shop("alerts", "test", "hok").code == Exit.NOT_FOUND


def test_a_silence_needs_an_end_and_an_alert_and_is_ended_by_its_id(
    shop: Shop, hook: tuple[int, list[bytes]]
) -> None:
    configure(shop, hook[0])
    shop.send()
    assert shop("alerts", "silence", "dlq_high").code == Exit.USAGE
    assert shop("alerts", "silence", "--for", "2h").code == Exit.USAGE
    wrong = shop("alerts", "silence", "dlq_hihg", "--for", "2h")
    assert (wrong.code, "did you mean dlq_high?" in wrong.error) == (Exit.USAGE, True)
    made = shop.ok("alerts", "silence", "dlq_high", "--for", "2h", "--why", "deploying")
    assert made["alert"] == "dlq_high"
    assert "deploying" in shop("alerts", "list").out
    assert shop.ok("alerts", "unsilence", made["id"])["id"] == made["id"]
    assert shop("alerts", "unsilence", made["id"]).code == Exit.NOT_FOUND
    verbs = [row["verb"] for row in shop.ok("audit", "list")["rows"] if row["row"] == "intent"]
    assert verbs == ["silence alert", "unsilence alert"]


def test_the_doctor_and_the_list_say_that_a_channel_fails(shop: Shop) -> None:
    configure(shop, 1)
    for _ in range(2):
        shop.bury()
    look(shop)
    (channel,) = shop.ok("alerts", "list")["channels"]
    assert (channel["kind"], channel["attempts"]) == ("http", 1)
    assert "cannot be reached" in channel["problem"]
    found = [one for one in shop.ok("doctor")["findings"] if one["subject"] == "channel hook"]
    assert [one["grade"] for one in found] == ["warning"]


def test_a_worker_with_a_channel_that_cannot_be_does_not_start(shop: Shop) -> None:
    (shop.folder / "redrive.toml").write_text('[channels.ops]\nurl = "slakc://canary-token/b/c"\n')
    (shop.folder / "shop.py").write_text(
        "from redrive import Redrive\napp = Redrive()\n@app.handler('a')\nasync def a(x: int) -> None: ...\n"
    )
    ended = shop("worker", "shop:app")
    assert ended.code == Exit.USAGE
    assert "[channels.ops]" in ended.error
    assert "canary" not in ended.error
