"""What `@app.handler` gives back: still the function, and a typed way into its queue."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from redrive import ConfigurationError, Delivery, InvalidMessage, Redrive, Submission
from redrive.function import SubmitOptions
from redrive.testing import run_until_idle

from .conftest import MakeApp

ROOT = Path(__file__).parents[2]
SHOP = """
from dataclasses import dataclass
from redrive import Delivery, Redrive, Submission

@dataclass
class Order:
    number: int

app = Redrive()

@app.handler("orders")
async def charge(order: Order) -> str:
    return str(order.number)

@app.handler("refunds", deadline=5)
def refund(order: Order, delivery: Delivery) -> None: ...

async def use(delivery: Delivery) -> str:
    await charge.submit(Order(7), tenant="acme", delay=60)
    await refund.submit_many([Submission(Order(7), ttl=60)])
    app.sync.submit("orders", Order(7), delay=60)
    refund(Order(7), delivery)
    return await charge(Order(7))
"""


@dataclass
class Order:
    """What the handlers below take."""

    number: int


def test_every_way_to_submit_takes_the_same_options() -> None:
    taken = inspect.signature(Redrive.submit).parameters.values()
    assert set(SubmitOptions.__annotations__) == {one.name for one in taken if one.kind is one.KEYWORD_ONLY}


async def test_a_handler_submits_to_its_own_queue_and_can_still_be_called(app: Redrive) -> None:
    seen = []

    @app.handler("orders")
    async def charge(order: Order) -> str:
        """Take the money."""
        seen.append(order.number)
        return "paid"

    assert await charge(Order(1)) == "paid"
    await charge.submit(Order(2), tenant="acme")
    await charge.submit_many([Submission(Order(3)), Submission(Order(4))])
    assert await run_until_idle(app) == {"done": 3}
    assert sorted(seen) == [1, 2, 3, 4]
    assert (charge.__name__, charge.__doc__, charge.queue) == ("charge", "Take the money.", "orders")


async def test_one_function_may_serve_two_queues(app: Redrive) -> None:
    seen = []

    @app.handler("orders")
    @app.handler("refunds")
    async def charge(order: Order, delivery: Delivery) -> None:
        seen.append(delivery.message.queue)

    await app.submit("refunds", Order(1))
    await charge.submit(Order(2))
    assert await run_until_idle(app) == {"done": 2}
    assert sorted(seen) == ["orders", "refunds"]


def test_a_bare_decorator_says_how_to_write_it(make_app: MakeApp) -> None:
    app = make_app()

    async def charge(order: Order) -> None: ...

    with pytest.raises(ConfigurationError, match=r'write @app.handler\("charge"\) above charge'):
        app.handler(charge)  # type: ignore[arg-type]


async def test_a_number_is_seconds(app: Redrive) -> None:
    receipt = await app.submit("orders", 1, delay=60, ttl=600)
    account = await app.store.get(receipt.id)
    assert account is not None
    assert account.progress.due_at - account.message.enqueued_at == 60_000
    assert account.message.ttl_s == 600
    app.handler("orders", deadline=5)(lambda order: None)
    assert app.served()[0].settings.deadline_s == 5


@pytest.mark.parametrize("wrong", ["soon", True, float("nan"), [1]])
async def test_what_is_no_length_of_time_is_refused_with_its_name(app: Redrive, wrong: float) -> None:
    with pytest.raises(InvalidMessage, match=r"delay is .*: give a timedelta or seconds"):
        await app.submit("orders", 1, delay=wrong)
    with pytest.raises(InvalidMessage, match=r"ttl is .*: give a timedelta or seconds"):
        await app.submit("orders", 1, ttl=wrong)
    with pytest.raises(ConfigurationError, match=r"deadline is .*: give a timedelta or seconds"):
        app.handler("orders", deadline=wrong)


async def test_a_store_in_memory_is_refused_in_words() -> None:
    with pytest.raises(ConfigurationError, match="name a file, such as"):
        await Redrive("sqlite:///:memory:").open()


@pytest.mark.parametrize(
    ("changed", "to", "says"),
    [
        ("", "", None),
        ("charge.submit(Order(7),", "charge.submit({'number': 7},", 'expected "Order"'),
        ("[Submission(Order(7), ttl", "[Submission(7, ttl", 'expected "Order"'),
        (
            'app.sync.submit("orders", Order(7), delay',
            'app.sync.submit("orders", 7, later',
            "Unexpected keyword",
        ),
        ("return await charge(Order(7))", "return await charge(7)", 'expected "Order"'),
    ],
    ids=["right", "submit", "submit_many", "sync", "call"],
)
def test_a_wrong_payload_fails_in_mypy(tmp_path: Path, changed: str, to: str, says: str | None) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace(changed, to) if changed else SHOP)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (says is None), done.stdout + done.stderr
    if says is not None:
        assert says in done.stdout
