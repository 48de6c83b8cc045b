"""`python -m bench gateway`: the mail gateway as a whole, and beside it what its speed is made of.

Mails of 2 KB into smtp-sink on loopback over ten connections: ours from `POST /v1/emails/batch` on a durable
store, Postfix from smtp-source through its durable queue, in turns, round by round. Then the way of a single
mail on an idle gateway, the HTTP route alone and the SMTP client alone. What cannot run here is not shown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path

from bench import http, machine, postfix, served, smtp
from bench.goals import AtLeast, Below, Goal
from bench.load import Conditions, Figures
from bench.report import report
from bench.running import Results
from bench.sink import ToolMissing

GOALS = (
    Goal(
        "accepted over HTTP in batches of 100, rendered, in the sink, against Postfix",
        "gateway end to end",
        "/s",
        AtLeast(8.0, ("postfix end to end",), floor=5.0),
    ),
    Goal("accepted over HTTP meanwhile, 4 clients", "gateway accepted", "/s"),
    Goal("peer: Postfix as a relay, end to end", "postfix end to end", "/s"),
    Goal("submit to SMTP hand-over, idle, p50", "hand-over p50", "ms", Below(10.0)),
    Goal("submit to SMTP hand-over, idle, p95", "hand-over p95", "ms", Below(50.0)),
    Goal("submit to SMTP hand-over, idle, p99", "hand-over p99", "ms"),
    *http.GOALS,
    *smtp.GOALS,
)
_FAILURES = (
    OSError,
    RuntimeError,
    HTTPException,
    ValueError,
    subprocess.SubprocessError,
    ToolMissing,
    postfix.CannotRelay,
)

Part = Callable[[Path, argparse.Namespace], Figures]

_PARTS: dict[str, Part] = {
    "ours": lambda folder, options: served.measure_throughput(folder, options.mails),
    "postfix": lambda folder, options: postfix.measure(folder, options.mails),
    "hand-over": lambda folder, _: served.measure_latency(folder),
    "http": lambda folder, options: http.measure(Conditions(folder, folder, options.seconds)),
    "smtp": lambda _, options: smtp.measure(options.messages),
}


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print; 1 when a part failed, 2 for a folder that is no disk."""
    options = _parser().parse_args(arguments)
    place = options.folder or Path.cwd()
    try:
        machine.require_disk(place)
    except machine.NotADisk as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    results, failed = Results(), dict[str, str]()
    found = machine.describe(place)
    for number in range(options.rounds):
        for name in options.only or _PARTS:
            print(f"bench: round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            _measure(name, place, options, results, failed)
    found |= {"mails a round": f"{options.mails:,}", "rounds": str(options.rounds)}
    print(report(GOALS, results.rounds, as_json=options.json, found=found, failed=failed))
    return 1 if failed else 0


def _measure(
    name: str, place: Path, options: argparse.Namespace, results: Results, failed: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=place) as made:
        folder = Path(made)
        # Postfix's own user has to get through to its queue.
        folder.chmod(0o755)
        try:
            results.add(_PARTS[name](folder, options))
        except _FAILURES as error:
            failed[name] = str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/bench gateway", description="The mail gateway, end to end.")
    parser.add_argument("--mails", type=int, default=10_000, help="mails end to end in a round (10,000)")
    parser.add_argument("--messages", type=int, default=30_000, help="mails an SMTP client sends (30,000)")
    parser.add_argument("--seconds", type=float, default=7.0, help="how long each HTTP server is loaded (7)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (3)")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (the working folder)")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(_PARTS), metavar="PART", help=f"some of {', '.join(_PARTS)}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the figures of every round")
    return parser
