"""Settings: the promised defaults, and every value that makes no sense is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.core.errors import ConfigurationError
from redrive.core.settings import FinishedSettings, QueueSettings, SubmitSettings, WorkerSettings


def test_the_defaults_are_the_promised_ones() -> None:
    worker, queue, finished = WorkerSettings(), QueueSettings(), FinishedSettings()
    assert (worker.lease_s, worker.poll_s, worker.drain_s, worker.quantum) == (30.0, 5.0, 30.0, 3)
    assert (queue.concurrency, queue.deadline_s, queue.rate) == (5, 300.0, None)
    assert (finished.keep_s, finished.keep, finished.dedupe_s) == (7 * 86_400.0, None, 86_400.0)
    assert SubmitSettings().body_bytes == 1024 * 1024


POSITIVE: list[tuple[Any, str]] = [
    (WorkerSettings, name)
    for name in ("concurrency", "lease_s", "poll_s", "batch", "batch_bytes", "prefetch_s", "quantum")
]
POSITIVE += [(QueueSettings, "concurrency"), (QueueSettings, "deadline_s"), (SubmitSettings, "body_bytes")]


@pytest.mark.parametrize(("settings", "name"), POSITIVE)
@pytest.mark.parametrize("value", [0, -1])
def test_a_value_that_must_be_positive_is_refused_by_name(settings: Any, name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=name):
        settings(**{name: value})


def test_a_drain_may_be_nothing_but_not_less() -> None:
    assert WorkerSettings(drain_s=0).drain_s == 0
    with pytest.raises(ConfigurationError, match="drain_s"):
        WorkerSettings(drain_s=-1)


@pytest.mark.parametrize("name", ["keep_s", "keep", "dedupe_s"])
def test_what_is_kept_may_be_nothing_but_not_less(name: str) -> None:
    fields: dict[str, Any] = {name: 0}
    assert getattr(FinishedSettings(**fields), name) == 0
    with pytest.raises(ConfigurationError, match=name):
        FinishedSettings(**{name: -1})
