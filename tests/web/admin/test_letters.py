"""Looking at letters: pages, one letter, masks, and a search that cannot be read."""

from __future__ import annotations

import httpx

from redrive import Redrive
from tests.conformance.makers import dead, submit
from tests.web.admin.asking import DLQ, SECRET, good, rows_of
from tests.web.problems import problem


async def test_the_queues_are_listed_with_their_dead_letters(app: Redrive, viewer: httpx.AsyncClient) -> None:
    await dead(app.store, 3)
    await dead(app.store, 1, queue="email:send")
    listed = good(await viewer.get(f"{DLQ}/queues"))["queues"]
    assert {one["queue"]: one["dlq"] for one in listed} == {"orders": 3, "email:send": 1}


async def test_a_queue_answers_to_its_own_name_and_to_its_dead_letter_queues(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    (mail,) = await dead(app.store, 1, queue="email:send")
    (check,) = await dead(app.store, 1, queue="q.validator")
    for name, found in [("email:send", mail), ("email:send:dlq", mail), ("q.validator.dlq", check)]:
        page = good(await viewer.get(f"{DLQ}/queues/{name}/messages"))
        assert [one["jobId"] for one in page["messages"]] == [found]
    problem(await viewer.get(f"{DLQ}/queues/nobody/messages"), 404, "not-found")


async def test_a_limit_is_from_1_to_500(app: Redrive, viewer: httpx.AsyncClient) -> None:
    await dead(app.store, 3)
    for limit in ("0", "501", "-1", "many", ""):
        address = f"{DLQ}/queues/orders/messages?limit={limit}"
        assert problem(await viewer.get(address), 422, "invalid")["errors"][0]["field"] == "limit"
    assert len(good(await viewer.get(f"{DLQ}/queues/orders/messages?limit=2"))["messages"]) == 2


async def test_looking_changes_nothing(app: Redrive, viewer: httpx.AsyncClient) -> None:
    (letter,) = await dead(app.store)
    before = await app.store.get(letter)
    for path in ("queues/orders/messages", "letters", f"letters/{letter}", f"messages/{letter}", "export"):
        assert (await viewer.get(f"{DLQ}/{path}")).status_code == 200
    assert await app.store.get(letter) == before


async def test_pages_follow_one_another_without_gap_or_double(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    ids = await dead(app.store, 7)
    for order, expected in (("oldest", ids), ("newest", ids[::-1])):
        found: list[str] = []
        query = {"filter": "queue:orders", "order": order, "limit": "3"}
        while True:
            page = good(await viewer.get(f"{DLQ}/letters", params=query))
            assert page["total"] == (7 if not found else None)
            found += [one["jobId"] for one in page["letters"]]
            if page["cursor"] is None:
                break
            query["cursor"] = page["cursor"]
        assert found == expected


async def test_payloads_are_masked_until_someone_who_may_reveals_them(
    app: Redrive, viewer: httpx.AsyncClient, operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    (letter,) = await dead(app.store, 1, body=SECRET)
    for client in (viewer, operator):
        for path in (f"letters/{letter}", "letters", "queues/orders/messages", f"messages/{letter}"):
            text = (await client.get(f"{DLQ}/{path}")).text
            assert "hunter2" not in text
            assert "call ana" not in text
            assert '"order":7' in text
    for path in (f"letters/{letter}", "letters", "queues/orders/messages", f"messages/{letter}", "export"):
        problem(await viewer.get(f"{DLQ}/{path}?reveal=true"), 403, "forbidden")
    assert await rows_of(admin, verb="reveal") == []
    assert "hunter2" in (await operator.get(f"{DLQ}/letters/{letter}?reveal=true")).text
    assert "hunter2" in (await operator.get(f"{DLQ}/letters?reveal=true")).text
    rows = await rows_of(admin, verb="reveal")
    assert [row["subject"]["ids"] for row in rows if row["row"] == "intent"] == [[letter], [letter]]


async def test_a_large_payload_is_whole_alone_and_left_out_of_lists(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    (letter,) = await dead(app.store, 1, body=b'{"text": "%s"}' % (b"x" * 30_000))
    (listed,) = good(await viewer.get(f"{DLQ}/letters"))["letters"]
    assert listed["originalData"] == {"leftOut": "30012 bytes"}
    assert len(good(await viewer.get(f"{DLQ}/letters/{letter}"))["originalData"]["text"]) == 30_000


async def test_a_letter_says_why_it_died_and_a_message_why_it_waits(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    (letter,) = await dead(app.store)
    (waiting,) = await submit(app.store, 1)
    shown = await viewer.get(f"{DLQ}/letters/{letter}")
    assert "no such order" in good(shown)["why"]
    assert shown.headers["etag"] == '"0"'
    assert "no live worker" in good(await viewer.get(f"{DLQ}/messages/{waiting}"))["why"]
    problem(await viewer.get(f"{DLQ}/letters/{waiting}"), 404, "not-found")
    problem(await viewer.get(f"{DLQ}/letters/nobody"), 404, "not-found")


async def test_a_filter_that_cannot_be_read_is_answered_with_the_place(viewer: httpx.AsyncClient) -> None:
    for path in ("letters", "groups", "shape", "destinations", "export"):
        refused = await viewer.get(f"{DLQ}/{path}", params={"filter": "tenant:acme bogus:7"})
        (error,) = problem(refused, 400, "bad-query")["errors"]
        assert (error["field"], error["position"]) == ("filter", 12)


async def test_a_parameter_that_nobody_knows_never_means_all(viewer: httpx.AsyncClient) -> None:
    refused = problem(await viewer.get(f"{DLQ}/letters?limt=5"), 422, "invalid")
    assert refused["errors"] == [{"field": "limt", "problem": "is not known here: did you mean limit?"}]
    problem(await viewer.get(f"{DLQ}/letters?filter=tenant:a&filter=tenant:b"), 422, "invalid")
    problem(await viewer.get(f"{DLQ}/letters?cursor=AAAA"), 422, "invalid")


async def test_a_filter_that_finds_nothing_is_answered_with_what_is_near(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 2)
    query = {"filter": "queue:order age:<1h"}
    for path in ("letters", "groups"):
        empty = good(await operator.get(f"{DLQ}/{path}", params=query))["empty"]
        assert empty["near"][0]["values"] == [{"value": "orders", "letters": 2}]
        assert [one["letters"] for one in empty["terms"]] == [0, 2]
        assert good(await operator.get(f"{DLQ}/{path}"))["empty"] is None
    order = {"kind": "discard", **query}
    preview = good(await operator.post(f"{DLQ}/operations?dryRun=true", json=order))
    assert preview["empty"]["near"][0]["field"] == "queue"
