"""One `bench` and one open `store` a test, once for each backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive.core.store import Store
from tests.conformance.backends import BACKENDS, Bench, make_backend


@pytest.fixture(params=BACKENDS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(make_backend(request.param, request, tmp_path))
    yield bench
    await bench.end()


@pytest.fixture
async def store(bench: Bench) -> Store:
    return await bench.open_store()
