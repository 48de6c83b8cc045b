"""`show`, `cancel` and `run-now`: one message from the terminal."""

from __future__ import annotations

import os
from pwd import getpwuid

import pytest

from redrive import Redrive
from redrive.core.failure import Failure, Kind
from redrive.core.ports import Claim
from redrive.core.retry import RetryPolicy
from redrive.core.verdict import CRASH_LIMIT, Failed, Settlement, decide
from redrive.testing import run_until_idle
from tests.cli.conftest import Shop

UNKNOWN = "0197a000-0000-7000-8000-000000000000"


def test_show_tells_every_attempt_with_kind_code_and_reason(shop: Shop) -> None:
    message_id = shop.send({"temporary": "gateway timed out"}, "--tenant", "acme")
    shop.work()
    shown = shop("show", message_id).out
    for attempt in range(1, 6):
        assert f"attempt {attempt} temporary" in shown
    assert shown.count("gateway timed out [503]") == 5
    assert "exhausted" in shown
    document = shop.ok("show", message_id)
    assert [failure["attempt"] for failure in document["failures"]] == [1, 2, 3, 4, 5]
    assert document["state"] == "dead"


def test_a_message_that_died_of_lost_workers_says_how_many(shop: Shop) -> None:
    message_id = shop.send()

    async def lose_workers(app: Redrive) -> None:
        for number in range(1, CRASH_LIMIT + 1):
            claimed = await app.store.claim(Claim("orders", f"token {number}", 1, 30.0, alone=number > 1))
            (delivery,) = claimed.deliveries
            now = app.store.now()
            lost = Failed(Failure(now, 1, Kind.LOST, "the worker was lost while it ran this"))
            verdict = decide(lost, delivery.progress, RetryPolicy(), now=now, jitter=0.5)
            await app.store.settle([Settlement(delivery, verdict)])

    shop.with_app(lose_workers)
    assert "3 workers lost" in shop("show", message_id).out
    document = shop.ok("show", message_id)
    assert (document["reason"], document["crashes"]) == ("worker lost", CRASH_LIMIT)
    shop.ok("dlq", "redrive", message_id, "--yes")
    assert shop.ok("show", message_id)["crashes"] == 0


def test_a_message_that_expired_unrun_has_no_attempt(shop: Shop) -> None:
    message_id = shop.send(1, "--ttl", "10s")

    async def expire(app: Redrive) -> None:
        app.store.skew_ms = 60_000
        await run_until_idle(app)

    shop.with_app(expire)
    shown = shop("show", message_id).out
    assert "expired" in shown
    assert "attempt 0" not in shown
    assert "attempt 1 " not in shown
    assert "never tried" in shop("dlq", "list").out


@pytest.mark.usefixtures("late_retries")
def test_show_tells_a_waiting_message_why(shop: Shop) -> None:
    message_id = shop.send({"temporary": "gateway timed out"})
    shop.work(jump=False)
    shown = shop("show", message_id).out
    assert "its attempt 1 failed; it is due in" in shown
    shop.ok("run-now", message_id)
    assert "no live worker" in shop("show", message_id).out


def test_the_body_is_shown_only_on_request(shop: Shop) -> None:
    message_id = shop.send({"card": "4111"})
    assert "4111" not in shop("show", message_id).out
    assert "4111" not in shop("show", message_id, "--json").out
    assert '"card": "***"' in shop("show", message_id, "--body").out
    assert "4111" in shop("show", message_id, "--reveal").out
    assert shop.ok("show", message_id, "--reveal")["originalData"] == {"card": "4111"}


def test_a_finished_message_has_no_body(shop: Shop) -> None:
    message_id = shop.send()
    shop.work()
    shown = shop("show", message_id, "--body").out
    assert "done" in shown
    assert "keeps no body" in shown


def test_a_redrive_stands_in_the_life(shop: Shop) -> None:
    message_id = shop.bury()
    shop.ok("dlq", "redrive", message_id)
    shown = shop("show", message_id).out
    assert f"by {getpwuid(os.getuid()).pw_name}@" in shown
    assert "came to: pending" in shown


def test_cancel_removes_and_a_second_one_fails(shop: Shop) -> None:
    message_id = shop.send()
    assert shop.ok("cancel", message_id)["result"] == "removed"
    again = shop("cancel", message_id)
    assert again.code == 1
    assert "does not wait" in again.error
    assert shop.ok("show", message_id)["removal"]["move"] == "cancel"


def test_run_now_makes_a_delayed_message_due(shop: Shop) -> None:
    message_id = shop.send(1, "--delay", "1h")
    assert shop("run-now", message_id).out == f"{message_id} is due now\n"
    assert shop.ok("status")["queues"][0]["pending"] == 1


@pytest.mark.parametrize("verb", [("show",), ("cancel",), ("run-now",), ("dlq", "show")])
def test_an_unknown_id_is_not_found(shop: Shop, verb: tuple[str, ...]) -> None:
    shop.send()
    result = shop(*verb, UNKNOWN)
    assert (result.code, result.out) == (4, "")
    assert UNKNOWN in result.error
