"""How fast it goes: of the last minute at first, then between two looks."""

from __future__ import annotations

from collections.abc import Mapping

from redrive.core.condition import Capacity, Description, Durability
from redrive.core.totals import MINUTE_MS, Flow, Minute
from redrive.office.overview import MINUTES, StoreOverview
from redrive.office.standings import TenantStanding
from redrive.office.throughput import ThroughputMeter


def seen(at: int, done: int, processed: Mapping[str, int], last_minute: int = 0) -> StoreOverview:
    minutes = [Minute(place * MINUTE_MS, "") for place in range(MINUTES)]
    minutes[-2] = Minute(minutes[-2].at, "", done=last_minute)
    return StoreOverview(
        at=at,
        described=Description("sqlite:///x.db", Durability.A, ""),
        capacity=Capacity(0),
        queues=(),
        totals=dict.fromkeys(Flow, 0) | {Flow.DONE: done},
        minutes=minutes,
        last_hour=(),
        counted_together=(),
        processed=sum(processed.values()),
        tenants=[TenantStanding(tenant, count) for tenant, count in processed.items()],
        groups=(),
        behind=False,
        alerts=(),
        operations=(),
        workers=(),
        notices=(),
        warnings=(),
    )


def test_the_first_look_says_it_of_the_last_whole_minute() -> None:
    speed = ThroughputMeter().measure(seen(0, 900, {"acme": 3, "globex": 1}, last_minute=120))
    assert (speed.span_s, speed.per_s[Flow.DONE]) == (60.0, 2.0)
    assert speed.shares == {"acme": 0.75, "globex": 0.25}


def test_later_looks_compare_with_up_to_a_minute_before() -> None:
    meter = ThroughputMeter()
    for second in range(0, 120, 2):
        speed = meter.measure(seen(1_000 * second, 10 * second, {"acme": 10 * second, "globex": 100}))
    assert (speed.span_s, speed.per_s[Flow.DONE]) == (60.0, 10.0)
    assert speed.shares == {"acme": 1.0, "globex": 0.0}


def test_a_store_that_began_anew_never_goes_backwards() -> None:
    meter = ThroughputMeter()
    meter.measure(seen(0, 1_000, {"acme": 1_000}))
    speed = meter.measure(seen(2_000, 3, {"acme": 3}))
    assert (speed.per_s[Flow.DONE], speed.shares) == (0.0, {"acme": 0.0})
    speed = meter.measure(seen(2_000, 3, {"acme": 3, "new": 1}))
    assert "new" not in speed.shares


def test_a_clock_that_stands_still_divides_by_nothing() -> None:
    meter = ThroughputMeter()
    meter.measure(seen(5, 1, {}))
    assert meter.measure(seen(5, 1, {})).span_s == 60.0
