"""Events added up: what is counted of each, within bounds, from any thread, and once after a fork."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lease, Message, Progress
from redrive.core.totals import OTHER, SUM
from redrive.core.verdict import Reason
from redrive.telemetry.events import (
    BatchAccepted,
    BatchClaimed,
    BatchSettled,
    Buried,
    Completed,
    HookDropped,
    LaneHeld,
    LeaseLost,
    LeasesExtended,
    Released,
    RetryScheduled,
    SettleRefused,
)
from redrive.telemetry.totals import TotalsSink

DELIVERY = Delivery(
    Message("1", "orders", "acme", b"{}", 1_000, 60.0),
    Progress(State.CLAIMED, 1_000, 60_000, attempts=1),
    Lease("orders", "token", 30_000),
)


def failure(code: str | None = "421", kind: Kind = Kind.TEMPORARY) -> Failure:
    return Failure(1, 1, kind, "try later", code=code)


Sums = dict[tuple[str, str, str], int]


def sums(sink: TotalsSink) -> Sums:
    return {(one.name.value, one.label, one.part): one.count for one in sink.take()}


def tried(attempts: int, due_at: int = 1_000) -> Delivery:
    return replace(DELIVERY, progress=replace(DELIVERY.progress, attempts=attempts, due_at=due_at))


def test_a_message_that_is_accepted_claimed_done_and_settled_is_counted_as_each() -> None:
    sink = TotalsSink()
    sink(BatchAccepted("orders", 3))
    sink(BatchClaimed("orders", (DELIVERY, DELIVERY), 1_020))
    sink(Completed(DELIVERY, 0.004))
    sink(BatchSettled(1, 0.002))
    assert sums(sink) == {
        ("accepted", "orders", ""): 3,
        ("claim", "", "1"): 1,
        ("claim", "", SUM): 2_000_000,
        ("handover", "orders", "4"): 2,
        ("handover", "orders", SUM): 40_000,
        ("done", "orders", ""): 1,
        ("handler", "orders", "2"): 1,
        ("handler", "orders", SUM): 4_000,
        ("attempts", "", "1"): 1,
        ("succeeded", "", "1"): 1,
        ("processed", "acme", ""): 1,
        ("settle", "", "1"): 1,
        ("settle", "", SUM): 2_000,
    }
    assert sink.take() == ()


@given(
    st.lists(
        st.builds(
            Completed,
            st.builds(
                lambda queue, tenant, attempts: replace(
                    tried(attempts), message=replace(DELIVERY.message, queue=queue, tenant=tenant)
                ),
                st.sampled_from(("orders", "mails")),
                st.sampled_from(("acme", "globex")),
                st.integers(1, 3),
            ),
            st.sampled_from((0.0, 0.001, 0.004, 0.5, 300.0, 4_000.0)),
        )
    )
)
def test_what_ended_together_is_counted_as_what_ended_one_by_one(done: list[Completed]) -> None:
    together, singly = TotalsSink(), TotalsSink()
    together.hear_all([BatchSettled(len(done), 0.002), *done, LeaseLost("orders", "token")])
    for event in (BatchSettled(len(done), 0.002), *done, LeaseLost("orders", "token")):
        singly(event)
    assert sums(together) == sums(singly)


def test_a_failure_is_counted_by_code_and_kind_and_a_death_by_code_and_tenant() -> None:
    sink = TotalsSink()
    sink(RetryScheduled(DELIVERY, failure(), 5, 1_500, 0.2))
    sink(Buried(tried(2), failure("550", Kind.PERMANENT), Reason.PERMANENT, 5))
    found = sums(sink)
    assert found["retried", "orders", ""] == found["dead", "orders", ""] == 1
    assert found["failures", "421", "temporary"] == found["failures", "550", "permanent"] == 1
    assert found["dead_by_code", "550", ""] == found["dead_by_tenant", "acme", ""] == 1
    assert (found["attempts", "", "1"], found["attempts", "", "2"]) == (1, 1)
    assert found["backoff", "", SUM] == 1_500_000
    assert found["handler", "orders", SUM] == 200_000
    assert not any(name == "succeeded" for name, _, _ in found)


@pytest.mark.parametrize("kind", [Kind.EXPIRED, Kind.LOST])
def test_what_no_handler_tried_is_no_attempt(kind: Kind) -> None:
    sink = TotalsSink()
    sink(Buried(DELIVERY, failure(None, kind), Reason.EXPIRED, 5))
    found = sums(sink)
    assert found["failures", "none", kind.value] == 1
    assert not any(name in ("attempts", "handler") for name, _, _ in found)


def test_a_retry_is_measured_by_how_late_it_comes_and_a_suspect_by_nothing() -> None:
    sink = TotalsSink()
    suspect = replace(DELIVERY, progress=replace(DELIVERY.progress, attempts=2, crashes=1))
    sink(BatchClaimed("orders", (tried(2, due_at=5_000), suspect), 5_300))
    found = sums(sink)
    assert found["lateness", "", SUM] == 300_000
    assert not any(name == "handover" for name, _, _ in found)


def test_leases_and_what_was_given_back_are_counted() -> None:
    sink = TotalsSink()
    for event in (Released(DELIVERY, 0, None), LaneHeld(DELIVERY, "535"), SettleRefused(DELIVERY)):
        sink(event)
    sink(LeasesExtended(4))
    sink(LeaseLost("orders", "token"))
    assert sums(sink) == {
        ("released", "orders", ""): 2,
        ("stale_settles", "", ""): 1,
        ("lease_extensions", "", ""): 4,
        ("leases_lost", "", ""): 1,
    }


def test_what_hooks_missed_is_counted_by_events_not_by_reports() -> None:
    sink = TotalsSink()
    sink(HookDropped("slow", "done", 1))
    sink(HookDropped("slow", "done", 14))
    assert sums(sink) == {("hooks_dropped", "", ""): 15}


@pytest.mark.parametrize("code", ["a secret, with spaces", 'quote"', "new\nline", "ключ", ""])
def test_a_code_that_does_not_look_like_one_is_shown_to_nobody(code: str) -> None:
    sink = TotalsSink()
    sink(RetryScheduled(DELIVERY, failure(code), 5, 0))
    assert [key for key in sums(sink) if key[0] == "failures"] == [("failures", OTHER, "temporary")]


def test_attempts_above_a_number_are_counted_together() -> None:
    sink = TotalsSink()
    for attempts in (20, 21, 5_000):
        sink(Completed(tried(attempts), 0.0))
    found = sums(sink)
    assert (found["attempts", "", "20"], found["attempts", "", "more"]) == (1, 2)


def test_what_is_held_is_bounded_whatever_the_tenants_and_queues() -> None:
    sink = TotalsSink()
    for number in range(12_000):
        message = replace(DELIVERY.message, tenant=f"t{number}", queue=f"q{number}")
        sink(Buried(replace(DELIVERY, message=message), failure(), Reason.EXHAUSTED, 5))
    found = sums(sink)
    assert len(found) < 40_000
    assert found["processed", OTHER, ""] >= 1_000
    assert sum(count for (name, _, _), count in found.items() if name == "dead") == 12_000


def test_the_busiest_come_first_because_they_get_the_labels_that_are_left() -> None:
    sink = TotalsSink()
    for tenant, times in (("idle", 1), ("busy", 5)):
        one = replace(DELIVERY, message=replace(DELIVERY.message, tenant=tenant))
        for _ in range(times):
            sink(Completed(one, 0.0))
    assert [one.label for one in sink.take() if one.name.value == "processed"] == ["busy", "idle"]


def test_threads_that_count_at_once_lose_nothing() -> None:
    sink, taken = TotalsSink(), list[int]()

    def count() -> None:
        for _ in range(5_000):
            sink(BatchAccepted("orders", 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += [one.count for one in sink.take()]
    taken += [one.count for one in sink.take()]
    assert sum(taken) == 20_000


def test_a_forked_child_does_not_tell_what_its_parent_counted() -> None:
    sink = TotalsSink()
    sink(BatchAccepted("orders", 1))
    child = os.fork()
    if child == 0:
        os._exit(len(sink.take()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(sink.take()) == 1
