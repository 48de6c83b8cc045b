"""The state machine on each backend: a bounded run in the normal suite, a long one under `long`.

REDRIVE_TEST_EXAMPLES sets the number of examples of both. Valkey and a cluster run what Redis runs: they need
not come to every move.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.backends import BACKENDS, Bench, make_backend
from tests.conformance.machine import StoreMachine

_STEPS = 40
_EXAMPLES = 25
_FEW = 8
_ROUNDS = 20
_SAME_STORE = ("valkey", "cluster")
MOVES = (
    "handed out",
    "id reused",
    "Complete",
    "RetryAt",
    "Release",
    "Bury",
    "HoldLane",
    "probes",
    "children",
    "stale",
    "overtaken",
    "suspects",
    "reclaimed lost",
    "reclaimed expired",
    "redrive",
    "discard",
    "undiscard",
    "replace",
    "archive",
    "restore",
    "cancel",
    "run_now",
)


def run_machine(
    request: pytest.FixtureRequest,
    folder: Path,
    backend: str,
    examples: int,
    *,
    all_moves: bool = True,
    by_chance: bool = False,
) -> None:
    """So many examples, and as many others while some move of `all_moves` has not come.

    They are the same ones in every run, unless they are chosen `by_chance`.
    """
    made = 0

    def make_bench() -> Bench:
        nonlocal made
        made += 1
        example_folder = folder / str(made)
        example_folder.mkdir()
        return Bench(make_backend(backend, request, example_folder))

    chosen = settings(
        max_examples=int(os.environ.get("REDRIVE_TEST_EXAMPLES", examples)),
        stateful_step_count=_STEPS,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )

    class Machine(StoreMachine):
        seen: ClassVar[Counter[str]] = Counter()

        def __init__(self) -> None:
            super().__init__(make_bench)

    unseen: list[str] = []
    for number in range(_ROUNDS):
        run_state_machine_as_test(Machine if by_chance else seed(number)(Machine), settings=chosen)
        unseen = [move for move in MOVES if not Machine.seen[move] and all_moves]
        if not unseen:
            return
    raise AssertionError(f"the machine never exercised {unseen}: it proves less than it seems to")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_store_agrees_with_the_model(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str
) -> None:
    same = backend in _SAME_STORE
    run_machine(request, tmp_path, backend, _FEW if same else _EXAMPLES, all_moves=not same)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_store_agrees_with_the_model_for_long(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str
) -> None:
    run_machine(request, tmp_path, backend, 2_000, by_chance=True)
