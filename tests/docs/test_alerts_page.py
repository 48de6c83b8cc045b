"""docs/monitoring.md: the settings of its section on alerts hold, and every field and metric is there."""

from __future__ import annotations

import re
from pathlib import Path

from redrive.core.alert_rules import DEFAULT_RULES, RULE_FIELDS
from redrive.core.alerts import AlertFigure
from redrive.office.alerts.channels import Alerting
from redrive.wiring import load

PAGE = Path(__file__).parents[2] / "docs/monitoring.md"
SECTION = re.split(r"^## ", PAGE.read_text("utf-8").split("\n## Alerts\n")[1], flags=re.MULTILINE)[0]


def test_the_settings_of_the_page_are_taken(tmp_path: Path) -> None:
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    (tmp_path / "redrive.toml").write_text(
        toml.replace("TokenA/TokenB/TokenC", f"T1JJ3T3L2/A1BRTD4JD/{'x' * 24}")
    )
    environ = {"PAGERDUTY_URL": f"pagerduty://{'0' * 32}", "HOOK_SECRET": "s"}
    settings = load(environ=environ, folder=tmp_path).alerts
    Alerting(settings).check()
    assert {rule.name for rule in settings.rules} == {*DEFAULT_RULES, "orders_wait"}
    assert [rule.name for rule in settings.rules if rule.off] == ["letters_leaving"]


def test_every_field_and_every_metric_is_on_the_page() -> None:
    missing = [one for one in (*RULE_FIELDS, *AlertFigure) if f"`{one}`" not in SECTION]
    assert missing == []
