"""`redrive dlq redrive` and `discard`: one, some and all."""

from __future__ import annotations

import re

import pytest

from redrive.app import Redrive
from redrive.office.audit import AUDIT
from tests.cli.conftest import MENDED, Shop
from tests.cli.processes import on_terminal, play


def test_one_letter_comes_back_without_a_question(shop: Shop) -> None:
    message_id = shop.bury()
    assert shop("dlq", "redrive", message_id).out == "1 re-driven, 1 still on the way\n"
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
    message_id = shop.send({"permanent": "no"}, "--ttl", "0.001")
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


def test_the_question_names_count_causes_canary_rate_and_how_long_it_takes(shop: Shop) -> None:
    for number in range(21):
        shop.send({"permanent": f"card {number} was declined"})
    shop.work()
    _, shown = on_terminal(shop.folder, "dlq", "redrive", "--all", until="[y/N]", answer="n\n")
    asked = " ".join(shown.split())
    assert "redrive 21 dead letters (a canary of 5, then 20/s, about 1.1 s) [y/N]" in asked
    assert "402 permanent" in re.sub(r"\x1b\[[\d;]*m", "", asked)
    dry = shop("dlq", "redrive", "--all", "--dry-run", "--no-canary", "--rate", "none")
    assert "how: no canary, as fast as it goes" in dry.out
    both = shop("dlq", "redrive", "--all", "--dry-run", "--no-canary", "--canary", "5")
    assert both.code == 2


def test_the_closing_words_say_what_came_of_it(shop: Shop) -> None:
    named = [shop.bury() for _ in range(2)]
    operation = shop.ok("dlq", "redrive", *named, "--yes")["operation"]["id"]
    assert "2 still on the way" in shop("ops", "show", operation).out
    shop.work()
    assert shop("ops", "wait", operation).out == "2 re-driven, 2 failed again\n"
    (shop.folder / MENDED).touch()
    again = shop.ok("dlq", "redrive", *named, "--yes")["operation"]["id"]
    shop.work()
    assert shop("ops", "wait", again).out == "2 re-driven, 2 delivered again\n"


def test_forty_named_letters_are_listed_as_forty(shop: Shop) -> None:
    ids = [shop.send({"permanent": "no"}) for _ in range(40)]
    shop.work()
    shop.ok("dlq", "discard", *ids, "--yes")
    assert "40 named letters" in shop("ops", "list").out


def test_what_was_discarded_is_listed_and_comes_back(shop: Shop) -> None:
    first, second = shop.bury("card was declined"), shop.bury("no money")
    shop.ok("dlq", "discard", first, second, "--yes")
    assert shop.ok("dlq", "list")["letters"] == []
    listed = shop("dlq", "list", "--discarded")
    assert f"bring one back: redrive dlq undiscard {second}" in listed.error
    assert shop("dlq", "undiscard", first).out == "1 brought back\n"
    assert [one["jobId"] for one in shop.ok("dlq", "list")["letters"]] == [first]
    assert (
        shop("dlq", "undiscard", first).out
        == "nothing to undiscard, 1 skipped (not discarded, or not kept any more)\n"
    )
    assert shop.ok("dlq", "undiscard", "--all", "--yes")["operation"]["moved"] == 1
    assert shop.ok("dlq", "list", "--discarded")["letters"] == []


@pytest.mark.parametrize("verb", ["redrive", "discard", "archive"])
def test_what_dies_between_question_and_answer_is_not_taken(shop: Shop, verb: str) -> None:
    counted = {shop.bury(), shop.bury()}
    later: list[str] = []

    def say_yes() -> str:
        later.extend((shop.bury(), shop.bury(), shop.bury()))
        return "yes\n"

    flags = ["--folder", "kept"] if verb == "archive" else []
    code, shown = play(shop.folder, "dlq", verb, "--all", *flags, steps=[("[y/N]", say_yes)])
    assert (code, f"{verb} 2 dead letters" in shown) == (0, True)
    left = {one["jobId"] for one in shop.ok("dlq", "list")["letters"]}
    assert left == set(later)
    assert not left & counted
