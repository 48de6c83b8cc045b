"""`dlq` by filter: what is listed, moved and shown, and how a filter that cannot be read is answered."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Shop


def test_a_filter_lists_and_moves_only_what_it_means(shop: Shop) -> None:
    mine = shop.bury("card was declined", "--tenant", "acme")
    other = shop.bury("no such order", "--tenant", "globex")
    for text in ("tenant:acme", 'reason:"card was"', 'payload.permanent:"card was declined"', "declined"):
        (letter,) = shop.ok("dlq", "list", "--filter", text)["letters"]
        assert letter["jobId"] == mine
    moved = shop.ok("dlq", "redrive", "--filter", "tenant:acme code:402", "--queue", "orders", "--yes")
    assert moved["operation"]["moved"] == 1
    assert [one["jobId"] for one in shop.ok("dlq", "list")["letters"]] == [other]
    assert shop.ok("dlq", "discard", "--filter", "-tenant:acme", "--yes")["operation"]["moved"] == 1


def test_the_opposite_of_a_filter_discards_all_but_what_it_means(shop: Shop) -> None:
    kept = shop.bury("no", "--tenant", "acme")
    shop.bury("no", "--tenant", "globex")
    chosen = "NOT (companyId:acme AND code:4xx)"
    assert shop.ok("dlq", "discard", "--filter", chosen, "--yes")["operation"]["moved"] == 1
    assert [one["jobId"] for one in shop.ok("dlq", "list")["letters"]] == [kept]


@pytest.mark.parametrize(
    "text", ["not code:402", "code=402", "code != 402", "tenant acme", "code:402 OR 403"]
)
def test_what_looks_like_an_operator_moves_nothing(shop: Shop, text: str) -> None:
    buried = shop.bury()
    result = shop("dlq", "discard", "--filter", text, "--yes")
    assert (result.code, result.out) == (2, "")
    assert "write" in result.error
    assert shop.ok("show", buried)["state"] == "dead"


@pytest.mark.parametrize(
    ("command", "text", "column"),
    [
        (("dlq", "list"), "code:550 age:>2x", 14),
        (("dlq", "redrive", "--yes"), "tenat:acme", 0),
        (("dlq", "groups"), 'reason:"open', 7),
        (("dlq", "shape"), "attempts:many", 9),
        (("mail", "destinations"), "tenant:acme cod:1", 12),
    ],
)
def test_a_filter_error_has_a_caret_below_its_place(
    shop: Shop, command: tuple[str, ...], text: str, column: int
) -> None:
    shop.bury()
    result = shop(*command, "--filter", text)
    assert (result.code, result.out) == (2, "")
    line, caret, error = result.error.splitlines()
    assert line == f"  {text}"
    assert caret == " " * (2 + column) + "^"
    assert error.startswith("error: --filter: ")
    told = json.loads(shop(*command, "--filter", text, "--json").error)["error"]
    assert (told["position"], told["exitCode"]) == (column, 2)


def test_the_newest_come_first_on_request_and_pages_keep_filter_and_order(shop: Shop) -> None:
    buried = [shop.bury("no", "--tenant", "acme") for _ in range(3)]
    flags = ("--newest", "--filter", "tenant:acme", "--limit", "2")
    first = shop.ok("dlq", "list", *flags)
    second = shop.ok("dlq", "list", *flags, "--after", first["cursor"])
    assert [one["jobId"] for one in first["letters"] + second["letters"]] == buried[::-1]
    more = shop("dlq", "list", *flags).error
    assert "redrive dlq list --filter tenant:acme --newest --limit 2 --after" in more
    assert shop("dlq", "list", "--after", first["cursor"]).code == 2


def test_a_search_in_payloads_says_how_far_it_looked(shop: Shop) -> None:
    shop.bury()
    assert shop.ok("dlq", "list", "--filter", "declined")["looked"] == {"letters": 1, "of": 1}


def test_payloads_are_masked_unless_revealed_which_is_audited(shop: Shop) -> None:
    message_id = shop.send({"permanent": "no", "password": "hunter2"})
    shop.work()
    for command in (("dlq", "list"), ("dlq", "show", message_id)):
        assert "hunter2" not in shop(*command, "--json").out
    assert "hunter2" not in shop("dlq", "show", message_id, "--body").out
    assert shop.ok("audit", "--verb", "reveal")["rows"] == []
    assert "hunter2" in shop("dlq", "show", message_id, "--reveal").out
    intent, outcome = shop.ok("audit", "--verb", "reveal")["rows"]
    assert (intent["subject"], outcome["ok"]) == ({"ids": [message_id]}, True)


@pytest.mark.parametrize("verb", ["redrive", "discard", "export"])
def test_an_empty_filter_never_means_every_letter(shop: Shop, verb: str) -> None:
    """A script whose variable is unset must not move all there is."""
    buried = shop.bury()
    file = ("out.jsonl",) if verb == "export" else ("--yes",)
    result = shop("dlq", verb, *file, "--filter", " ")
    assert (result.code, result.out) == (2, "")
    assert "--all" in result.error
    assert shop.ok("show", buried)["state"] == "dead"


def test_a_note_on_a_group_stands_apart_from_its_failure(shop: Shop) -> None:
    shop.bury()
    (group,) = shop.ok("dlq", "groups")["groups"]
    shop.ok("dlq", "group", "note", group["key"], "the bank is asked")
    assert "[402] — the bank is asked" in shop("dlq", "groups").out


@pytest.mark.parametrize(
    "command", [("list",), ("groups",), ("shape",), ("redrive", "--yes"), ("discard", "--yes")]
)
def test_a_filter_that_finds_nothing_says_what_is_near(shop: Shop, command: tuple[str, ...]) -> None:
    shop.bury("no", "--tenant", "acme")
    chosen = ("--filter", "tenant:Acme code:402")
    told = shop("dlq", *command, *chosen).error
    assert "no tenant Acme; acme has 1" in told
    assert "alone: tenant:Acme finds 0; code:402 finds 1" in told
    (near,) = shop("dlq", *command, *chosen, "--json").document["empty"]["near"]
    assert near["values"] == [{"value": "acme", "letters": 1}]


def test_exports_and_archives_that_take_nothing_say_what_is_near(shop: Shop) -> None:
    shop.bury("no", "--tenant", "acme")
    for command in (("export", "-"), ("export", "out.jsonl"), ("archive", "--folder", "archive", "--yes")):
        assert "no tenant acne; acme has 1" in shop("dlq", *command, "--filter", "tenant:acne").error


def test_a_tenant_is_chosen_by_its_flag_beside_queue_and_filter(shop: Shop) -> None:
    mine = shop.bury("no", "--tenant", "acme")
    shop.bury("no", "--tenant", "globex")
    listed = shop.ok("dlq", "list", "--tenant", "acme", "--queue", "orders", "--filter", "code:4xx")
    assert [one["jobId"] for one in listed["letters"]] == [mine]
    assert len(shop.ok("dlq", "groups", "--by", "tenant", "--tenant", "acme")["groups"]) == 1
    refused = shop("dlq", "discard", "--tenant", "acme", "--filter", "tenant:globex", "--yes")
    assert (refused.code, refused.out) == (2, "")
    assert shop.ok("dlq", "discard", "--tenant", "acme", "--yes")["operation"]["moved"] == 1


def test_a_letter_is_shown_by_the_beginning_of_its_id(shop: Shop) -> None:
    first, second = shop.bury(), shop.bury()
    size = next(place for place in range(36) if first[place] != second[place]) + 1
    for command in (("show",), ("dlq", "show")):
        assert shop.ok(*command, first[:size])["jobId"] == first
        several = shop(*command, first[:6])
        assert (several.code, several.out) == (2, "")
        assert first in several.error
        assert second in several.error
        assert shop(*command, "ffffff").code == shop(*command, "nothing").code
