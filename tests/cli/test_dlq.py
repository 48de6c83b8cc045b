"""`redrive dlq`: list, show, re-drive, discard; one, some and all."""

from __future__ import annotations

import pytest

from redrive.app import Redrive
from redrive.office.audit import AUDIT
from tests.cli.conftest import Shop
from tests.cli.processes import on_terminal

R8 = {
    "jobId",
    "outboxId",
    "companyId",
    "originalData",
    "failedAttempts",
    "lastFailureReason",
    "lastFailureCode",
    "lastFailureTimestamp",
    "enqueuedAt",
    "movedToDLQAt",
    "ttl",
    "queue",
    "reason",
    "failures",
    "redrives",
}


def test_list_shows_id_tenant_queue_reason_and_failure(shop: Shop) -> None:
    message_id = shop.bury("card was declined", "--tenant", "acme")
    shown = shop("dlq", "list").out
    for part in (message_id, "acme", "orders", "permanent", "card was declined [402]"):
        assert part in shown
    (letter,) = shop.ok("dlq", "list")["letters"]
    assert letter.keys() >= R8
    assert message_id in shop("dlq", "list", "--queue", "orders").out


def test_an_empty_list_says_so(shop: Shop) -> None:
    shop.send()
    assert shop("dlq", "list").out == "no dead letters\n"
    document = shop.ok("dlq", "list")
    assert (document["letters"], document["cursor"], document["index"]["behind"]) == ([], None, False)


def test_pages_follow_the_cursor_to_the_end(shop: Shop) -> None:
    buried = [shop.bury() for _ in range(3)]
    assert "--after" in shop("dlq", "list", "--limit", "2").error
    first = shop.ok("dlq", "list", "--limit", "2")
    second = shop.ok("dlq", "list", "--limit", "2", "--after", first["cursor"])
    assert [letter["jobId"] for letter in first["letters"] + second["letters"]] == buried
    assert second["cursor"] is None


def test_a_queue_is_found_by_its_dead_letter_queues_name(shop: Shop) -> None:
    message_id = shop.bury(queue="email:send")
    shop.bury(queue="orders")
    (letter,) = shop.ok("dlq", "list", "--queue", "email:send:dlq")["letters"]
    assert letter["jobId"] == message_id
    assert shop("dlq", "list", "--queue", "nowhere").code == 4


def test_show_has_the_whole_letter(shop: Shop) -> None:
    message_id = shop.bury("card was declined")
    document = shop.ok("dlq", "show", message_id)
    assert document.keys() >= R8
    assert "attempt 1 permanent" in shop("dlq", "show", message_id).out


def test_list_and_show_agree_on_every_field(shop: Shop) -> None:
    message_id = shop.bury("card was declined")
    assert shop.ok("dlq", "show", message_id) == shop.ok("dlq", "list")["letters"][0]


def test_show_of_a_living_message_is_not_found(shop: Shop) -> None:
    result = shop("dlq", "show", shop.send())
    assert result.code == 4
    assert "not a dead letter" in result.error


def test_one_letter_comes_back_without_a_question(shop: Shop) -> None:
    message_id = shop.bury()
    assert shop("dlq", "redrive", message_id).out == "1 re-driven\n"
    shown = shop.ok("show", message_id)
    assert (shown["state"], shown["generation"], shown["attempts"]) == ("waiting", 1, 0)


def test_all_of_a_queue_come_back_with_yes(shop: Shop) -> None:
    shop.bury(queue="orders")
    shop.bury(queue="email:send")
    document = shop.ok("dlq", "redrive", "--queue", "orders:dlq", "--yes")
    assert (document["operation"]["moved"], document["preview"]["count"]) == (1, 1)
    assert len(shop.ok("dlq", "list")["letters"]) == 1
    assert shop.ok("dlq", "redrive", "--all", "--yes")["operation"]["moved"] == 1


def test_the_limit_takes_the_oldest(shop: Shop) -> None:
    first, second = shop.bury(), shop.bury()
    assert shop.ok("dlq", "redrive", "--all", "--limit", "1", "--yes")["operation"]["moved"] == 1
    (left,) = shop.ok("dlq", "list")["letters"]
    assert (left["jobId"], shop.ok("show", first)["state"]) == (second, "waiting")


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_a_dry_run_splits_by_tenant_and_reason_and_changes_nothing(shop: Shop, verb: str) -> None:
    for tenant in ("acme", "acme", "globex"):
        shop.bury("no", "--tenant", tenant)
    preview = shop.ok("dlq", verb, "--all", "--dry-run")["preview"]
    counts = {group["companyId"]: group["count"] for group in preview["groups"]}
    assert (preview["count"], counts) == (3, {"acme": 2, "globex": 1})
    assert "3 to" in shop("dlq", verb, "--all", "--dry-run").out
    assert len(shop.ok("dlq", "list")["letters"]) == 3


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_many_without_terminal_and_yes_change_nothing(shop: Shop, verb: str) -> None:
    ids = [shop.bury(), shop.bury()]
    for which in (["--all"], ["--queue", "orders"], ids):
        result = shop("dlq", verb, *which)
        assert (result.code, result.out) == (2, "")
        assert "--yes" in result.error
    assert len(shop.ok("dlq", "list")["letters"]) == 2


@pytest.mark.parametrize(("answer", "code", "left"), [("yes\n", 0, 0), ("no\n", 1, 2)])
def test_many_on_a_terminal_are_previewed_and_asked_for(
    shop: Shop, answer: str, code: int, left: int
) -> None:
    shop.bury("no", "--tenant", "acme")
    shop.bury("no", "--tenant", "globex")
    ended, shown = on_terminal(shop.folder, "dlq", "redrive", "--all", until="[y/N]", answer=answer)
    for part in ("2 to redrive", "acme", "globex", "permanent"):
        assert part in shown
    assert ended == code
    assert len(shop.ok("dlq", "list")["letters"]) == left


def test_discard_keeps_the_content_and_says_who(shop: Shop) -> None:
    message_id = shop.bury("no")
    assert shop("dlq", "discard", message_id).out == "1 discarded\n"
    shown = shop.ok("show", message_id, "--body")
    assert shown["originalData"] == {"permanent": "no"}
    assert shown["removal"]["move"] == "discard"
    assert "@" in shown["removal"]["actor"]


def test_some_moved_and_some_not_is_partial(shop: Shop) -> None:
    dead, living = shop.bury(), shop.send()
    result = shop("dlq", "redrive", dead, living, "unknown", "--yes", "--json")
    assert result.code == 3
    came = result.document["operation"]
    assert (came["moved"], came["gone"], came["notFound"]) == (1, 1, 1)


def test_nothing_moved_is_failed_or_not_found(shop: Shop) -> None:
    living = shop.send()
    assert shop("dlq", "redrive", living).code == 1
    assert shop("dlq", "discard", "unknown").code == 4
    assert shop("dlq", "redrive", "--all", "--yes").code == 0


def test_letters_past_their_own_short_life_stay_unless_asked_for(shop: Shop) -> None:
    message_id = shop.send({"permanent": "no"}, "--ttl", "0.001s")
    shop.work()
    announced = shop.ok("dlq", "redrive", "--all", "--yes")
    assert (announced["operation"], announced["preview"]["expired"]) == (None, 1)
    assert shop("dlq", "redrive", message_id).code == 1
    assert shop.ok("dlq", "redrive", "--all", "--include-expired", "--yes")["operation"]["moved"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x", "--all"),
        ("--all", "--queue", "orders"),
        ("x", "--limit", "1"),
        ("--all", "--limit", "0"),
    ],
)
def test_letters_are_named_in_exactly_one_way(shop: Shop, arguments: tuple[str, ...]) -> None:
    shop.send()
    assert shop("dlq", "redrive", *arguments, "--yes").code == 2
    assert shop("dlq", "discard", *arguments, "--yes").code == 2


def test_each_change_is_in_the_audit_with_account_and_origin(shop: Shop) -> None:
    shop.ok("dlq", "redrive", shop.bury())

    async def rows(app: Redrive) -> list[dict[str, object]]:
        return [dict(row.document) for row in await app.store.read_journal(AUDIT)]

    intent, frozen, outcome = shop.with_app(rows)
    assert (intent["row"], frozen["row"], outcome["row"]) == ("intent", "frozen", "outcome")
    assert intent["verb"] == "redrive"
    assert intent["origin"] == "cli"
    assert "@" in str(intent["actor"])
