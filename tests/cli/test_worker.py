"""`redrive worker`: it runs an app of the working folder, ends gracefully, and names what is wrong."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shop
from tests.cli.processes import ENVIRONMENT, finish, started
from tests.servers import reserved_port, start_redis

MADE = "from redrive import Redrive\napp = Redrive()\n"
APP = """
from redrive import Redrive
app = Redrive()
@app.handler("orders")
async def charge(order): ...
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Where nobody listens, unless the test starts somebody there."""
    with reserved_port() as reserved:
        yield reserved


def test_it_serves_until_sigterm_and_then_ends_gracefully(shop: Shop) -> None:
    (shop.folder / "store.py").write_text("raise SystemExit('the wrong module')")
    (shop.folder / "shop.py").write_text(APP)
    message_id = shop.send()
    with started(shop.folder, "worker", "shop:app", "--json") as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["message"] == "Job completed":
                assert shop.ok("status")["queues"][0]["workers"] == 1
                break
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert process.returncode == 0
    assert (lines[0]["message"], lines[0]["durabilityClass"]) == ("Worker started", "A")
    assert json.loads(out)["done"] == 1
    assert shop.ok("show", message_id)["state"] == "done"
    assert shop.ok("status")["queues"][0]["workers"] == 0


def test_flags_win_over_what_the_app_was_made_with(shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(APP.replace("Redrive()", "Redrive('sqlite:///code.db')"))
    flags = (
        "--store",
        "sqlite:///flag.db",
        "--log-level",
        "info",
        "--concurrency",
        "3",
        "--log-format",
        "json",
    )
    with started(shop.folder, "worker", "shop:app", *flags) as process:
        assert process.stderr is not None
        told, first = (json.loads(process.stderr.readline()) for _ in range(2))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert "from flag, and not sqlite:///code.db" in told["message"]
    assert first["store"].endswith("flag.db")
    assert (process.returncode, json.loads(out)["done"]) == (0, 0)
    assert not (shop.folder / "code.db").exists()


def test_off_a_terminal_it_writes_json_only_and_logs_the_start_of_its_drain(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop.folder / "shop.py").write_text(APP)
    monkeypatch.setitem(ENVIRONMENT, "REDRIVE_UNKNOWN", "1")
    shop.send()
    with started(shop.folder, "worker", "shop:app") as process:
        assert process.stderr is not None
        lines = [json.loads(process.stderr.readline())]
        while lines[-1]["message"] != "Job completed":
            lines.append(json.loads(process.stderr.readline()))
        process.send_signal(signal.SIGTERM)
        out, rest = process.communicate()
    lines += map(json.loads, rest.splitlines())
    lines = [line for line in lines if line["message"] != "Event loop was blocked"]  # by a busy machine
    assert lines[0]["message"].startswith("REDRIVE_UNKNOWN in the environment is not a setting")
    assert "stops: it takes no new work" in lines[-2]["message"]
    assert lines[-1]["message"] == "Worker stopped"
    assert json.loads(out)["done"] == 1
    failed = finish(shop.folder, "worker", "nowhere:app")
    assert json.loads(failed.stderr.splitlines()[-1])["error"]["exitCode"] == 2


def test_with_reload_it_starts_again_when_code_changes_also_after_a_mistake(shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(APP)
    with started(shop.folder, "worker", "shop:app", "--reload") as process:
        assert process.stderr is not None

        def until(words: str) -> dict[str, Any]:
            assert process.stderr is not None
            for line in process.stderr:
                if words in line:
                    return dict(json.loads(line))
            raise AssertionError(f"it ended without {words!r}")

        assert until("Worker started")["queues"] == ["orders"]
        (shop.folder / "shop.py").write_text("def f(:")
        assert "SyntaxError" in until("exitCode")["error"]["message"]
        (shop.folder / "shop.py").write_text(APP.replace("orders", "refunds"))
        assert until("Worker started")["queues"] == ["refunds"]
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait() == 0
    assert '"Worker stopped"' in rest


@pytest.mark.parametrize("flags", [(), ("--concurrency", "3")])
def test_the_environment_wins_over_what_the_app_was_made_with_and_the_start_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    (shop.folder / "shop.py").write_text(APP.replace("Redrive()", "Redrive('sqlite:///code.db')"))
    monkeypatch.setitem(ENVIRONMENT, "REDRIVE_STORE", "sqlite:///moved.db")
    with started(shop.folder, "worker", "shop:app", *flags) as process:
        assert process.stderr is not None
        told, began = (json.loads(process.stderr.readline()) for _ in range(2))
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert "from REDRIVE_STORE, and not sqlite:///code.db, which the code names" in told["message"]
    assert began["store"].endswith("moved.db")
    assert not (shop.folder / "code.db").exists()


def test_with_mail_it_is_the_gateway_to_the_configured_relay(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.ok("mail", "send", "--from", "a@b.example", "--to", "ok@b.example", "--text", "Hi")
    with started(shop.folder, "mailbox", "--port", "0", "--json") as mailbox:
        assert mailbox.stdout is not None
        monkeypatch.setitem(ENVIRONMENT, "REDRIVE_MAIL", json.loads(mailbox.stdout.readline())["url"])
        with started(shop.folder, "worker", "--mail", "--json") as process:
            assert process.stderr is not None
            for line in process.stderr:
                if json.loads(line)["message"] == "Job completed":
                    break
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate()
    assert json.loads(out)["done"] == 1
    assert len(shop.ok("mailbox", "list")["mails"]) == 1


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        (APP, "shop", "module:attribute"),
        (APP, "nowhere:app", "no module 'nowhere'"),
        (APP, "shop:nothing", "no 'nothing'"),
        (APP, "shop:charge", "not a Redrive app"),
        (MADE, "shop:app", "no handler"),
        ("import missing_library", "shop:app", "No module named 'missing_library' (shop.py, line 1)"),
        ("x = 1\n1 / 0", "shop:app", "division by zero (shop.py, line 2)"),
        ("def f(:", "shop:app", "SyntaxError"),
        (f"{MADE}@app.handler\ndef f(x): ...", "shop:app", "not @app.handler alone (shop.py, line 3)"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(shop: Shop, text: str, target: str, said: str) -> None:
    (shop.folder / "shop.py").write_text(text)
    result = finish(shop.folder, "worker", target)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wrong_flag_is_a_usage_error(shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(APP)
    result = finish(shop.folder, "worker", "shop:app", "--concurrency", "0")
    assert result.returncode == 2
    assert "worker.concurrency from flag" in result.stderr


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_started_while_its_redis_is_down_it_waits_for_it_and_says_so_once_each_way(
    shop: Shop, tmp_path: Path, command: str, port: int
) -> None:
    (shop.folder / "shop.py").write_text(APP)
    store = f"redis://127.0.0.1:{port}/0"
    listen = ("--listen", "127.0.0.1:0") if command == "serve" else ()
    with started(shop.folder, command, "shop:app", "--store", store, *listen, "--json") as process:
        assert process.stderr is not None
        lines = [json.loads(process.stderr.readline())]
        server = start_redis(tmp_path, port=port)
        try:
            while lines[-1]["message"] != "Worker started":
                lines.append(json.loads(process.stderr.readline()))
            process.send_signal(signal.SIGTERM)
            process.communicate()
        finally:
            server.stop()
    told = [line for line in lines if "admin key" not in line["message"]]
    said = [(line["message"], line.get("doing")) for line in told]
    assert said[0] == ("Store does not answer, trying again", "open")
    assert said[1:] == [("Store answers again", "open"), ("Worker started", None)]
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_with_fail_fast_a_redis_that_is_down_ends_it_with_code_5(shop: Shop, command: str, port: int) -> None:
    (shop.folder / "shop.py").write_text(APP)
    store = f"redis://127.0.0.1:{port}/0"
    result = finish(shop.folder, command, "shop:app", "--store", store, "--fail-fast")
    assert result.returncode == 5
    assert "does not answer now" in result.stderr


LOOP = """
import asyncio
from pathlib import Path
from redrive import Redrive
app = Redrive()
@app.handler("orders")
async def charge(order):
    Path("loop").write_text(type(asyncio.get_running_loop()).__module__)
"""


@pytest.mark.parametrize("command", ["worker", "serve"])
@pytest.mark.parametrize(("setting", "module"), [(None, "uvloop"), ("false", "asyncio.unix_events")])
def test_it_runs_on_uvloop_where_that_is_installed_and_not_turned_off(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, command: str, setting: str | None, module: str
) -> None:
    (shop.folder / "shop.py").write_text(LOOP)
    if setting is not None:
        monkeypatch.setitem(ENVIRONMENT, "REDRIVE_WORKER_UVLOOP", setting)
    shop.send()
    listen = ("--listen", "127.0.0.1:0") if command == "serve" else ()
    with started(shop.folder, command, "shop:app", *listen) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "completed" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0
    assert (shop.folder / "loop").read_text() == module


BOOKS = """
from redrive import Redrive
app = Redrive()
@app.handler("invoices")
async def invoice(order): ...
"""


@pytest.mark.parametrize("flags", [(), ("--queue", "invoices"), ("--queue", "invoices", "--queue", "orders")])
def test_several_apps_share_a_process_and_a_store(shop: Shop, flags: tuple[str, ...]) -> None:
    (shop.folder / "shop.py").write_text(APP)
    (shop.folder / "books.py").write_text(BOOKS)
    wanted = {"orders", "invoices"} if flags != ("--queue", "invoices") else {"invoices"}
    ids = {queue: shop.send(queue=queue) for queue in ("orders", "invoices")}
    with started(shop.folder, "worker", "shop:app", "books:app", *flags) as process:
        assert process.stderr is not None
        done: set[str] = set()
        for line in process.stderr:
            told = json.loads(line)
            if told["message"] == "Job completed":
                done.add(told["queue"])
            if done == wanted:
                break
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert (process.returncode, json.loads(out)["done"]) == (0, len(wanted))
    states = {queue: shop.ok("show", one)["state"] for queue, one in ids.items()}
    assert {queue for queue, state in states.items() if state == "done"} == wanted


@pytest.mark.parametrize(
    ("books", "targets", "said"),
    [
        (BOOKS.replace("Redrive()", "Redrive('sqlite:///books.db')"), ("books:app",), "share a store"),
        (
            BOOKS.replace("invoices", "orders"),
            ("books:app",),
            "orders has a handler in shop:app and in books:app",
        ),
        (BOOKS, ("books:app", "shop:app"), "shop:app is named twice"),
        (BOOKS, ("books:app", "--queue", "refunds"), "name one of orders, invoices"),
    ],
)
def test_apps_that_do_not_go_together_are_refused_in_words(
    shop: Shop, books: str, targets: tuple[str, ...], said: str
) -> None:
    (shop.folder / "shop.py").write_text(APP)
    (shop.folder / "books.py").write_text(books)
    result = finish(shop.folder, "worker", "shop:app", *targets)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in json.loads(result.stderr.splitlines()[-1])["error"]["message"]


BROKEN = """
import asyncio
from redrive.telemetry.events import WorkerStarted
import shop
began = asyncio.Event()
shop.app.telemetry.add(lambda event: began.set() if isinstance(event, WorkerStarted) else None)
async def run(**_):
    await began.wait()
    raise ValueError("broken")
app.run = run
"""


def test_when_one_of_several_apps_fails_the_others_end_gracefully_too(shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(APP)
    (shop.folder / "books.py").write_text(BOOKS + BROKEN)
    result = finish(shop.folder, "worker", "shop:app", "books:app")
    assert result.returncode == 1
    assert "ValueError: broken" in result.stderr
    assert "Worker stopped" in result.stderr
