"""Sender domains and queues that a key is limited to."""

from __future__ import annotations

import pytest

from redrive.core.errors import ConfigurationError
from redrive.core.grants import QueuePatterns, SenderDomains


@pytest.mark.parametrize(
    ("listed", "domain", "allowed"),
    [
        ([], "any.example", True),
        (["acme.example"], "acme.example", True),
        ([" ACME.example "], "acme.example", True),
        (["acme.example"], "mail.acme.example", False),
        (["acme.example"], "notacme.example", False),
        (["acme.example"], "acme.example.evil.example", False),
        (["*.acme.example"], "mail.acme.example", True),
        (["*.acme.example"], "a.b.acme.example", True),
        (["*.acme.example"], "acme.example", False),
        (["*.acme.example"], "evilacme.example", False),
        (["acme.example", "globex.example"], "globex.example", True),
    ],
)
def test_a_domain_is_its_own_or_below_a_star(listed: list[str], domain: str, allowed: bool) -> None:
    assert SenderDomains.parse(listed).allows(domain) is allowed


@pytest.mark.parametrize(
    "domain",
    [
        "",
        "*",
        "*.",
        "a b",
        "a@acme.example",
        "acme.*",
        "-a.example",
        "bücher.example",
        "a\nb",
        ".example",
        "a..b",
    ],
)
def test_what_is_no_domain_is_refused(domain: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a domain"):
        SenderDomains.parse([domain])


@pytest.mark.parametrize(
    ("listed", "queue", "matches"),
    [
        ([], "orders", False),
        (["orders"], "orders", True),
        (["orders"], "orders.eu", False),
        (["orders*"], "orders.eu", True),
        (["orders.*"], "orders", False),
        (["*"], "anything", True),
    ],
)
def test_a_queue_matches_its_name_or_a_beginning(listed: list[str], queue: str, matches: bool) -> None:
    assert QueuePatterns.parse(listed).match(queue) is matches


@pytest.mark.parametrize("pattern", ["", "a*b", "**", "a b", "{a}", "a\nb", "a" * 129])
def test_what_is_no_queue_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a queue"):
        QueuePatterns.parse([pattern])


def test_lists_are_bounded() -> None:
    with pytest.raises(ConfigurationError, match="at most 100"):
        QueuePatterns.parse([f"q{number}" for number in range(101)])
    with pytest.raises(ConfigurationError, match="at most 100"):
        SenderDomains.parse([f"d{number}.example" for number in range(101)])
