"""`status` and `queue`: what queues hold, and the switches."""

from __future__ import annotations

import pytest

from redrive import Redrive
from redrive.office.retention.duty import Retention
from tests.cli.conftest import Shop
from tests.cli.processes import on_terminal

R24 = {"pending", "scheduled", "retryScheduled", "processing", "published", "dlq", "failed"}
R17 = {
    "companyId",
    "lastProcessedAt",
    "roundsWithoutProcessing",
    "currentPriority",
    "totalProcessed",
    "consecutiveBatchCount",
}


def test_status_counts_what_waits_runs_is_done_and_is_dead(shop: Shop) -> None:
    shop.bury()
    shop.send(1)
    shop.work()
    shop.send(1, "--delay", "1h")
    shop.send({"temporary": "busy"})
    shop.work(jump=False)
    shop.send(1)
    document = shop.ok("status")
    (queue,) = document["queues"]
    assert queue.keys() >= R24
    counted = {name: queue[name] for name in R24}
    assert counted == {
        "pending": 1,
        "scheduled": 1,
        "retryScheduled": 1,
        "processing": 0,
        "published": 1,
        "dlq": 1,
        "failed": 0,
    }
    assert queue["noHandler"] is True
    assert (document["durability"], document["store"].startswith("sqlite:///")) == ("A", True)


def test_status_says_in_words_who_serves_and_how_durable(shop: Shop) -> None:
    shop.send()
    shown = shop("status").out
    assert "no handler" in shown
    assert "durability A" in shown


def test_status_says_when_scheduled_work_will_be_due(shop: Shop) -> None:
    shop.send(1, "--delay", "5h")
    shown = shop("status").out
    assert "in 5 h" in shown
    assert "0.0 s" not in shown


def test_lanes_have_every_counter_and_switch(shop: Shop) -> None:
    for tenant in ("acme", "globex"):
        shop.send(1, "--tenant", tenant)
    shop.work()
    lanes = shop.ok("status", "--lanes", "orders")["lanes"]
    assert [lane["companyId"] for lane in lanes] == ["acme", "globex"]
    assert all(lane.keys() >= R17 for lane in lanes)
    assert [lane["totalProcessed"] for lane in lanes] == [1, 1]
    assert "globex" in shop("status", "--lanes", "orders").out


def test_status_announces_which_letters_leave(shop: Shop) -> None:
    shop.bury()
    assert shop.ok("status")["retention"] == []

    async def look(app: Redrive) -> None:
        app.store.skew_ms = 8 * 86_400_000
        await Retention(app.store, app.settings.retention).step()

    shop.with_app(look)
    (notice,) = shop.ok("status")["retention"]
    assert (notice["queue"], notice["forAge"], notice["problem"]) == ("orders", 1, None)
    assert "1 letter of orders leaves for age on" in shop("status").out


def test_status_warns_that_letters_can_leave_nowhere_and_names_the_next_command(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.send()
    monkeypatch.setenv("REDRIVE_RETENTION_FOLDER", "none")
    assert shop.ok("status")["warnings"] == []
    shop.bury()
    (warning,) = shop.ok("status")["warnings"]
    assert "retention.folder" in warning
    shown = shop("status")
    assert warning in shown.out
    assert "redrive dlq groups" in shown.error


def test_pause_and_resume_show_in_status(shop: Shop) -> None:
    message_id = shop.send()
    assert shop("queue", "pause", "orders").out == "orders is paused\n"
    assert shop.ok("queue", "list")["queues"][0]["state"] == "paused"
    assert "paused" in shop("queue", "list").out
    assert "queue resume orders" in shop.ok("show", message_id)["why"]
    assert shop.ok("queue", "resume", "orders") == {"queue": "orders", "state": "running"}
    assert shop.ok("status")["queues"][0]["state"] == "running"


def test_purge_removes_what_waits_and_leaves_the_dead(shop: Shop) -> None:
    shop.bury()
    shop.send(1)
    shop.send(1, "--delay", "1h")
    assert shop.ok("queue", "purge", "orders", "--yes") == {"queue": "orders", "removed": 2}
    (queue,) = shop.ok("status")["queues"]
    assert (queue["pending"], queue["scheduled"], queue["dlq"]) == (0, 0, 1)


def test_purge_without_terminal_and_yes_changes_nothing(shop: Shop) -> None:
    shop.send(1)
    result = shop("queue", "purge", "orders")
    assert result.code == 2
    assert "1 waiting" in result.error
    assert "--yes" in result.error
    assert shop.ok("status")["queues"][0]["pending"] == 1


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("\n", 1, 1)])
def test_purge_on_a_terminal_asks_with_the_count(shop: Shop, answer: str, code: int, left: int) -> None:
    shop.send(1)
    ended, shown = on_terminal(shop.folder, "queue", "purge", "orders", until="[y/N]", answer=answer)
    assert "1 waiting" in shown
    assert ended == code
    assert shop.ok("status")["queues"][0]["pending"] == left


@pytest.mark.parametrize("verb", ["pause", "resume", "purge"])
def test_an_unknown_queue_is_not_found_and_not_made(shop: Shop, verb: str) -> None:
    shop.send()
    result = shop("queue", verb, "oders")
    assert result.code == 4
    assert "'oders'" in result.error
    assert "orders" in result.error
    assert len(shop.ok("status")["queues"]) == 1
