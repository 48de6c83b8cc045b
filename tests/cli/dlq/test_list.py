"""`redrive dlq list` and `show`: what a letter says, page by page."""

from __future__ import annotations

from tests.cli.conftest import Shop

FIELDS = {
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
    "firstDiedAt",
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
    assert letter.keys() >= FIELDS
    assert message_id in shop("dlq", "list", "--queue", "orders").out


def test_a_letter_that_died_again_is_as_old_as_its_first_death_and_says_when_it_died_again(
    shop: Shop,
) -> None:
    message_id = shop.bury()
    (before,) = shop.ok("dlq", "list")["letters"]
    shop("dlq", "redrive", message_id, "--yes")
    shop.work()
    (after,) = shop.ok("dlq", "list")["letters"]
    assert after["firstDiedAt"] == before["firstDiedAt"] == before["movedToDLQAt"]
    assert after["movedToDLQAt"] > before["movedToDLQAt"]
    shown = shop("dlq", "list").out
    assert "re-driven 1x, dead again" in shown
    assert "first died" in shop("show", message_id).out
    died = before["movedToDLQAt"]
    for found, text in (
        (1, f"died:<={died}"),
        (1, f"redied:>{died}"),
        (1, f"moved:>{died}"),
        (0, f"died:>{died}"),
    ):
        assert len(shop.ok("dlq", "list", "--filter", text)["letters"]) == found, text
    shop.bury()
    assert len(shop.ok("dlq", "list", "--filter", f"redied:>{died}")["letters"]) == 1


def test_an_empty_list_says_so(shop: Shop) -> None:
    shop.send()
    assert shop("dlq", "list").out == "no dead letters\n"
    document = shop.ok("dlq", "list")
    assert (document["letters"], document["cursor"], document["index"]["behind"]) == ([], None, False)


def test_pages_follow_the_cursor_to_the_end(shop: Shop) -> None:
    buried = [shop.bury() for _ in range(3)]
    told = shop("dlq", "list", "--limit", "2").error
    assert "--after" in told
    assert "2 of 3\n" in told
    first = shop.ok("dlq", "list", "--limit", "2")
    second = shop.ok("dlq", "list", "--limit", "2", "--after", first["cursor"])
    assert [letter["jobId"] for letter in first["letters"] + second["letters"]] == buried
    assert second["cursor"] is None
    assert (first["total"], second["total"], shop.ok("dlq", "list")["total"]) == (3, None, 3)
    assert shop.ok("dlq", "list", "--limit", "1", "--filter", "declined")["total"] is None


def test_a_queue_is_found_by_its_dead_letter_queues_name(shop: Shop) -> None:
    message_id = shop.bury(queue="email:send")
    shop.bury(queue="orders")
    (letter,) = shop.ok("dlq", "list", "--queue", "email:send:dlq")["letters"]
    assert letter["jobId"] == message_id
    assert shop("dlq", "list", "--queue", "nowhere").code == 4


def test_show_has_the_whole_letter(shop: Shop) -> None:
    message_id = shop.bury("card was declined")
    document = shop.ok("dlq", "show", message_id)
    assert document.keys() >= FIELDS
    assert document["failures"][0].keys() >= {"durationMs", "delayMs", "delayAsked"}
    shown = shop("dlq", "show", message_id).out
    assert "attempt 1 permanent" in shown
    assert "(ran 0." in shown


def test_list_and_show_agree_on_every_field(shop: Shop) -> None:
    message_id = shop.bury("card was declined")
    shown = shop.ok("dlq", "show", message_id)
    assert "card was declined" in shown.pop("why")
    assert shown == shop.ok("dlq", "list")["letters"][0]


def test_show_of_a_living_message_is_not_found(shop: Shop) -> None:
    result = shop("dlq", "show", shop.send())
    assert result.code == 4
    assert "not a dead letter" in result.error
