"""What a tenant or a key is limited to: the domains it sends mail from, and the queues it submits to.

Both are lists of names. `*.` before a domain means everything below it, and `*` at the end of a queue's name
means whatever follows; a star stands nowhere else, so that comparing takes one look. An empty list
is no limit of its own.
Known weakness: a domain that has no A-label of the same meaning (straße.de) cannot be listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

from msgspec import Struct

from redrive.core.errors import ConfigurationError

MOST_NAMES = 100

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_QUEUE = re.compile(r"[A-Za-z0-9._:-]{1,128}|[A-Za-z0-9._:-]{0,127}\*", re.ASCII)


class SenderDomains(Struct, frozen=True):
    """The domains that mails may come from, in lower case; none: any."""

    domains: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: Iterable[str]) -> Self:
        """The domains of a list, or ConfigurationError."""
        domains = tuple(dict.fromkeys(one.strip().lower() for one in given))
        for domain in domains:
            if len(domain) > 255 or not _DOMAIN.fullmatch(domain):
                raise ConfigurationError(
                    f"{domain[:80]!r} is not a domain: write acme.example, *.acme.example for those below "
                    "it, and an international one as its A-label (xn--…)"
                )
        return cls(_counted(domains, "domains"))

    def __bool__(self) -> bool:
        return bool(self.domains)

    def __str__(self) -> str:
        return ", ".join(self.domains)

    def allows(self, domain: str) -> bool:
        """Whether a mail may come from this domain, which is in lower case."""
        return not self.domains or any(_below(domain, one) for one in self.domains)


class QueuePatterns(Struct, frozen=True):
    """The queues that may be submitted to; none: those that are known without."""

    patterns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: Iterable[str]) -> Self:
        """The patterns of a list, or ConfigurationError."""
        patterns = tuple(dict.fromkeys(one.strip() for one in given))
        for pattern in patterns:
            if not _QUEUE.fullmatch(pattern):
                raise ConfigurationError(
                    f"{pattern[:80]!r} is not a queue: write its name, * at the end for all that begin so"
                )
        return cls(_counted(patterns, "queues"))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def __str__(self) -> str:
        return ", ".join(self.patterns)

    def match(self, queue: str) -> bool:
        """Whether a queue is among them."""
        return any(_begins(queue, one) for one in self.patterns)


def _counted(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    if len(names) > MOST_NAMES:
        raise ConfigurationError(f"{len(names):,} {what} are listed: at most {MOST_NAMES} may be")
    return names


def _below(domain: str, allowed: str) -> bool:
    return domain.endswith(allowed[1:]) if allowed.startswith("*.") else domain == allowed


def _begins(queue: str, pattern: str) -> bool:
    return queue.startswith(pattern[:-1]) if pattern.endswith("*") else queue == pattern
