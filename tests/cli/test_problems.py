"""What goes wrong: each kind has its exit code, says what, why and what to do, and shows no secret."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from tests.cli.processes import COMMAND, ENVIRONMENT, finish

READING = [
    ("status",),
    ("show", "x"),
    ("cancel", "x"),
    ("run-now", "x"),
    ("queue", "list"),
    ("queue", "purge", "q", "--yes"),
    ("dlq", "list"),
    ("dlq", "redrive", "--all", "--yes"),
    ("backup", "copy.db"),
    ("mail", "show", "x"),
    ("mail", "destinations"),
    ("keys", "list"),
    ("keys", "revoke", "x"),
]


@pytest.mark.parametrize("arguments", READING)
def test_a_missing_store_is_named_and_not_created(shop: Shop, arguments: tuple[str, ...]) -> None:
    result = shop(*arguments)
    assert (result.code, result.out) == (5, "")
    assert f"no store at {shop.folder / 'redrive.db'} yet" in result.error
    assert list(shop.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("status", "--profile", "prod"), ["profile from flag", "production, development, mta"]),
        (("status", "--store", "carrier://pigeon"), ["'carrier'", "sqlite://"]),
        (("status", "--store", "shop.db"), ["'shop.db'", "write sqlite:///shop.db"]),
        (("status", "--store", "/srv/shop.db"), ["write sqlite:////srv/shop.db"]),
        (("status", "--store", "sqlite://x"), ["sqlite:///file.db"]),
        (("status", "--config", "gone.toml"), ["gone.toml", "does not exist"]),
        (("status", "--bogus"), ["--bogus", "--help"]),
        (("sttus",), ["sttus", "status"]),
        (("--store", "sqlite:///x.db", "status"), ["--store stands before the command"]),
        (("dlq", "bogus"), ["bogus"]),
        (("up", "--seconds", "0"), ["--seconds"]),
        (("up", "--seconds", "nan"), ["--seconds"]),
        (("demo", "--seconds", "inf"), ["--seconds"]),
        (("tenant", "set", "acme", "--rate", "0/s"), ["rate 0/s", "at least 1"]),
        (("up", "--listen", "nowhere"), ["listen", "127.0.0.1:8025"]),
        (("up", "--mailbox-port", "70000"), ["--mailbox-port is 70000"]),
        (("serve", "--listen", "192.0.2.1:8025"), ["192.0.2.1", "--allow-remote"]),
        (("serve", "--certificate", "x.pem"), ["--private-key"]),
        (("worker",), ["module:app", "--mail"]),
        (("keys", "create", "--role", "god"), ["god", "admin"]),
        (("keys", "create", "--role", "submit"), ["--tenant"]),
        (("mailbox", "--port", "70000"), ["--port"]),
        (("mailbox", "list", "--limit", "0"), ["--limit"]),
        (("dlq", "list", "--limit", "501"), ["--limit"]),
    ],
)
def test_bad_flags_and_settings_are_usage_errors(
    shop: Shop, arguments: tuple[str, ...], said: list[str]
) -> None:
    result = shop(*arguments)
    assert (result.code, result.out) == (2, "")
    for part in said:
        assert part in result.error


def test_an_unknown_key_names_key_and_file(shop: Shop) -> None:
    (shop.folder / "redrive.toml").write_text("[worker]\nlease = 3\n")
    result = shop("config", "show")
    assert result.code == 2
    assert "worker.lease from redrive.toml" in result.error


def test_a_bad_variable_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_PROFILE", "prod")
    result = shop("status")
    assert result.code == 2
    assert "REDRIVE_PROFILE" in result.error


def test_a_file_that_is_no_database_is_left_alone(shop: Shop) -> None:
    file = shop.folder / "redrive.db"
    file.write_text("not a database, but long enough to look at " * 50)
    for arguments in (("status",), ("send", "orders", "1")):
        result = shop(*arguments)
        assert result.code == 5
        assert "not a Redrive database" in result.error
    assert file.read_text().startswith("not a database")


def test_a_newer_schema_asks_for_an_upgrade(shop: Shop) -> None:
    shop.send()
    with sqlite3.connect(shop.folder / "redrive.db") as connection:
        connection.execute("pragma user_version = 9999")
    result = shop("status")
    assert result.code == 5
    assert "newer Redrive" in result.error


def test_a_folder_that_cannot_be_written_is_named(shop: Shop) -> None:
    shop.folder.chmod(0o555)
    # Root may write everywhere; without this capability it is refused like anybody.
    unprivileged = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-all"] if os.getuid() == 0 else []
    result = subprocess.run(
        [*unprivileged, *COMMAND, "send", "orders", "1"],
        cwd=shop.folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    shop.folder.chmod(0o755)
    assert result.returncode == 5, result.stderr
    assert "cannot write" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unreachable_server_is_exit_5_without_its_password(shop: Shop) -> None:
    result = shop("status", "--store", "redis://:hunter2@127.0.0.1:1/0")
    assert result.code == 5
    assert "hunter2" not in result.error
    assert "Traceback" not in result.error


def test_under_json_an_error_is_one_document_on_standard_error(shop: Shop) -> None:
    for arguments, code in ((("status",), 5), (("status", "--profile", "x"), 2), (("bogus",), 2)):
        result = shop(*arguments, "--json")
        assert (result.code, result.out) == (code, "")
        error = json.loads(result.error)["error"]
        assert error["exitCode"] == code
        assert error["what"]
        assert error["message"]


def test_flags_win_over_the_environment_which_wins_over_the_file(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop.folder / "redrive.toml").write_text('profile = "mta"\n[worker]\npoll_s = 7\n')
    monkeypatch.setenv("REDRIVE_PROFILE", "development")
    rows = {row["key"]: row for row in shop.ok("config", "show")["settings"]}
    assert (rows["profile"]["value"], rows["profile"]["origin"]) == ("development", "REDRIVE_PROFILE")
    assert (rows["worker.poll_s"]["value"], rows["worker.poll_s"]["origin"]) == (7.0, "redrive.toml")
    shown = shop("config", "show", "--profile", "production").out
    assert "profile production" in shown


def test_config_show_masks_a_password(shop: Shop) -> None:
    for form in ((), ("--json",)):
        assert "hunter2" not in shop("config", "show", "--store", "redis://:hunter2@host/0", *form).out


def test_the_store_lies_in_the_data_folder(shop: Shop) -> None:
    (shop.folder / "data").mkdir()
    shop.ok("send", "orders", "1", "--data", "data")
    assert (shop.folder / "data" / "redrive.db").exists()
    assert shop.ok("status", "--data", "data")["queues"][0]["pending"] == 1


def test_a_backup_is_a_whole_store_and_never_overwrites(shop: Shop) -> None:
    message_id = shop.bury()
    assert shop.ok("backup", "copy.db")["bytes"] > 0
    (letter,) = shop.ok("dlq", "list", "--store", "sqlite:///copy.db")["letters"]
    assert letter["jobId"] == message_id
    assert shop("backup", "copy.db").code == 2
    assert shop("backup", "nowhere/copy.db").code == 2


def test_a_server_has_its_own_backup(shop: Shop, redis_url: str) -> None:
    store = f"{redis_url}?prefix=cli"
    shop.ok("send", "orders", "1", "--store", store)
    assert shop.ok("status", "--store", store)["queues"][0]["pending"] == 1
    result = shop("backup", "copy.db", "--store", store)
    assert result.code == 2
    assert "SQLite" in result.error


def test_a_reader_that_goes_away_is_no_traceback(shop: Shop) -> None:
    for _ in range(3):
        shop.bury("x" * 900)
    reading, writing = os.pipe()
    os.close(reading)
    for form in ((), ("--json",)):
        ended = subprocess.run(
            [*COMMAND, "dlq", "list", *form],
            cwd=shop.folder,
            env=ENVIRONMENT,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert ended.stderr == ""
    os.close(writing)


def test_the_version_is_printed(tmp_path: Path) -> None:
    result = finish(tmp_path, "--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout[0].isdigit()
