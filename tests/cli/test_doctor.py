"""`redrive doctor`, and the servers that other commands refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from tests.servers import RedisServer, ask, reserved_port, start_redis


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = start_redis(tmp_path_factory.mktemp("doctor"))
    yield server
    server.stop()


def test_a_sound_server_is_examined_line_by_line_and_the_exit_code_is_0(
    shop: Shop, server: RedisServer
) -> None:
    document = shop.ok("doctor", "--store", server.url)
    assert document["healthy"] is True
    assert document["durability"] == "B"
    assert {"appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "version", "clock", "scripts"} <= {
        finding["subject"] for finding in document["findings"]
    }


def test_what_is_wrong_comes_with_how_to_fix_it_and_the_exit_code_is_1(
    shop: Shop, server: RedisServer
) -> None:
    ask(server.port, "CONFIG", "SET", "appendonly", "no")
    result = shop("doctor", "--store", server.url)
    assert result.code == 1
    assert "wrong   appendonly" in result.out
    assert "→ CONFIG SET appendonly yes" in result.out


def test_a_warning_alone_leaves_the_exit_code_at_0(shop: Shop, server: RedisServer) -> None:
    ask(server.port, "CONFIG", "SET", "maxmemory", "0")
    result = shop("doctor", "--store", server.url)
    assert result.code == 0
    assert "watermark is off" in result.out


def test_nobody_at_the_address_is_exit_code_5(shop: Shop) -> None:
    with reserved_port() as port:
        assert shop("doctor", "--store", f"redis://127.0.0.1:{port}").code == 5


def test_a_sqlite_store_is_examined_too(shop: Shop) -> None:
    shop.send()
    assert shop.ok("doctor")["healthy"] is True


def test_folders_and_files_that_other_users_may_look_into_are_named(shop: Shop) -> None:
    shop.send()
    folder = shop.folder / "mailbox"
    folder.mkdir(mode=0o755)
    (folder / "00000001.eml").write_text("Subject: hello")
    found = {finding["subject"]: finding for finding in shop.ok("doctor")["findings"]}
    assert found["privacy"]["grade"] == "right"
    assert found["mailbox"]["grade"] == "warning"
    assert "mailbox, 00000001.eml" in found["mailbox"]["found"]
    assert "chmod -R go=" in found["mailbox"]["fix"]


def _senders(shop: Shop) -> dict[str, str]:
    found = [one for one in shop.ok("doctor")["findings"] if one["subject"] == "sender domains"]
    return found[0] if found else {}


def test_tenants_that_may_send_as_one_another_are_named(shop: Shop) -> None:
    shop.ok("keys", "create", "--role", "submit", "--tenant", "acme")
    assert _senders(shop) == {}
    shop.ok("keys", "create", "--role", "submit", "--tenant", "globex", "--from-domain", "globex.example")
    found = _senders(shop)
    assert found["grade"] == "warning"
    assert found["found"].startswith("acme may send as any domain")
    assert "[tenants.acme] from" in found["fix"]
    (shop.folder / "redrive.toml").write_text('[tenants.acme]\nfrom = ["acme.example"]\n')
    assert _senders(shop)["grade"] == "right"


def test_an_unsafe_server_takes_no_message_until_that_is_allowed(
    shop: Shop, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(server.port, "CONFIG", "SET", "appendonly", "no")
    send = ("send", "orders", "1", "--store", server.url)
    refused = shop(*send)
    assert refused.code == 5
    assert "--allow-unsafe" in refused.error
    assert shop.ok(*send, "--allow-unsafe")["status"] == "accepted"
    monkeypatch.setenv("REDRIVE_REDIS_ALLOW_UNSAFE", "true")
    assert shop.ok(*send)["status"] == "accepted"
    monkeypatch.delenv("REDRIVE_REDIS_ALLOW_UNSAFE")
    (shop.folder / "redrive.toml").write_text("[redis]\nallow_unsafe = true\n")
    assert shop.ok(*send)["status"] == "accepted"


def test_what_lies_on_an_unsafe_server_can_be_looked_at(shop: Shop, server: RedisServer) -> None:
    shop.ok("send", "orders", "1", "--store", server.url)
    ask(server.port, "CONFIG", "SET", "appendonly", "no")
    assert shop.ok("status", "--store", server.url)["queues"][0]["pending"] == 1


def test_status_tells_how_full_the_store_is(shop: Shop, server: RedisServer, tmp_path: Path) -> None:
    shop.ok("send", "orders", "1", "--store", server.url)
    capacity = shop.ok("status", "--store", server.url)["capacity"]
    assert capacity["limitBytes"] == 512 * 1024 * 1024
    assert 0 < capacity["waitingBytes"] < capacity["usedBytes"]
    assert capacity["accepts"] is True
    assert "used: waiting about" in shop("status", "--store", server.url).out


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("REDRIVE_REDIS_WATERMARK", "1.5", "watermark is 1.5"),
        ("REDRIVE_REDIS_WAIT_REPLICAS", "-1", "wait_replicas is -1"),
        ("REDRIVE_REDIS_ALLOW_UNSAFE", "perhaps", "true or false"),
        ("REDRIVE_STORE", "redis://127.0.0.1/0?cluster=maybe", "write true or false"),
        ("REDRIVE_STORE", "redis://127.0.0.1/0?prefix=a{b}", "is not a name"),
    ],
)
def test_a_setting_that_cannot_be_is_a_usage_error_that_says_what_to_write(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(variable, value)
    result = shop("doctor")
    assert result.code == 2
    assert expected in result.error
