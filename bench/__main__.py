"""`python -m bench [SUBJECT]`: one run, one table. Progress goes to stderr, the table or the JSON to stdout.

Exit codes: 0 all probes ran (whatever the verdicts), 1 a probe failed, 2 usage or a folder that is no disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import dlq, gateway, http, machine, pages, peers, rendering, scrape, smtp, table, telemetry
from bench.goals import GOALS
from bench.probes import PROBES, Need, Probe
from bench.rabbitmq import command as rabbitmq
from bench.redis import command as redis
from bench.running import Results, Run

_NAMES = tuple(probe.name for probe in PROBES)
_SUBJECTS = {
    "redis": redis.run,
    "dlq": dlq.run,
    "gateway": gateway.run,
    "http": http.run,
    "smtp": smtp.run,
    "rendering": rendering.run,
    "scrape": scrape.run,
    "telemetry": telemetry.run,
    "rabbitmq": rabbitmq.run,
    "pages": pages.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, judge, print."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given and given[0] in _SUBJECTS:
        return _SUBJECTS[given[0]](given[1:])
    options = _parser().parse_args(given)
    place = options.folder or Path.cwd()
    try:
        machine.require_disk(place)
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=place) as folder:
            return _run(options, Path(folder))
    except (machine.NotADisk, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, folder: Path) -> int:
    found = machine.describe(folder)
    python = _peers(options.peers)
    if python is not None:
        found["peers"] = peers.versions(python)
    probes = _choose(options, with_peers=python is not None)
    results = Run(folder, options.seconds, python).run(probes, options.rounds)
    found |= {"seconds a probe": f"{options.seconds:g}", "rounds": str(options.rounds)}
    print(_json(found, results) if options.json else _text(found, results))
    return 1 if results.failed else 0


def _peers(wanted: bool) -> Path | None:
    if not wanted:
        return None
    try:
        return peers.prepare()
    except peers.PeersMissing as error:
        print(f"bench: {error}; their goals are not shown", file=sys.stderr)
        return None


def _choose(options: argparse.Namespace, *, with_peers: bool) -> list[Probe]:
    allowed = {Need.NOTHING: True, Need.PEERS: with_peers, Need.LARGE: options.large}
    names = options.only or _NAMES
    return [probe for probe in PROBES if probe.name in names and allowed[probe.need]]


def _text(found: dict[str, str], results: Results) -> str:
    lines = [f"{name}: {value}" for name, value in found.items()]
    if "fsync" in results.rounds:
        lines.append(f"fsyncs a second: {', '.join(f'{rate:,.0f}' for rate in results.rounds['fsync'])}")
    lines += [f"FAILED: {name}" for name in results.failed]
    return "\n".join([*lines, "", table.markdown([table.judge(goal, results.rounds) for goal in GOALS])])


def _json(found: dict[str, str], results: Results) -> str:
    rows = [table.judge(goal, results.rounds) for goal in GOALS]
    answer = {"machine": found, "rows": table.plain(rows), "rounds": results.rounds, "failed": results.failed}
    return json.dumps(answer, indent=2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="script/bench",
        description="Speed and size, as ratios within one run.",
        epilog=f"Other subjects, with options of their own (SUBJECT --help): {', '.join(_SUBJECTS)}.",
    )
    parser.add_argument(
        "subject", nargs="?", choices=["sqlite"], default="sqlite", help="the store to measure"
    )
    parser.add_argument("--peers", action="store_true", help="also measure huey, persist-queue and litequeue")
    parser.add_argument(
        "--large", action="store_true", help="also with 1,000,000 waiting: minutes, 3 GB of disk"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long a probe measures (3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (3)")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (the working folder)")
    parser.add_argument(
        "--only", nargs="+", choices=_NAMES, metavar="PROBE", help=f"some of {', '.join(_NAMES)}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the figures of every round")
    return parser


if __name__ == "__main__":
    sys.exit(main())
