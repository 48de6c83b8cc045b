"""The night on the command line, on SQLite and on Redis: see the causes, try some, halt, mend, bring back."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from tests.cli.conftest import MENDED, Shop
from tests.cli.processes import ENVIRONMENT, started


@pytest.fixture(params=["sqlite", "redis"])
def night(request: pytest.FixtureRequest, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop on one of the stores, with twelve dead letters of three tenants and two causes."""
    if request.param == "redis":
        url = f"{request.getfixturevalue('redis_url')}?prefix=cli-{uuid.uuid4().hex}"
        for target in (monkeypatch.setenv, lambda name, text: monkeypatch.setitem(ENVIRONMENT, name, text)):
            target("REDRIVE_STORE", url)
            target("XDG_CACHE_HOME", str(shop.folder / "cache"))
    for number in range(12):
        cause = "the bank is down" if number < 9 else "no such order"
        shop.send({"permanent": cause, "order": number}, "--tenant", f"tenant-{number % 3}")
    shop.work()
    return shop


def _redrive(shop: Shop, *arguments: str) -> tuple[int, Any]:
    """A re-drive, while a worker runs what comes back."""
    with started(shop.folder, "dlq", "redrive", *arguments, "--yes", "--json") as process:
        while process.poll() is None:
            shop.work()
        out, error = process.communicate()
    assert not error, error
    return process.returncode, json.loads(out)["operation"]


def test_a_night_from_groups_to_audit(night: Shop) -> None:
    shop = night
    larger, smaller = shop.ok("dlq", "groups")["groups"]
    assert (larger["count"], larger["tenants"], smaller["count"]) == (9, 3, 3)
    assert shop.ok("dlq", "shape")["total"] == 12
    assert shop.ok("dlq", "sql", "--saved", "by-code")["rows"] == [["402", 12]]
    (seventh,) = shop.ok("dlq", "list", "--filter", "payload.order:7")["letters"]
    assert "the bank is down" in shop("dlq", "show", seventh["jobId"]).out

    chosen = ("--filter", f"fingerprint:{larger['key']}", "--canary", "3", "--rate", "100/s")
    code, operation = _redrive(shop, *chosen)
    assert (code, operation["state"], operation["moved"]) == (3, "halted", 3)
    assert shop.ok("ops", "cancel", operation["id"])["state"] == "cancelled"

    (shop.folder / MENDED).touch()
    code, operation = _redrive(shop, *chosen, "--wait")
    assert (code, operation["state"], operation["done"]) == (0, "finished", 9)
    assert [one["key"] for one in shop.ok("dlq", "groups")["groups"]] == [smaller["key"]]

    exported = shop("dlq", "export", "left.csv", "--all")
    assert exported.out == "3 exported\n"
    archived = shop.ok("dlq", "archive", "--all", "--folder", "kept", "--yes")
    assert (archived["archived"], shop.ok("dlq", "list")["letters"]) == (3, [])
    assert shop.ok("dlq", "restore", archived["files"][0])["operation"]["moved"] == 3
    assert shop.ok("dlq", "discard", "--all", "--yes")["operation"]["moved"] == 3
    assert [one["kind"] for one in shop.ok("ops", "list")["operations"]] == [
        "discard",
        "restore",
        "archive",
        "export",
        "redrive",
        "redrive",
    ]
    assert shop.ok("audit", "verify")["whole"] is True
    assert shop.ok("audit", "--unfinished")["rows"] == []
