"""`status` and `queue`: what queues hold, and the switches."""

from __future__ import annotations

import pytest

from redrive import Redrive
from redrive.office.retention.duty import Retention
from tests.cli.conftest import Shop
from tests.cli.processes import on_terminal

COUNTS = {"pending", "scheduled", "retryScheduled", "processing", "published", "dlq", "failed"}
TENANT = {
    "companyId",
    "lastProcessedAt",
    "roundsWithoutProcessing",
    "currentPriority",
    "totalProcessed",
    "consecutiveBatchCount",
}


@pytest.mark.usefixtures("late_retries")
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
    assert queue.keys() >= COUNTS
    counted = {name: queue[name] for name in COUNTS}
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
    for tenant in ("globex", "acme"):
        shop.send(1, "--tenant", tenant)
    shop.work()
    lanes = shop.ok("status", "--lanes", "orders")["lanes"]
    assert [lane["companyId"] for lane in lanes] == ["acme", "globex"]
    assert all(lane.keys() >= TENANT for lane in lanes)
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


def _age(shop: Shop) -> None:
    """Everything of the shop's store ended long ago."""
    import apsw

    with apsw.Connection(str(shop.folder / "redrive.db")) as store:
        store.execute(
            "update messages set finished_at = finished_at - 86400000 where finished_at is not null"
        )


def test_a_queue_is_deleted_and_a_later_message_makes_it_anew(shop: Shop) -> None:
    shop.send(1, "--dedupe", "k")
    shop.work()
    shop.ok("tenant", "set", "default", "--weight", "3", "--queue", "orders")
    refused = shop("queue", "delete", "orders", "--yes")
    assert refused.code == 1
    assert "has just finished" in refused.error
    _age(shop)
    assert shop.ok("queue", "delete", "orders", "--yes") == {"queue": "orders", "removed": 1}
    assert shop.ok("queue", "list")["queues"] == []
    rows = [row for row in shop.ok("audit")["rows"] if row["verb"] == "delete queue"]
    assert [(row["row"], row.get("ok")) for row in rows] == [
        ("intent", None),
        ("outcome", False),
        ("intent", None),
        ("outcome", True),
    ]
    shop.send(1, "--dedupe", "k")
    assert shop.ok("status", "--lanes", "orders")["lanes"][0]["weight"] == 1


def test_a_queue_with_open_messages_is_not_deleted_and_says_what_helps(shop: Shop) -> None:
    shop.bury()
    shop.send(1, "--delay", "1h")
    refused = shop("queue", "delete", "orders", "--yes")
    assert refused.code == 1
    assert "messages: 1 waiting, 1 dead" in refused.error
    assert "redrive queue purge orders" in refused.error
    assert shop.ok("status")["queues"][0]["dlq"] == 1


def test_a_queue_that_a_worker_serves_or_an_operation_concerns_is_not_deleted(shop: Shop) -> None:
    shop.send(1)
    shop.work()
    _age(shop)

    async def announce(app: Redrive) -> None:
        worker = {"queues": ["orders"], "host": "here", "pid": 7, "startedAt": 0}
        await app.store.put_record("worker", "w", worker, expected=None, ttl_s=60)

    async def leave(app: Redrive) -> None:
        await app.store.delete_record("worker", "w", expected=None)

    shop.with_app(announce)
    assert "1 live worker serves it" in shop("queue", "delete", "orders", "--yes").error
    shop.with_app(leave)
    letter = shop.bury(queue="email:send")
    operation = shop.with_app(lambda app: app.dead_letters.redrive(ids=[letter], to="orders")).id
    shop.ok("ops", "pause", operation)
    refused = shop("queue", "delete", "orders", "--yes")
    assert f"operation {operation} is paused" in refused.error
    shop.ok("ops", "cancel", operation)
    assert shop("queue", "delete", "orders", "--yes").code == 0


@pytest.mark.parametrize("verb", ["pause", "resume", "purge", "delete"])
def test_an_unknown_queue_is_not_found_and_not_made(shop: Shop, verb: str) -> None:
    shop.send()
    result = shop("queue", verb, "oders")
    assert result.code == 4
    assert "'oders'" in result.error
    assert "orders" in result.error
    assert len(shop.ok("status")["queues"]) == 1
