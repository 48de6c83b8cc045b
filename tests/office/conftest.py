"""The office is tested on a SQLite file and on Redis: the conformance suite's `bench`, a store, its index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive.core.store import Store
from redrive.office.index import Index
from tests.conformance.backends import Bench, make_backend


@pytest.fixture(params=("sqlite", "redis"))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(make_backend(request.param, request, tmp_path))
    yield bench
    await bench.end()


@pytest.fixture
async def store(bench: Bench) -> Store:
    return await bench.open_store()


@pytest.fixture
async def index(store: Store) -> AsyncIterator[Index]:
    """The store's index; a disposable one is in memory."""
    index = Index(store)
    yield index
    await index.close()
