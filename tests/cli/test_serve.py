"""`redrive serve`: the API over the wire, its first key, its handlers, and what stops it from starting."""

from __future__ import annotations

import json
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Shop
from tests.cli.processes import finish, started
from tests.programs import Program

APP = """
from redrive import Redrive
app = Redrive()
@app.handler("orders")
async def charge(order): ...
"""


@contextmanager
def _serving(shop: Shop, *arguments: str) -> Iterator[tuple[Program, dict[str, Any]]]:
    with started(shop.folder, "serve", *arguments, "--listen", "127.0.0.1:0", "--json") as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())


def test_what_is_handed_in_over_http_waits_in_the_store(shop: Shop) -> None:
    key = shop.ok("keys", "create", "--role", "submit", "--tenant", "acme")["key"]
    mail = {"from": "a@acme.example", "to": "ok@b.example", "subject": "Hi", "text": "Hello"}
    with _serving(shop) as (process, document):
        answer = httpx.post(
            f"{document['url']}/v1/emails", json=mail, headers={"Authorization": f"Bearer {key}"}, timeout=60
        )
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate()
    assert (answer.status_code, process.returncode, out) == (202, 0, "")
    assert [json.loads(line)["message"][:19] for line in error.splitlines()] == ["the first admin key"]
    assert document["queues"] == []
    assert shop.ok("mail", "show", answer.json()["id"])["recipients"][0]["status"] == "queued"


def test_the_first_start_writes_an_admin_key_into_a_private_file_and_says_where(shop: Shop) -> None:
    with _serving(shop) as (process, document):
        file = Path(document["adminKeyFile"])
        key = file.read_text().strip()
        assert (file.parent, stat.S_IMODE(file.stat().st_mode)) == (shop.folder, 0o600)
        headers = {"Authorization": f"Bearer {key}"}
        assert httpx.get(f"{document['url']}/health/outbox", headers=headers, timeout=60).status_code == 200
        assert httpx.get(f"{document['url']}/health/outbox", timeout=60).status_code == 401
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate()
    assert str(file) in error
    assert key not in json.dumps(document) + out + error
    with _serving(shop) as (_, document):
        assert document["adminKeyFile"] is None


def test_an_app_is_served_with_its_handlers(shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(APP)
    message_id = shop.send()
    with _serving(shop, "shop:app") as (process, document):
        for line in process.stderr or ():
            if json.loads(line)["message"] == "Job completed":
                break
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert document["queues"] == ["orders"]
    assert shop.ok("show", message_id)["state"] == "done"


def test_with_mail_it_serves_the_gateways_queue(shop: Shop) -> None:
    with _serving(shop, "--mail") as (_, document):
        assert document["queues"] == ["email:send"]
        assert httpx.get(f"{document['url']}/health/ready", timeout=60).json() == {"status": "ready"}


def test_in_words_it_says_where_it_listens(shop: Shop) -> None:
    with started(shop.folder, "serve", "--listen", "127.0.0.1:0") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
    assert lines[0].startswith("listening on http://127.0.0.1:")
    assert "durability A" in lines[1]
    assert "admin key  in /" in lines[2]


def test_a_port_in_use_is_named_and_no_key_is_lost(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = finish(shop.folder, "serve", "--listen", address)
    assert (result.returncode, result.stdout) == (1, "")
    assert address in result.stderr
    assert shop.ok("keys", "list")["keys"] == []


def test_without_the_extra_it_says_what_to_install(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redrive.web.server", None)
    result = shop("serve", "--listen", "127.0.0.1:0")
    assert result.code == 2
    assert "pip install 'redrive[web]'" in result.error
