"""`messages list` and `messages remove`: what waits, from the terminal."""

from __future__ import annotations

import pytest

from redrive import Redrive
from tests.cli.conftest import Shop
from tests.cli.processes import play
from tests.conformance.makers import crash, take_one


def listed(shop: Shop, *flags: str) -> list[str]:
    return [one["jobId"] for one in shop.ok("messages", "list", *flags)["messages"]]


def test_each_state_has_its_list(shop: Shop) -> None:
    done = shop.send(1)
    shop.work()
    shop.bury()
    cancelled = shop.send(1)
    shop.ok("cancel", cancelled)
    waiting, scheduled = shop.send(1), shop.send(1, "--delay", "1h")
    assert listed(shop) == listed(shop, "--state", "waiting") == [waiting]
    assert listed(shop, "--state", "scheduled") == [scheduled]
    assert listed(shop, "--state", "running") == []
    assert listed(shop, "--state", "done") == [done]
    (removed,) = shop.ok("messages", "list", "--state", "removed")["messages"]
    assert (removed["jobId"], removed["move"]) == (cancelled, "cancel")
    assert removed["removedBy"]


def test_a_list_is_of_a_queue_a_tenant_and_an_age(shop: Shop) -> None:
    first = shop.send(1, "--tenant", "acme")
    second = shop.send(1, "--tenant", "globex")
    mail = shop.send(1, "--tenant", "acme", queue="email:send")
    assert sorted(listed(shop)) == sorted([first, second, mail])
    assert listed(shop, "--queue", "orders") == [first, second]
    assert sorted(listed(shop, "--tenant", "acme")) == sorted([first, mail])
    assert listed(shop, "--older-than", "1h") == []
    assert len(listed(shop, "--older-than", "0s")) == 3
    assert shop("messages", "list", "--queue", "oders").code == 4


def test_pages_go_on_from_the_cursor_over_all_queues(shop: Shop) -> None:
    sent = [shop.send(1) for _ in range(3)] + [shop.send(1, queue="zeta")]
    found: list[str] = []
    after: list[str] = []
    for _ in range(5):
        page = shop.ok("messages", "list", "--limit", "2", *after)
        found += [one["jobId"] for one in page["messages"]]
        if page["cursor"] is None:
            break
        after = ["--after", page["cursor"]]
    assert found == sent
    shown = shop("messages", "list", "--limit", "2")
    assert "messages list --state waiting --limit 2 --after" in shown.error


def test_a_list_has_no_payload_and_a_bad_cursor_is_refused(shop: Shop) -> None:
    shop.send({"password": "hunter2"})
    assert "hunter2" not in shop("messages", "list").out
    assert "hunter2" not in shop("messages", "list", "--json").out
    for cursor in ("x", "orders@x"):
        result = shop("messages", "list", "--after", cursor)
        assert result.code == 2
        assert "cursor" in result.error


def test_remove_takes_what_waits_of_one_tenant_only(shop: Shop) -> None:
    shop.bury("declined", "--tenant", "acme")
    shop.send(1, "--tenant", "acme", "--dedupe", "once")
    shop.send(1, "--tenant", "acme", "--delay", "1h")
    shop.send(1, "--tenant", "acme", queue="email:send")
    other = shop.send(1, "--tenant", "globex")
    looked = shop.ok("messages", "remove", "--tenant", "acme", "--dry-run")
    assert looked == {"companyId": "acme", "removed": 0, "waiting": 3}
    gone = shop.ok("messages", "remove", "--tenant", "acme", "--queue", "orders", "--yes")
    assert gone == {"companyId": "acme", "removed": 2, "waiting": 0}
    assert shop.ok("messages", "remove", "--tenant", "acme", "--yes")["removed"] == 1
    assert listed(shop) == [other]
    assert shop.ok("dlq", "list")["letters"][0]["companyId"] == "acme"
    shop.send(2, "--tenant", "acme", "--dedupe", "once")
    rows = [
        row for row in shop.ok("audit", "list")["rows"] if row["verb"] == "purge" and row["row"] == "outcome"
    ]
    assert [row["result"]["moved"] for row in rows] == [2, 1]


def test_remove_without_terminal_and_yes_says_how_many_and_changes_nothing(shop: Shop) -> None:
    shop.send(1, "--tenant", "acme")
    result = shop("messages", "remove", "--tenant", "acme")
    assert result.code == 2
    assert "1 waiting" in result.error
    assert len(listed(shop)) == 1
    assert shop("messages", "remove", "--tenant", "nobody", "--yes").code == 4


def test_purge_counts_a_suspect_once(shop: Shop) -> None:
    shop.send(1)

    async def lose(app: Redrive) -> None:
        await crash(app.store, await take_one(app.store))

    shop.with_app(lose)
    assert "remove 1 waiting" in shop("queue", "purge", "orders").error


@pytest.mark.parametrize("limit", ["0", "501"])
def test_a_limit_out_of_bounds_is_refused(shop: Shop, limit: str) -> None:
    assert shop("messages", "list", "--limit", limit).code == 2


def test_remove_takes_no_more_than_it_asked_about(shop: Shop) -> None:
    shop.send(1, "--tenant", "acme")

    def say_yes() -> str:
        shop.send(2, "--tenant", "acme")
        return "yes\n"

    asked = ("messages", "remove", "--tenant", "acme")
    code, shown = play(shop.folder, *asked, steps=[("[y/N]", say_yes)])
    assert (code, "remove 1 waiting messages of acme" in shown) == (0, True)
    assert "1 came in meanwhile" in shown
    assert shop.ok(*asked, "--dry-run")["waiting"] == 1
