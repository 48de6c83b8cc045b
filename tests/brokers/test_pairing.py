"""One broker, one ledger: what is submitted beside another one is refused, or told and relayed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.core.condition import Durability, Finding, Grade
from redrive.core.errors import StoreError
from tests.brokers.apps import RabbitBroker, working
from tests.brokers.server import RabbitServer
from tests.faults.proxy import open_proxy
from tests.waiting import wait_until


def _serve(app: Redrive, seen: list[int]) -> None:
    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen.append(payload["n"])


async def test_a_submit_beside_another_ledger_is_refused(
    broker: RabbitBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.brokers.pairing._CONTACT_S", None)
    first, second, seen = broker.make_app(), broker.make_app(ledger="elsewhere"), list[int]()
    _serve(first, seen)
    async with working(first), second:
        await first.submit("q.one", {"n": 1})
        await wait_until(lambda: seen == [1], 20, "it works")
        for _ in range(2):
            with pytest.raises(StoreError, match=r"another ledger.*broker\.ledger = redis"):
                await second.submit("q.one", {"n": 2})
        assert await second.store.queue_names() == ["q.one", "q.steps", "q.two"]
        assert await _finding(second) is not None


async def test_what_was_accepted_beside_another_ledger_while_the_broker_was_down_is_told_and_relayed(
    rabbitmq: RabbitServer,
    broker_url: str,
    broker: RabbitBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("redrive.brokers.pairing._ASKED_AGAIN_S", 0.1)
    async with open_proxy(rabbitmq.port) as proxy:
        port = proxy.port
    far = RabbitBroker(broker_url.replace(f":{rabbitmq.port}/", f":{port}/"), tmp_path)
    first, second, seen = broker.make_app(), far.make_app(ledger="elsewhere"), list[int]()
    _serve(first, seen)
    async with working(first), second:
        await first.submit("q.one", {"n": 1})
        await wait_until(lambda: seen == [1], 20, "it works")
        await second.submit("q.one", {"n": 2})
        async with open_proxy(rabbitmq.port, port):
            await wait_until(lambda: _is_refused(second), 20, "the next submit is refused")
            found = await _finding(second)
            assert found is not None
            assert found.grade is Grade.WRONG
            assert "messages that were accepted here" in found.fix
            described = await second.store.describe()
            assert described.durability is Durability.UNKNOWN
            assert "another ledger" in described.meaning
            async with second.on_duty():
                await wait_until(lambda: sorted(seen) == [1, 2], 20, "what was accepted is carried")


async def test_a_ledger_that_the_broker_accepted_takes_submits_without_asking_it(
    broker: RabbitBroker,
) -> None:
    app = broker.make_app()
    async with app:
        await app.submit("q.one", {"n": 1})
        await app.store.check_ledger()  # type: ignore[attr-defined]
    later, asked = broker.make_app(), list[str]()

    async def keep_ledger(ledger: str) -> str:
        asked.append(ledger)
        return ledger

    async with later:
        later.store.carrier.keep_ledger = keep_ledger  # type: ignore[attr-defined]
        await later.submit("q.one", {"n": 2})
    assert asked == []


async def test_looking_makes_no_ledger_the_brokers(broker: RabbitBroker) -> None:
    looking, working_one = broker.make_app(ledger="elsewhere"), broker.make_app()
    async with looking, working_one:
        await looking.store.examine()
        await looking.store.describe()
        await working_one.submit("q.one", {"n": 1})
        assert await _finding(working_one) is None


async def _finding(app: Redrive) -> Finding | None:
    return next((one for one in await app.store.examine() if one.subject == "ledger"), None)


async def _is_refused(app: Redrive) -> bool:
    with suppress(StoreError):
        await app.submit("q.two", {"n": 3})
        return False
    return True
