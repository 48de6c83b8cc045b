"""The peers on Redis, each in an environment of its own in the user's cache folder, made when asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.peers import PeersMissing

CACHE = Path.home() / ".cache" / "redrive-bench"
NODE = CACHE / "node"
_ONE_QUIET_TASKIQ = ("--workers", "1", "--log-level", "WARNING")
_NODE_PACKAGES = ("bullmq", "ioredis")


@dataclass(frozen=True, slots=True)
class Peer:
    """A Python peer: what to install, its workers' commands (the best one counts), and about how fast it is.

    The pace only says how many messages it gets, so that each measures for about as long.
    """

    name: str
    packages: tuple[str, ...]
    workers: tuple[tuple[str, ...], ...]
    pace: int
    repeated: bool = False

    @property
    def module(self) -> str:
        return f"bench.redis.theirs.{self.name}_peer"

    @property
    def folder(self) -> Path:
        return CACHE / f"redis-{self.name}-python{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def _module(name: str) -> str:
    return f"bench.redis.theirs.{name}_peer"


PEERS = (
    Peer(
        "dramatiq",
        ("dramatiq[redis]", "hiredis"),
        (("-m", "dramatiq", _module("dramatiq"), "--processes", "1", "--threads", "8"),),
        1_500,
        repeated=True,
    ),
    Peer(
        "taskiq",
        ("taskiq", "taskiq-redis", "hiredis"),
        (("-m", "taskiq", "worker", f"{_module('taskiq')}:broker", *_ONE_QUIET_TASKIQ),),
        1_500,
        repeated=True,
    ),
    Peer(
        "huey",
        ("huey", "redis", "hiredis"),
        tuple(
            ("-m", "huey.bin.huey_consumer", f"{_module('huey')}.queue", "-w", threads, "-n", "-q")
            for threads in ("1", "4")
        ),
        1_500,
        repeated=True,
    ),
    Peer("arq", ("arq", "hiredis"), (("-m", "arq", f"{_module('arq')}.WorkerSettings"),), 600),
    Peer(
        "saq",
        ("saq[redis]", "hiredis", "typing_extensions"),
        (("-m", "saq", f"{_module('saq')}.settings", "--quiet"),),
        600,
    ),
    Peer(
        "celery",
        ("celery[redis]", "hiredis"),
        (
            ("-m", "celery", "-A", _module("celery"), "worker", "-P", "solo", "-l", "error"),
            ("-m", "celery", "-A", _module("celery"), "worker", "-P", "threads", "-c", "8", "-l", "error"),
        ),
        500,
    ),
    Peer(
        "rq",
        ("rq", "hiredis"),
        (("-m", "rq.cli", "worker", "-q", "-w", "rq.worker.SimpleWorker", "bench"),),
        300,
    ),
)


def prepare(peer: Peer) -> str:
    """Install a peer where it is missing; its version. PeersMissing says why it cannot be had."""
    try:
        if not peer.python.exists() or not _version(peer):
            _call(sys.executable, "-m", "venv", "--clear", str(peer.folder))
            pip = (str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _call(*pip, *peer.packages)
        return _version(peer)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeersMissing(f"cannot install {peer.name} into {peer.folder}: {_why(error)}") from error


def prepare_node() -> str:
    """Install BullMQ where it is missing; its version and Node's. PeersMissing says why it cannot be had."""
    installed = NODE / "node_modules" / "bullmq" / "package.json"
    try:
        if not installed.exists() or not (NODE / "node_modules" / "ioredis").exists():
            NODE.mkdir(parents=True, exist_ok=True)
            (NODE / "package.json").write_text('{"private": true}\n')
            _call("npm", "install", "--no-audit", "--no-fund", "--prefix", str(NODE), *_NODE_PACKAGES)
        node = _call("node", "--version").strip()
        return f"bullmq {json.loads(installed.read_text('utf-8'))['version']} on node {node}"
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeersMissing(f"cannot install BullMQ into {NODE}: {_why(error)}") from error


def _version(peer: Peer) -> str:
    pins = (line.partition("==") for line in _call(str(peer.python), "-m", "pip", "freeze").splitlines())
    return next((f"{name} {version}" for name, _, version in pins if name == peer.name), "")


def _call(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _why(error: OSError | subprocess.CalledProcessError) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return (said.strip().splitlines() or ["no reason given"])[-1]
