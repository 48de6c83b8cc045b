"""`/metrics`: a real scrape, read by the library that Prometheus' users have."""

from __future__ import annotations

import math
from collections.abc import Mapping

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from redrive import Later, Permanent, Redrive, RetryPolicy, Submission, Temporary
from redrive.core.totals import LABEL_LIMITS, Flow, LabelKind, Measured, Total, TotalsBatch
from redrive.office.access import Role
from redrive.telemetry.events import Buried, Completed, Released, RetryScheduled
from redrive.telemetry.metrics import METRICS, PREFIX, MetricKind
from redrive.testing import run_until_idle
from tests.engine.conftest import working
from tests.waiting import wait_until
from tests.web.conftest import Login
from tests.web.problems import problem

CANARY = "canary-7f3a"
LATE = RetryPolicy(base_s=500.0, cap_s=500.0)
"""However slow this machine is, the second attempt is still to come."""
OWN_PORT_ONLY = {
    "process_cpu_seconds_total",
    "process_peak_bytes",
    "worker_processes",
    "worker_processes_wanted",
    "worker_process_restarts_total",
}
DOCUMENTED = {
    "retry_attempts_total": "counter",
    "retry_backoff_delay_seconds": "histogram",
    "retry_success_rate": "gauge",
    "retry_failures_total": "counter",
    "retry_interval_seconds": "gauge",
    "dlq_entries_total": "counter",
    "dlq_size": "gauge",
    "dlq_age_seconds": "histogram",
    "dlq_by_error_code": "counter",
    "dlq_by_company": "counter",
    "tenant_jobs_processed": "counter",
    "tenant_current_priority": "gauge",
    "tenant_consecutive_batch": "gauge",
    "tenant_rounds_without_processing": "gauge",
}

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


async def _handle(payload: dict[str, str]) -> None:
    match payload.get("do"):
        case "dead":
            raise Permanent(f"no such order {CANARY}", code="E404")
        case "again":
            raise Temporary("busy", code=f"{CANARY} in a code")
        case "later":
            raise Later(3_600)


def parse(text: str) -> Samples:
    """Every sample of a scrape that the library can read."""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            samples[_bare(one.name), tuple(sorted(one.labels.items()))] = one.value
    return samples


def _bare(name: str) -> str:
    """A name as it was written: the library adds `_total` to every counter that it reads."""
    written = {metric.name for metric in METRICS}
    name = name.removeprefix(PREFIX)
    return name if name in written else name.removesuffix("_total")


def types(text: str) -> dict[str, str]:
    lines = [line.split(" ") for line in text.splitlines() if line.startswith("# TYPE ")]
    return {name.removeprefix(PREFIX): kind for _, _, name, kind in lines}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


async def flush(app: Redrive) -> None:
    """What this process counted is in its store."""
    await app._openings.current.totals.flush()  # type: ignore[union-attr]


async def scraped(app: Redrive, client: httpx.AsyncClient) -> str:
    await flush(app)
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return response.text


def submissions(words: list[str], tenant: str = "acme") -> list[Submission[object]]:
    return [Submission({"do": word, "token": CANARY}, tenant) for word in words]


async def test_the_names_and_types_are_those_that_dashboards_look_for(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    app.handler("orders")(_handle)
    async with working(app) as told:
        await app.submit_many("orders", submissions(["done"] * 3 + ["dead", "again"]))
        await told.wait_for(Completed, 3)
        await told.wait_for(Buried)
        await told.wait_for(RetryScheduled)
        await wait_until(lambda: _announced(app), 20, "the worker has announced itself")
    found = types(await scraped(app, viewer))
    assert {name: found.get(name) for name in DOCUMENTED} == DOCUMENTED


async def _announced(app: Redrive) -> bool:
    return bool(await app.store.list_records("worker"))


async def test_the_samples_say_what_happened(app: Redrive, viewer: httpx.AsyncClient) -> None:
    app.handler("orders", retry=LATE)(_handle)
    await app.submit_many("orders", submissions(["done"] * 6 + ["dead"] * 2 + ["again"]))
    await app.submit_many("orders", submissions(["done"] * 2, "globex"))
    await run_until_idle(app)
    await app.submit("orders", {}, delay=3_600)
    samples = parse(await scraped(app, viewer))
    assert value(samples, "messages_accepted_total", queue="orders") == 12
    assert value(samples, "messages_done_total", queue="orders") == 8
    assert value(samples, "messages_retried_total", queue="orders") == 1
    assert value(samples, "dlq_entries_total", queue="orders") == 2
    assert value(samples, "dlq_size", queue="orders") == 2
    assert value(samples, "dlq_by_error_code", code="E404") == 2
    assert value(samples, "dlq_by_company", tenant="acme") == 2
    assert value(samples, "tenant_jobs_processed", tenant="acme") == 8
    assert value(samples, "tenant_jobs_processed", tenant="globex") == 2
    assert value(samples, "tenant_current_priority", tenant="acme") == 5
    assert value(samples, "retry_attempts_total", attempt="1") == 11
    assert math.isclose(value(samples, "retry_success_rate", attempt="1"), 8 / 11)
    assert value(samples, "retry_failures_total", code="E404", kind="permanent") == 2
    assert value(samples, "retry_failures_total", code="other", kind="temporary") == 1
    assert value(samples, "queue_messages", queue="orders", state="scheduled") == 1
    assert value(samples, "queue_messages", queue="orders", state="retry_scheduled") == 1
    assert value(samples, "store_accepts") == 1
    assert value(samples, "workers") == 0


async def test_histograms_add_up_and_ages_are_of_the_letters_that_are_there(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    app.handler("orders", retry=LATE)(_handle)
    await app.submit_many("orders", submissions(["dead"] * 3 + ["again"]))
    await run_until_idle(app)
    app.skew_ms += 2 * 3_600_000
    samples = parse(await scraped(app, viewer))
    assert value(samples, "dlq_age_seconds_bucket", queue="orders", le="3600") == 0
    assert value(samples, "dlq_age_seconds_bucket", queue="orders", le="21600") == 3
    assert value(samples, "dlq_age_seconds_count", queue="orders") == 3
    assert value(samples, "retry_backoff_delay_seconds_count") == 1
    assert 300 < value(samples, "retry_backoff_delay_seconds_sum") < 700
    assert 300 < value(samples, "retry_interval_seconds") < 700
    buckets = [count for (name, _), count in samples.items() if name == "retry_backoff_delay_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 1


async def test_a_worker_says_how_it_is_doing(app: Redrive, viewer: httpx.AsyncClient) -> None:
    app.handler("orders")(_handle)
    async with working(app):
        await wait_until(lambda: _announced(app), 20, "the worker has announced itself")
        samples = parse(await scraped(app, viewer))
    assert value(samples, "workers") == 1
    limits = [count for (name, _), count in samples.items() if name == "worker_handlers_limit"]
    assert limits == [app.settings.worker.concurrency]
    assert any(name == "worker_loop_lag_seconds" for name, _ in samples)


async def test_every_metric_of_the_table_can_be_scraped(app: Redrive, viewer: httpx.AsyncClient) -> None:
    app.serve_mail()
    app.handler("orders")(_handle)
    async with working(app) as told:
        await app.submit_many("orders", submissions(["done", "dead", "again", "later"]))
        await told.wait_for(Completed)
        await told.wait_for(Buried, 2)
        await told.wait_for(Released)
        await wait_until(lambda: _announced(app), 20, "the worker has announced itself")
        await app.dead_letters.redrive("queue:orders", rate="1/h", canary=1)
        samples = parse(await scraped(app, viewer))
    named = {name for name, _ in samples}
    endings = {MetricKind.HISTOGRAM: "_count"}
    wanted = {one.name + endings.get(one.kind, "") for one in METRICS if one.name not in OWN_PORT_ONLY}
    assert wanted - named == set()


async def test_no_secret_and_no_payload_is_in_a_scrape(app: Redrive, viewer: httpx.AsyncClient) -> None:
    app.handler("orders")(_handle)
    await app.submit_many("orders", submissions(["done", "dead", "again"]))
    await run_until_idle(app)
    assert CANARY not in await scraped(app, viewer)


async def test_an_empty_store_can_be_scraped(app: Redrive, viewer: httpx.AsyncClient) -> None:
    samples = parse(await scraped(app, viewer))
    assert value(samples, "workers") == 0


async def test_queues_above_the_number_of_labels_are_other(app: Redrive, viewer: httpx.AsyncClient) -> None:
    most = LABEL_LIMITS[LabelKind.QUEUE]
    claimed = Total(Measured.HANDOVER, "zz-claimed", "1", 1)
    done = [Total(Flow.DONE, f"q{number}", "", 1) for number in range(most + 4)]
    await app.store.add_totals(TotalsBatch("a-process", 1, (claimed, *done)))
    for name in ("zz-claimed", "q0", f"q{most - 1}", f"q{most}"):
        await app.submit(name, {})
    samples = parse(await scraped(app, viewer))
    assert value(samples, "messages_done_total", queue="other") == 5
    assert value(samples, "queue_messages", queue="other", state="pending") == 2
    queues = {dict(labels)["queue"] for _, labels in samples if "queue" in dict(labels)}
    assert queues == {"zz-claimed", "other", *(f"q{number}" for number in range(most - 1))}


async def test_tenants_above_the_number_of_labels_are_other(app: Redrive, viewer: httpx.AsyncClient) -> None:
    app.handler("orders")(_handle)
    for number in range(60):
        await app.submit("orders", {}, tenant=f"t{number}")
    await run_until_idle(app)
    samples = parse(await scraped(app, viewer))
    processed = [count for (name, _), count in samples.items() if name == "tenant_jobs_processed"]
    assert (len(processed), sum(processed)) == (51, 60)
    assert value(samples, "tenant_jobs_processed", tenant="other") == 10


@pytest.mark.parametrize(("role", "tenant"), [(Role.SUBMIT, "acme"), (Role.VIEWER, "acme")])
async def test_only_a_key_that_may_read_all_tenants_may_scrape(
    login: Login, role: Role, tenant: str | None
) -> None:
    problem(await (await login(role, tenant)).get("/metrics"), 403, "forbidden")


async def test_a_stranger_may_not_scrape(stranger: httpx.AsyncClient) -> None:
    problem(await stranger.get("/metrics"), 401, "unauthenticated")
