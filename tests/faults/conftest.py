"""The stores that the fault suite runs on: one SQLite file a test, or one prefix on the session's Redis."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest


@pytest.fixture
def sqlite_store(tmp_path: Path) -> str:
    """The address of a SQLite file of the test's own."""
    return f"sqlite:///{tmp_path}/redrive.db"


@pytest.fixture
def redis_store(redis_url: str) -> str:
    """The address of a prefix of the test's own on the session's Redis."""
    return with_prefix(redis_url, f"fault:{uuid.uuid4().hex[:12]}")


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Every store in turn."""
    url: str = request.getfixturevalue(f"{request.param}_store")
    return url


def with_prefix(url: str, prefix: str) -> str:
    """The same server, under a prefix that keeps its keys apart."""
    return f"{url}?prefix={prefix}"
