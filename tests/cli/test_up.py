"""`redrive up`: a newcomer sees mail delivered, retried and dead, on a terminal and in a pipe."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Shop
from tests.cli.processes import ENVIRONMENT, finish, on_terminal, started
from tests.programs import Program

ANY_PORT = ("--listen", "127.0.0.1:0", "--mailbox-port", "0")
KEY = r"rdk_[0-9a-f]{12}_[\w-]{43}"


def _until(process: Program, wanted: str) -> str:
    """What the process prints, up to the line that holds these words."""
    shown = ""
    for line in process.stdout or ():
        shown += line
        if re.search(wanted, line):
            return shown
    raise AssertionError(f"it ended without {wanted!r}: {shown}")


def _has_run(shop: Shop) -> bool:
    """Whether five mails were delivered, one of them after retries, and one has bounced."""
    mails, letters = shop("mailbox", "list", "--json"), shop("dlq", "list", "--json")
    if mails.code or letters.code:
        return False  # it has not begun
    to = [address for mail in mails.document["mails"] for address in mail["to"]]
    bounced = any(letter["reason"] == "bounced" for letter in letters.document["letters"])
    return len(to) >= 5 and "fail-2-then-ok+1@b.example" in to and bounced


def _keys_of_the_traffic(shop: Shop) -> list[dict[str, Any]]:
    listed = shop("keys", "list", "--revoked", "--json")
    return (
        [key for key in listed.document["keys"] if key["name"] == "demo traffic"] if not listed.code else []
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def test_piped_it_tells_in_plain_lines_what_happens(shop: Shop) -> None:
    happens = (
        r"redrive up +http://127\.0\.0\.1:\d+",
        r"mails go to +smtp://127\.0\.0\.1:\d+",
        r"durability A",
        r"acme to ok\+0@b\.example delivered",
        r"globex to fail-2-then-ok\+1@b\.example failed, retry in 0\.\d s: 451 4\.3\.0 ",
        r"globex to fail-2-then-ok\+1@b\.example delivered on attempt 3",
        r"is dead \(bounced\): 550 5\.1\.1 ",
        r"is dead \(exhausted\): 450 ",
        r"is dead \(permanent\): 554 5\.7\.1 ",
        r"drop-after-dot\+11@b\.example failed, retry in .*may have been accepted",
        r"initech to .* delivered",
    )
    shown = ""
    with started(shop.folder, "up", *ANY_PORT) as process:
        for line in process.stdout or ():
            shown += line
            if shown.count(" delivered") >= 20 and all(re.search(told, shown) for told in happens):
                break
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate()
    assert process.returncode == 0, error
    assert "\x1b" not in shown + rest
    assert re.search(r"In .* s: \d+ delivered, \d+ retrying, \d+ dead", rest)
    assert "redrive dlq list" in rest
    reasons = [letter["reason"] for letter in shop.ok("dlq", "list")["letters"]]
    assert reasons.count("exhausted") == (shown + rest).count("is dead (exhausted)")
    assert len(shop.ok("mailbox", "list")["mails"]) == 20


def test_only_the_first_start_makes_keys_and_a_pipe_gets_the_file_of_the_admins(shop: Shop) -> None:
    first = finish(shop.folder, "up", "--no-demo", "--seconds", "0.5", *ANY_PORT).stdout
    (submit,) = re.findall(KEY, first)
    assert "shown this once" in first
    file = shop.folder / "redrive-admin-key"
    assert str(file) in first
    admin = file.read_text().strip()
    again = finish(shop.folder, "up", "--no-demo", "--seconds", "0.5", *ANY_PORT)
    assert not re.search("rdk_", again.stdout + again.stderr)
    keys = {key["id"]: key for key in shop.ok("keys", "list")["keys"]}
    assert {(key["role"], key["companyId"]) for key in keys.values()} == {("admin", None), ("submit", "acme")}
    assert {admin[4:16], submit[4:16]} == set(keys)


def test_on_a_terminal_both_keys_are_shown_and_no_file_is_written(shop: Shop) -> None:
    arguments = ("up", "--no-demo", "--seconds", "0.5", *ANY_PORT)
    code, shown = on_terminal(shop.folder, *arguments, until="", answer="")
    assert code == 0
    ids = {key["id"] for key in shop.ok("keys", "list")["keys"]}
    assert len(ids) == 2
    assert ids <= {found[4:16] for found in re.findall(KEY, shown)}
    assert not (shop.folder / "redrive-admin-key").exists()


def test_the_link_it_prints_signs_in_to_the_dashboard_once(shop: Shop) -> None:
    with started(shop.folder, "up", "--no-demo", *ANY_PORT) as process:
        shown = _until(process, "/link/rdl_")
        found = re.search(r"http://127\.0\.0\.1:\d+/link/rdl_\S+", shown)
        assert found is not None, shown
        with httpx.Client(timeout=60) as client:
            assert client.get(found[0]).status_code == 200
            assert "Overview" in client.get(found[0].partition("/link/")[0] + "/").text
            assert client.get(found[0]).status_code == 403
        process.send_signal(signal.SIGINT)
        process.communicate()


def test_the_curl_it_shows_delivers_a_mail_to_the_simulator(shop: Shop) -> None:
    with started(shop.folder, "up", "--no-demo", *ANY_PORT) as process:
        shown = _until(process, "ok@b.example")
        key, command = shown[shown.index("KEY=") :].split("\n", 1)
        answer = subprocess.run(
            ["bash", "-c", f"{key}\n{command.replace('curl', 'curl --silent')}"],
            capture_output=True,
            text=True,
            check=True,
        )
        mail_id = json.loads(answer.stdout)["id"]
        _until(process, "acme to ok@b.example delivered")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert process.returncode == 0, error
    assert "1 delivered, 0 retrying, 0 dead" in out
    assert shop.ok("mail", "show", mail_id)["recipients"][0]["status"] == "sent"
    (mail,) = shop.ok("mailbox", "list")["mails"]
    assert (mail["to"], mail["subject"]) == (["ok@b.example"], "Hi")
    assert shop.ok("status")["queues"][0]["processing"] == 0


def test_json_is_one_document_with_addresses_keys_and_figures(shop: Shop) -> None:
    with started(shop.folder, "up", "--json", *ANY_PORT) as process:
        while not _has_run(shop):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    document = json.loads(out)
    assert re.fullmatch(KEY, Path(document["adminKeyFile"]).read_text().strip())
    assert document["url"].startswith("http://127.0.0.1:")
    assert document["delivered"] == sum(one["delivered"] for one in document["byTenant"].values()) > 3
    assert document["reasons"]["bounced"] >= 1
    assert document["retried"] >= 1


def test_the_keys_of_the_traffic_end_with_it(shop: Shop) -> None:
    with started(shop.folder, "up", *ANY_PORT) as process:
        while len(_keys_of_the_traffic(shop)) < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate()
    ended = _keys_of_the_traffic(shop)
    assert len(ended) == 3
    assert all(key["revokedAt"] for key in ended)


@pytest.mark.parametrize(
    ("which", "what"), [("--listen", "the HTTP API"), ("--mailbox-port", "the mailbox simulator")]
)
def test_a_port_in_use_is_named_with_what_it_is_for_and_the_flag_that_changes_it(
    shop: Shop, taken_port: int, which: str, what: str
) -> None:
    ports = {"--listen": "127.0.0.1:0", "--mailbox-port": "0"}
    ports[which] = ports[which].removesuffix("0") + str(taken_port)
    result = finish(shop.folder, "up", *(word for flag in ports.items() for word in flag))
    assert result.returncode == 1
    place = f"127.0.0.1:{taken_port}"
    assert (
        f"{what} cannot listen on {place}: Address already in use; stop what listens there" in result.stderr
    )
    assert which in result.stderr
    assert "Traceback" not in result.stderr
    assert "rdk_" not in result.stdout
    assert shop.ok("keys", "list")["keys"] == []


def test_a_store_whose_mail_is_sent_already_is_refused(shop: Shop) -> None:
    with started(shop.folder, "up", "--no-demo", *ANY_PORT) as process:
        _until(process, "ok@b.example")
        for command in (("up", *ANY_PORT), ("demo",)):
            result = finish(shop.folder, *command)
            assert result.returncode == 1
            assert f"process {process.pid} on" in result.stderr


def test_a_store_with_real_mail_is_refused_and_its_mail_goes_on_waiting(shop: Shop) -> None:
    sent = shop.ok("mail", "send", "--from", "a@b.example", "--to", "someone@b.example", "--text", "Hi")
    for command in (("up", *ANY_PORT), ("demo",)):
        result = finish(shop.folder, *command)
        assert (result.returncode, result.stdout) == (1, "")
        for way_out in ("was not begun by redrive up", "--store sqlite:///playground.db", "REDRIVE_MAIL"):
            assert way_out in result.stderr
    assert shop.ok("mail", "show", sent["jobId"])["recipients"][0]["status"] == "queued"
    assert not (shop.folder / "mailbox").exists()
    assert shop.ok("keys", "list")["keys"] == []
    new = ("--store", "sqlite:///playground.db")
    elsewhere = finish(shop.folder, "up", "--no-demo", "--seconds", "0.5", *new, *ANY_PORT)
    assert elsewhere.returncode == 0, elsewhere.stderr


def test_a_store_that_sent_through_a_relay_is_not_for_the_simulator_any_more(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = finish(shop.folder, "up", "--no-demo", "--seconds", "0.5", *ANY_PORT)
    assert first.returncode == 0, first.stderr
    with monkeypatch.context() as context:
        context.setitem(ENVIRONMENT, "REDRIVE_MAIL", "smtp://127.0.0.1:1")
        relayed = finish(shop.folder, "up", "--seconds", "0.5", "--listen", "127.0.0.1:0")
        assert relayed.returncode == 0, relayed.stderr
    again = finish(shop.folder, "up", *ANY_PORT)
    assert again.returncode == 1
    assert "was not begun by redrive up" in again.stderr


def test_a_relay_takes_the_simulators_place_and_gets_no_demonstration(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.ok("mail", "send", "--from", "a@b.example", "--to", "someone@b.example", "--text", "Hi")
    with started(shop.folder, "mailbox", "--port", "0", "--folder", "relay") as relay:
        url = _until(relay, "listening").split()[2].rstrip(",")
        monkeypatch.setitem(ENVIRONMENT, "REDRIVE_MAIL", url)
        refused = finish(shop.folder, "up", "--demo")
        assert (refused.returncode, refused.stdout) == (2, "")
        with started(shop.folder, "up", "--listen", "127.0.0.1:0") as process:
            shown = _until(process, r"default to \*\*\*@b.example delivered")
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert url in shown
    assert [mail["to"] for mail in shop.ok("mailbox", "list", "--folder", "relay")["mails"]] == [
        ["someone@b.example"]
    ]
    assert not (shop.folder / "mailbox").exists()


def test_the_health_of_a_running_gateway(shop: Shop) -> None:
    with started(shop.folder, "up", "--no-demo", *ANY_PORT) as process:
        shown = _until(process, "ok@b.example")
        url, key = re.search(r"http://\S+", shown), (shop.folder / "redrive-admin-key").read_text().strip()
        assert url
        assert httpx.get(f"{url[0]}/health/ready", timeout=60).status_code == 200
        outbox = httpx.get(f"{url[0]}/health/outbox", headers={"Authorization": f"Bearer {key}"}, timeout=60)
        assert outbox.json()["status"] == "healthy"


def test_on_a_terminal_it_draws_a_page(shop: Shop) -> None:
    code, shown = on_terminal(shop.folder, "up", "--seconds", "4", *ANY_PORT, until="", answer="")
    assert code == 0
    for part in (
        "delivered",
        "retrying",
        "share",
        "acme",
        "durability A",
        "Ctrl-C",
        "redrive dlq list",
        "KEY=rdk_",
    ):
        assert part in shown


@pytest.mark.parametrize("address", ["nowhere", "192.0.2.1:8025"])
def test_an_address_that_cannot_be_listened_on_is_refused_before_anything_is_begun(
    shop: Shop, taken_port: int, address: str
) -> None:
    result = shop("up", "--listen", address, "--mailbox-port", str(taken_port))
    assert (result.code, result.out) == (2, "")
    assert "listen: " in result.error
    assert list(shop.folder.iterdir()) == []


def test_without_the_extra_it_says_what_to_install_and_begins_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redrive.web.server", None)
    result = shop("up")
    assert (result.code, result.out) == (2, "")
    assert "pip install 'redrive[web]'" in result.error
    assert list(shop.folder.iterdir()) == []
