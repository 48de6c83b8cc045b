"""docs/overview.md names rooms and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/overview.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_is_there(name: str) -> None:
    package = ROOT / "src/redrive"
    found = [*package.glob(f"**/{name.rstrip('/')}"), *ROOT.glob(name.rstrip("/"))]
    assert found, f"docs/overview.md speaks of {name}"


def test_the_page_shows_every_room() -> None:
    rooms = {path.name for path in (ROOT / "src/redrive").iterdir() if (path / "__init__.py").exists()}
    assert rooms <= {name.rstrip("/") for name in NAMED}
