"""What a hurried developer hands in: of the wrong type, or a decorator without parentheses. Each is refused
by its name, with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from redrive import ConfigurationError, InvalidMessage, Redrive
from tests.engine.conftest import MakeApp


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tenant": 5}, "tenant is of type int: give a text"),
        ({"dedupe": 7}, "dedupe is of type int: give a text"),
        ({"headers": "x"}, "headers is of type str: give a mapping"),
        ({"headers": {"order": 7}}, "header 'order' is of type int: give a text"),
        ({"headers": {7: "order"}}, "a header's name is of type int: give a text"),
    ],
)
async def test_a_wrong_type_is_refused_by_its_name(app: Redrive, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        await app.submit("orders", {}, **given)


async def test_a_queue_that_is_not_a_text_is_refused(app: Redrive) -> None:
    with pytest.raises(InvalidMessage, match="queue is of type int: give a text"):
        await app.submit(5, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": "5"}, "concurrency is of type str: give a whole number"),
        ({"concurrency": True}, "concurrency is of type bool: give a whole number"),
        ({"rate": 5}, "rate is of type int: write it as a text, such as 20/s"),
        ({"retry": 5}, r"retry is of type int: give a policy, as in RetryPolicy\(attempts=8\)"),
    ],
)
def test_a_handler_of_wrong_types_is_refused_by_name(
    make_app: MakeApp, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make_app().handler("orders", **given)(lambda order: None)


@pytest.mark.parametrize(("decorator", "example"), [("on_dead", "tell"), ("on", "dead")])
def test_every_bare_decorator_says_how_to_write_it(make_app: MakeApp, decorator: str, example: str) -> None:
    async def tell(letter: object) -> None: ...

    said = rf'write @app\.{decorator}\("{example}"\) above tell, not @app\.{decorator} alone'
    with pytest.raises(ConfigurationError, match=said):
        getattr(make_app(), decorator)(tell)
