"""`python -m bench redis`: ours on Redis, and with --peers beside BullMQ and seven Python queues.

Exit codes: 0 all probes ran (whatever the verdicts), 1 a probe failed, 2 usage, no server,
or a folder that is no disk.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench import machine, peers
from bench.redis import server
from bench.redis.goals import GOALS
from bench.redis.peers import PEERS, prepare, prepare_node
from bench.redis.probes import BULLMQ, MODULE, PROBES, Probe
from bench.report import report
from bench.running import Results, ask, why

_NAMES = tuple(probe.name for probe in PROBES)
_QUICK_S, _FULL_S = 1.0, 3.0
_QUICK_ROUNDS, _FULL_ROUNDS = 1, 3


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print."""
    options = _parser().parse_args(arguments)
    place = options.folder or Path.cwd()
    try:
        machine.require_disk(place)
        found = machine.describe(place) | {"redis": server.version(), "redis-py": version("redis")}
    except (machine.NotADisk, server.NoServer) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    failed: dict[str, str] = {}
    ready = _prepare_peers(failed) if options.peers else {}
    if ready:
        found["peers"] = ", ".join(ready.values())
    seconds = options.seconds or (_QUICK_S if options.quick else _FULL_S)
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _FULL_ROUNDS)
    results = _run(_choose(options, set(ready)), place, rounds, seconds, failed)
    found |= {"seconds a probe": f"{seconds:g}", "rounds": str(rounds)}
    print(report(GOALS, results.rounds, as_json=options.json, found=found, failed=failed))
    return 1 if failed else 0


def _prepare_peers(failed: dict[str, str]) -> dict[str, str]:
    """The version of each peer that is there; why another is not goes to `failed`."""
    ready = {}
    steps = {BULLMQ: prepare_node} | {peer.name: (lambda peer=peer: prepare(peer)) for peer in PEERS}
    for name, step in steps.items():
        _tell(f"preparing {name}")
        try:
            ready[name] = step()
        except peers.PeersMissing as error:
            failed[name] = str(error)
    return ready


def _choose(options: argparse.Namespace, ready: set[str]) -> list[Probe]:
    return [
        probe
        for probe in PROBES
        if probe.name in (options.only or _NAMES)
        and (probe.peer is None or probe.peer in ready)
        and not (probe.slow and options.quick)
    ]


def _run(
    probes: Sequence[Probe], place: Path, rounds: int, seconds: float, failed: dict[str, str]
) -> Results:
    results = Results()
    for number in range(rounds):
        for probe in probes:
            if probe.repeated or number == 0:
                began_s = time.monotonic()
                _measure(probe, place, seconds, results, failed)
                passed_s = time.monotonic() - began_s
                _tell(f"round {number + 1} of {rounds}: {probe.name} took {passed_s:.0f} s")
    return results


def _measure(probe: Probe, place: Path, seconds: float, results: Results, failed: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=place) as made, server.running(Path(made)) as url:
        command = [sys.executable, "-m", MODULE, probe.name, made, made, str(seconds), url]
        try:
            results.add(ask(command))
        except (subprocess.SubprocessError, ValueError) as error:
            failed[probe.name] = why(error)
            _tell(f"{probe.name} failed: {why(error)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/bench redis", description="The Redis store, and its peers.")
    parser.add_argument("--peers", action="store_true", help="install and measure BullMQ and Python queues")
    parser.add_argument("--quick", action="store_true", help="one short round, without the deep queue")
    parser.add_argument("--seconds", type=float, help="about how long a probe measures (3; quick 1)")
    parser.add_argument("--rounds", type=int, help="rounds, of which the median counts (3; quick 1)")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (the working folder)")
    parser.add_argument(
        "--only", nargs="+", choices=_NAMES, metavar="PROBE", help=f"some of {', '.join(_NAMES)}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the figures of every round")
    return parser


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
