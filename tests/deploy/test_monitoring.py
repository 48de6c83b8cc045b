"""Prometheus and Grafana: Prometheus' own tool runs the rules, and every query names a metric that exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redrive.telemetry.metrics import METRICS, PREFIX, Metric, MetricKind
from tests.deploy.files import DEPLOY, check_command, commands_named, document, text
from tests.servers import give_up

RULES = document("prometheus/redrive.rules.yml")["groups"][0]["rules"]
DASHBOARD = json.loads(text("grafana/redrive.json"))
_ENDINGS = {
    MetricKind.COUNTER: ("",),
    MetricKind.GAUGE: ("",),
    MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}
KNOWN: dict[str, Metric] = {
    f"{PREFIX}{one.name}{ending}": one for one in METRICS for ending in _ENDINGS[one.kind]
}
_SELECTOR = re.compile(r"\b(redrive_\w+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\) \(([^()]*\([^()]*\)|[^()]*)\)")


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [*shown, *(rule["expr"] for rule in RULES)]


def labels_of(name: str) -> set[str]:
    metric = KNOWN[name]
    added = {"le"} if name.endswith("_bucket") and metric.kind is MetricKind.HISTOGRAM else set()
    return {*metric.labels, "instance", "job"} | added


def check_query(query: str) -> None:
    """An error unless each metric exists, with the labels that it is chosen and grouped by."""
    for name, chosen in _SELECTOR.findall(query):
        assert name in KNOWN, f"{name} in {query}"
        used = set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", chosen))
        assert used <= labels_of(name), f"{used - labels_of(name)} of {name} in {query}"
    for grouped, inner in _GROUPED.findall(query):
        for name, _ in _SELECTOR.findall(inner):
            assert {one.strip() for one in grouped.split(",")} <= labels_of(name), query


def run_promtool(*arguments: object) -> None:
    if shutil.which("promtool") is None:
        give_up("promtool is not installed: apt-get install prometheus")
    ran = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=DEPLOY
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_prometheus_takes_the_rules() -> None:
    run_promtool("check", "rules", "prometheus/redrive.rules.yml")


def test_each_rule_fires_on_trouble_and_not_before() -> None:
    run_promtool("test", "rules", "prometheus/redrive.rules.test.yml")
    tried = text("prometheus/redrive.rules.test.yml")
    assert [rule["alert"] for rule in RULES if f"alertname: {rule['alert']}\n" not in tried] == []


def test_prometheus_takes_the_configuration(tmp_path: Path) -> None:
    key = tmp_path / "redrive.key"
    key.write_text("a key")
    configured = text("prometheus/prometheus.yml").replace("/etc/prometheus/redrive.key", str(key))
    (tmp_path / "prometheus.yml").write_text(configured)
    shutil.copy(DEPLOY / "prometheus/redrive.rules.yml", tmp_path)
    run_promtool("check", "config", tmp_path / "prometheus.yml")


@pytest.mark.parametrize("query", queries())
def test_a_query_names_metrics_and_labels_that_exist(query: str) -> None:
    if "redrive_" in query:
        check_query(query)
    else:
        assert query.startswith("up{")


@pytest.mark.parametrize(
    "query",
    [
        "redrive_no_such_metric",
        'redrive_dlq_size{tenant="a"}',
        "sum by (tenant) (rate(redrive_messages_done_total[5m]))",
        "redrive_handler_seconds",
    ],
)
def test_a_query_of_what_does_not_exist_would_be_found(query: str) -> None:
    with pytest.raises(AssertionError):
        check_query(query)


def test_what_alerts_tell_people_to_run_exists() -> None:
    sentences = [sentence for rule in RULES for sentence in rule["annotations"].values()]
    named = [command for sentence in sentences for command in commands_named(sentence)]
    assert len(named) >= 8
    for command in named:
        check_command(command)


def test_the_dashboard_is_whole() -> None:
    shown = list(panels())
    assert len({panel["id"] for panel in shown}) == len(shown)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in shown]
    assert len(set(places)) == len(places)
    for panel in shown:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "queue"}


def test_every_metric_of_dashboards_of_old_is_on_the_dashboard() -> None:
    shown = " ".join(queries())
    documented = [one.name for one in METRICS if one.name.startswith(("retry_", "dlq_", "tenant_"))]
    missing = [name for name in documented if f"{PREFIX}{name}" not in shown]
    assert missing == ["tenant_current_priority", "tenant_consecutive_batch"]
