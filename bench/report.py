"""A run as text or JSON: the machine, what failed and why, and a row for each goal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bench import table
from bench.goals import Goal
from bench.table import Rounds


def report(
    goals: Sequence[Goal],
    rounds: Rounds,
    *,
    as_json: bool,
    found: Mapping[str, str] | None = None,
    failed: Mapping[str, str] | None = None,
) -> str:
    """What is printed at the end of a run."""
    found, failed = found or {}, failed or {}
    rows = [table.judge(goal, rounds) for goal in goals]
    if as_json:
        answer = {"machine": found, "rows": table.plain(rows), "rounds": rounds, "failed": failed}
        return json.dumps(answer, indent=2)
    lines = [f"{name}: {value}" for name, value in found.items()]
    lines += [f"not shown: {name}: {why}" for name, why in failed.items()]
    return "\n".join([*lines, *([""] if lines else []), table.markdown(rows)])
