"""The office is tested on every store: the conformance suite's `bench` and `store`."""

from tests.conformance.conftest import bench, store

__all__ = ["bench", "store"]
