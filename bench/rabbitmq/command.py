"""`python -m bench rabbitmq`: ours on RabbitMQ, beside the bare driver, and with --peers beside three queues.

One broker for the whole run, a virtual host a part; messages of 1 KB, persistent, confirmed. Ours and the
bare driver have quorum queues; each peer has the kind and the settings that its users have: classic for
Celery and dramatiq, which costs the broker less, quorum for taskiq. Peers are measured from their first
message to their last, ours until the last is acknowledged too.
Exit codes: 0 all parts ran (whatever the verdicts), 1 a part failed, 2 usage or no broker.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path

from tests.brokers.server import RabbitServer, start_rabbitmq

from bench import machine, peers
from bench.goals import Above, AtLeast, AtMost, Beside, Goal
from bench.load import Conditions, Figures
from bench.rabbitmq.peers import RABBIT_PEERS, RabbitPeer
from bench.redis.peer_probes import PeerFailed, rate
from bench.redis.peers import prepare
from bench.report import report
from bench.running import Results, ask, why

_THEIRS = tuple(peer.name for peer in RABBIT_PEERS)
_SHARES = (25, 50, 75, 100)
GOALS = (
    Goal("consumed, everything on, against the best peer", "consume", "/s", AtLeast(2.5, _THEIRS, floor=1.5)),
    Goal(
        "the same from a classic queue, as Celery and dramatiq declare",
        "consume classic",
        "/s",
        AtLeast(2.5, ("celery", "dramatiq"), floor=1.5),
    ),
    Goal(
        "the same from a quorum queue, against bare aio-pika, acknowledging in batches",
        "consume",
        "/s",
        AtLeast(0.75, ("bare consume",)),
    ),
    Goal(
        "parked with a confirm, against publishing by bare aio-pika",
        "park",
        "/s",
        AtLeast(0.5, ("bare publish",)),
    ),
    Goal("re-driven, confirmed and marked", "redrive", "/s", Above(2_000.0)),
    Goal("collected into the ledger", "collect", "/s"),
    Goal(
        "memory while a backlog is collected, against its first tenth",
        "backlog memory",
        "MB",
        AtMost(1.1, ("backlog tenth",)),
    ),
    *(Goal(f"the same, {share} % collected", f"backlog memory at {share} %", "MB") for share in _SHARES),
    Goal("the backlog, collected", "backlog", "/s"),
    Goal("processor time a message consumed", "consume cpu", "µs", Beside("bare consume cpu")),
    Goal("processor time a message parked", "park cpu", "µs", Beside("bare publish cpu")),
    Goal("processor time a letter re-driven", "redrive cpu", "µs"),
    Goal("processor time a letter collected", "collect cpu", "µs"),
    Goal("bare aio-pika publishes", "bare publish", "/s"),
    Goal("bare aio-pika consumes", "bare consume", "/s"),
    *(Goal(f"peer: {name}", name, "/s") for name in _THEIRS),
)
_PARTS = ("bare", "consume", "classic", "park", "letters")
_PEERS_SHARE = 4
"""A peer gets fewer messages than ours: it submits them one by one."""

_BACKLOG_PATIENCE_S = 1_800.0
_hosts = count(1)


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print."""
    options = _parser().parse_args(arguments)
    failed: dict[str, str] = {}
    found = machine.describe(Path.cwd()) | {"aio-pika": version("aio-pika"), "aiormq": version("aiormq")}
    chosen = [peer for peer in RABBIT_PEERS if options.peers and _is_ready(peer.name, failed)]
    results = Results()
    with tempfile.TemporaryDirectory(prefix="bench-rabbitmq-") as folder:
        server = start_rabbitmq(Path(folder), management=True)
        try:
            for number in range(options.rounds):
                for part in _PARTS:
                    _measure(
                        f"{part}, round {number + 1}",
                        lambda part=part: _ours(server, part, options.messages),
                        results,
                        failed,
                    )
                for peer in chosen:
                    _measure(
                        f"{peer.name}, round {number + 1}",
                        lambda peer=peer: _theirs(server, peer, options.messages),
                        results,
                        failed,
                    )
            if options.backlog:
                _measure(
                    f"{options.backlog:,} dead letters",
                    lambda: _backlog(server, options.backlog),
                    results,
                    failed,
                )
        finally:
            server.stop()
    found |= {"messages a part": f"{options.messages:,}", "rounds": str(options.rounds)}
    print(report(GOALS, results.rounds, as_json=options.json, found=found, failed=failed))
    return 1 if failed else 0


def _measure(name: str, part: Callable[[], Figures], results: Results, failed: dict[str, str]) -> None:
    print(f"bench: {name}", file=sys.stderr, flush=True)
    try:
        results.add(part())
    except (OSError, subprocess.SubprocessError, PeerFailed) as error:
        failed[name] = why(error)


def _ours(server: RabbitServer, part: str, messages: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="bench-ledger-") as folder:
        url = server.virtual_host(f"bench-{next(_hosts)}")
        return ask([sys.executable, "-m", "bench.rabbitmq.ours", part, url, str(messages), folder])


def _backlog(server: RabbitServer, letters: int) -> Figures:
    """Filled by a process of its own: what it needed is not in the memory of the one that collects."""
    with tempfile.TemporaryDirectory(prefix="bench-ledger-") as folder:
        url = server.virtual_host(f"bench-{next(_hosts)}")
        for part in ("fill", "backlog"):
            command = [sys.executable, "-m", "bench.rabbitmq.ours", part, url, str(letters), folder]
            found = ask(command, _BACKLOG_PATIENCE_S)
        return found


def _theirs(server: RabbitServer, peer: RabbitPeer, messages: int) -> Figures:
    """The best of its commands."""
    rates = []
    for command in peer.workers:
        with tempfile.TemporaryDirectory(prefix="bench-peer-") as name:
            url = server.virtual_host(f"bench-{next(_hosts)}")
            conditions = Conditions(Path(name), Path(name), messages / _PEERS_SHARE / peer.pace, url)
            rates.append(rate(peer, command, conditions))
    return {peer.name: max(rates)}


def _is_ready(name: str, failed: dict[str, str]) -> bool:
    peer = next(one for one in RABBIT_PEERS if one.name == name)
    try:
        prepare(peer)
    except peers.PeersMissing as error:
        failed[name] = str(error)
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench rabbitmq", description="Ours on RabbitMQ.")
    parser.add_argument(
        "--peers", action="store_true", help="install and measure Celery, dramatiq and taskiq too"
    )
    parser.add_argument("--messages", type=int, default=20_000, help="messages a part (20,000)")
    parser.add_argument(
        "--backlog", type=int, default=0, help="dead letters to collect with an eye on the memory (none)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="rounds (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
