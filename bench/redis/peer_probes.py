"""Measures the peers: submits, starts one worker process as its users do, and reads the marks it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.load import Conditions, Figures, percentile
from bench.redis.peers import NODE, PEERS, Peer
from bench.waking import LIGHT_RATE

KEPT = 10_000
CONCURRENCIES = (100, 300)
_SCRIPT = Path(__file__).with_name("theirs") / "bullmq.mjs"
_ROOT = Path(__file__).resolve().parent.parent.parent
_JOBS_A_SECOND = 8_000
_MEMORY_JOBS = 50_000
_PATIENCE_S = 60.0


class PeerFailed(Exception):
    """A peer did not do what it was asked."""


def measure_peer(name: str, conditions: Conditions) -> Figures:
    """Processed a second by one worker process of a Python peer, by the best of its commands."""
    peer = next(peer for peer in PEERS if peer.name == name)
    return {name: max(rate(peer, command, conditions) for command in peer.workers)}


def measure_bullmq(conditions: Conditions) -> Figures:
    """Accepted and processed a second by BullMQ with as many finished jobs kept as ours keeps records."""
    found = _bullmq(conditions, "throughput", _jobs(conditions), conditions.seconds, KEPT, *CONCURRENCIES)
    return {
        "bullmq bulk": found["bulk"],
        "bullmq singly": found["singly"],
        "bullmq": found["process"],
        "bullmq bulk cpu": found["bulkCpu"],
        "bullmq cpu": found["processCpu"],
    }


def measure_bullmq_forgetting(conditions: Conditions) -> Figures:
    """BullMQ where nothing of a finished job stays."""
    found = _bullmq(conditions, "throughput", _jobs(conditions), 0.1, 0, *CONCURRENCIES)
    return {"bullmq forgetting": found["process"]}


def measure_bullmq_light(conditions: Conditions) -> Figures:
    """Latency at 200 a second from another process."""
    count = round(LIGHT_RATE * conditions.seconds)
    latencies = _bullmq(conditions, "light", count, LIGHT_RATE)["latencies"]
    return {f"bullmq light p{share}": percentile(latencies, share / 100) for share in (50, 99)}


def measure_bullmq_memory(conditions: Conditions) -> Figures:
    """Bytes a waiting job with an id of its own."""
    return {"bullmq bytes": _bullmq(conditions, "memory", _MEMORY_JOBS)["bytes"]}


def _jobs(conditions: Conditions) -> int:
    return round(_JOBS_A_SECOND * conditions.seconds)


def _bullmq(conditions: Conditions, part: str, *arguments: float) -> dict[str, Any]:
    port = urlsplit(conditions.server or "").port
    command = ["node", str(_SCRIPT), str(NODE), part, str(port), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rate(peer: Peer, command: Sequence[str], conditions: Conditions) -> float:
    count, marks = round(peer.pace * conditions.seconds), conditions.folder / "marks"
    marks.unlink(missing_ok=True)
    assert conditions.server is not None
    environment = os.environ | {
        "BENCH_SERVER": conditions.server,
        "BENCH_COUNT": str(count),
        "BENCH_MARKS": str(marks),
        "RQ_REDIS_URL": conditions.server,
        "PYTHONPATH": str(_ROOT),
    }
    python = str(peer.python)
    # Imported, not run as a module: a task is known by the module it was defined in.
    submit = f"from {peer.module} import submit; submit()"
    subprocess.run([python, "-c", submit], env=environment, cwd=conditions.folder, check=True)
    with (conditions.folder / "worker.log").open("w+b") as log:
        worker = subprocess.Popen(
            [python, *command],
            env=environment,
            cwd=conditions.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            first_s, last_s = _wait_for(marks, worker, Path(log.name))
        finally:
            _stop(worker)
    return (count - 1) / (last_s - first_s)


def _wait_for(marks: Path, worker: subprocess.Popen[bytes], log: Path) -> tuple[float, float]:
    ends_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends_s and worker.poll() is None:
        if marks.exists():
            first_s, last_s = json.loads(marks.read_text("utf-8"))
            return first_s, last_s
        time.sleep(0.05)
    said = log.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
    raise PeerFailed(f"{' '.join(map(str, worker.args))} did not finish: {said[-1]}")  # type: ignore[arg-type]


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """End the session that was started for the worker: some put a process below themselves."""
    os.killpg(worker.pid, signal.SIGTERM)
    try:
        worker.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
