"""`redrive ops`, and what a re-drive does as an operation: canary, halt, resume, interrupt, another queue."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from tests.cli.conftest import Shop
from tests.cli.processes import on_terminal, started


def _halted(shop: Shop) -> Any:
    """A re-drive of eight letters whose canary of five failed again."""
    for _ in range(8):
        shop.send({"permanent": "card was declined"})
    shop.work()
    with started(shop.folder, "dlq", "redrive", "--all", "--canary", "5", "--yes", "--json") as process:
        while process.poll() is None:
            shop.work()
        out, error = process.communicate()
    assert process.returncode == 3, error
    return json.loads(out)["operation"]


def test_a_canary_that_fails_again_halts_and_leaves_the_rest(shop: Shop) -> None:
    operation = _halted(shop)
    assert (operation["state"], operation["moved"], operation["failed"]) == ("halted", 5, 5)
    assert "3 were not moved" in operation["why"]
    shown = shop("ops", "show", operation["id"])
    assert "halted" in shown.out
    for advice in ("ops resume", "ops cancel", "dlq groups"):
        assert advice in shown.error
    status = shop("status").out
    assert operation["id"] in status
    assert shop.ok("ops", "list", "--running")["operations"][0]["id"] == operation["id"]

    cancelled = shop.ok("ops", "cancel", operation["id"])
    assert (cancelled["state"], cancelled["handled"]) == ("cancelled", 5)
    assert shop.ok("status")["operations"] == []
    assert shop.ok("audit", "--action", operation["id"])["rows"][-1]["row"] == "outcome"
    again = shop("ops", "cancel", operation["id"])
    assert again.code == 1
    assert "it cannot be cancelled" in again.error


def _interrupted(shop: Shop, number: signal.Signals, *chosen: str) -> str:
    """End a slow re-drive of four letters by a signal once one was moved; what it said then."""
    for _ in range(4):
        shop.send({"permanent": "no"})
    shop.work()
    arguments = ("dlq", "redrive", *chosen, "--rate", "1/h", "--yes")
    with started(shop.folder, *arguments) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("moving"):
            assert process.poll() is None
        while shop.ok("ops", "list")["operations"][0]["moved"] == 0:
            assert process.poll() is None
        process.send_signal(number)
        _, rest = process.communicate()
    assert process.returncode == 130
    return rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_operation_and_says_how_to_go_on(shop: Shop, number: signal.Signals) -> None:
    rest = _interrupted(shop, number, "--all")
    (operation,) = shop.ok("ops", "list")["operations"]
    assert (operation["state"], operation["moved"]) == ("moving", 1)
    for verb in ("wait", "cancel"):
        assert f"redrive ops {verb} {operation['id']}" in rest
    paused = shop("ops", "pause", operation["id"])
    assert (paused.code, "redrive ops resume" in paused.error) == (0, True)
    assert shop("ops", "wait", operation["id"]).code == 3
    assert shop.ok("ops", "resume", operation["id"])["state"] == "moving"
    assert len(shop.ok("dlq", "list")["letters"]) == 3


def test_an_operation_that_nobody_carries_on_is_told(shop: Shop) -> None:
    _interrupted(shop, signal.SIGTERM, "--all")
    (operation,) = shop.ok("ops", "list")["operations"]
    assert operation["unattended"]
    told = f"nobody carries {operation['id']} on: start a worker, or redrive ops wait {operation['id']}"
    for look in (("ops", "list"), ("ops", "show", operation["id"]), ("status",)):
        assert told in shop(*look).error
    with started(shop.folder, "ops", "wait", operation["id"]) as process:
        while shop.ok("ops", "show", operation["id"])["unattended"]:
            assert process.poll() is None
        assert "nobody carries" not in shop("status").error
    shop.ok("ops", "pause", operation["id"])
    assert not shop.ok("ops", "show", operation["id"])["unattended"]


def test_the_audit_tells_who_ended_an_operation_and_masks_the_addresses(shop: Shop) -> None:
    _interrupted(shop, signal.SIGTERM, "--filter", "-reason:ana@example.com")
    (operation,) = shop.ok("ops", "list")["operations"]
    shop.ok("ops", "cancel", operation["id"])
    shown = shop("audit").out
    assert f"why=cancelled by {operation['actor']}" in shown
    assert "***@example.com" in shown
    assert "ana@" not in shown


def test_the_share_of_failures_is_judged_once_so_many_came_back(shop: Shop) -> None:
    for _ in range(3):
        shop.send({"permanent": "no"})
    shop.work()
    arguments = ("dlq", "redrive", "--all", "--rate", "1/h", "--halt-least", "1", "--yes", "--json")
    with started(shop.folder, *arguments) as process:
        while process.poll() is None:
            shop.work()
        out, error = process.communicate()
    assert process.returncode == 3, error
    operation = json.loads(out)["operation"]
    assert (operation["state"], operation["haltLeast"]) == ("halted", 1)


def test_wait_tells_what_came_of_each_letter(shop: Shop) -> None:
    mended = shop.bury()
    operation = shop.ok("dlq", "redrive", mended)["operation"]
    assert (operation["state"], operation["outstanding"]) == ("finished", 1)
    shop.work()
    result = shop("ops", "wait", operation["id"], "--json")
    assert result.code == 3
    assert result.document["operation"]["deadAgain"] == 1
    assert "1 re-driven, 1 failed again" in shop("ops", "wait", operation["id"]).out


def test_letters_go_to_another_queue_that_exists(shop: Shop) -> None:
    message_id = shop.bury(queue="orders")
    shop.send(queue="invoices")
    assert shop("dlq", "redrive", message_id, "--to", "invioces").code == 4
    assert shop.ok("dlq", "redrive", message_id, "--to", "invoices")["operation"]["moved"] == 1
    counted = {one["queue"]: one for one in shop.ok("status")["queues"]}
    assert (counted["orders"]["dlq"], counted["invoices"]["published"]) == (0, 0)
    waiting = counted["invoices"]["pending"] + counted["invoices"]["scheduled"]
    assert waiting == 2
    shown = shop.ok("show", message_id)
    made = shop.ok("show", shown["replacedBy"])
    assert (made["queue"], made["headers"]["x-redriven-from"]) == ("invoices", message_id)
    assert f"Message {made['jobId']} in invoices took its place and is waiting" in shown["why"]
    page = shop("show", message_id).out
    assert re.search(rf"replaced by +{made['jobId']}", page)


def test_a_progress_bar_is_shown_on_a_terminal(shop: Shop) -> None:
    shop.bury()
    shop.bury()
    arguments = ("dlq", "redrive", "--all", "--rate", "5/s")
    code, shown = on_terminal(shop.folder, *arguments, until="[y/N]", answer="y\n")
    assert code == 0
    assert "2/2" in shown
    assert "2 re-driven" in shown
    assert "redrive ops wait" in shown


def test_a_canary_that_nobody_serves_is_announced_before_the_question(shop: Shop) -> None:
    shop.bury()
    shop.bury()
    arguments = ("dlq", "redrive", "--all", "--canary", "1")
    _, shown = on_terminal(shop.folder, *arguments, until="[y/N]", answer="n\n")
    assert "no live worker serves orders" in shown
    with started(shop.folder, "dlq", "redrive", "--all", "--canary", "1", "--yes") as process:
        assert process.stderr is not None
        while "no live worker serves orders" not in (line := process.stderr.readline()):
            assert line


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "cancel", "wait"])
def test_an_unknown_operation_is_not_found(shop: Shop, verb: str) -> None:
    shop.send()
    result = shop("ops", verb, "none")
    assert (result.code, result.out) == (4, "")
    assert "ops list" in result.error


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rate", "fast"),
        ("--halt", "much"),
        ("--halt", "101%"),
        ("--halt-least", "0"),
        ("--canary", "-1"),
        ("--canary", "501"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_moves(
    shop: Shop, arguments: tuple[str, ...]
) -> None:
    shop.bury()
    result = shop("dlq", "redrive", "--all", "--yes", *arguments)
    assert (result.code, result.out) == (2, "")
    assert shop.ok("ops", "list")["operations"] == []


def test_more_letters_than_the_budget_move_none(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.bury()
    shop.bury()
    monkeypatch.setenv("REDRIVE_OFFICE_BUDGET", "1")
    result = shop("dlq", "redrive", "--all", "--yes")
    assert result.code == 1
    assert "office.budget" in result.error
    assert shop("dlq", "redrive", "--all", "--limit", "1", "--yes").code == 0


def test_editing_is_off_unless_enabled_and_then_audited(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = shop.bury()
    refused = shop("dlq", "edit", message_id, '{"order": 7}')
    assert refused.code == 1
    assert "office.edit" in refused.error
    monkeypatch.setenv("REDRIVE_OFFICE_EDIT", "true")
    assert shop("dlq", "edit", message_id, "{").code == 2
    assert shop.ok("dlq", "edit", message_id, '{"order": 7}')["operation"]["moved"] == 1
    (intent, *_) = shop.ok("audit", "--verb", "redrive")["rows"]
    assert {change["path"] for change in intent["subject"]["changes"]} == {"permanent", "order"}
    assert shop.ok("show", message_id)["state"] == "removed"
