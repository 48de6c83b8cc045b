"""What a server says of itself: what "accepted" means there, and what `redrive doctor` tells of it.

The lines are right, worth a look, wrong, or not to be told. They follow from the server's settings and its
INFO, each as far as it tells; two things are tried: its clock and whether it understands our scripts' flags.
Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from redrive.core.condition import Durability, Finding, Grade
from redrive.core.errors import StoreError
from redrive.stores.redis.memory import read_memory
from redrive.stores.redis.nodes import Node

_SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
_SECTIONS = ("server", "memory", "persistence", "replication", "stats")
_WORST_FIRST = (Durability.C, Durability.UNKNOWN, Durability.B, Durability.A)
_CLOCK_MS = 1_000
_NEARLY_FULL = 0.8
_HIDDEN = "the server does not tell"
_GRADES = {
    Durability.A: Grade.RIGHT,
    Durability.B: Grade.RIGHT,
    Durability.C: Grade.WRONG,
    Durability.UNKNOWN: Grade.UNKNOWN,
}
_STATUSES = {
    "aof_last_write_status": "look at the server's log and its free disk: until then it refuses writes",
    "aof_last_bgrewrite_status": "look at the server's log: it needs free disk, and memory to fork",
    "rdb_last_bgsave_status": "look at the server's log: it needs free disk, and memory to fork",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """One node's `settings` (empty where CONFIG is refused) and `info` (empty where INFO is)."""

    address: str
    settings: Mapping[str, str]
    info: Mapping[str, Any]

    @property
    def known(self) -> dict[str, str]:
        """The settings, and those that INFO tells when CONFIG does not."""
        told = {
            name.replace("_", "-"): str(self.info[name])
            for name in ("maxmemory", "maxmemory_policy")
            if name in self.info
        }
        return {**told, **self.settings}


async def read_facts(node: Node) -> Facts:
    """Ask a node; what the user may not ask for stays empty."""
    return Facts(node.address, await _read_settings(node), await _read_info(node))


async def _read_settings(node: Node) -> dict[str, str]:
    try:
        answer = await node.ask("CONFIG", "GET", *_SETTINGS)
    except ResponseError:
        return {}
    return {key.decode(): value.decode() for key, value in zip(answer[0::2], answer[1::2], strict=True)}


async def _read_info(node: Node) -> dict[str, Any]:
    try:
        info: dict[str, Any] = await node.ask("INFO", *_SECTIONS)
    except ResponseError:
        return {}
    return info


def judge(settings: Mapping[str, str]) -> tuple[Durability, str]:
    """The class and its meaning; no settings: the server does not tell."""
    if settings.get("maxmemory", "0") != "0" and settings.get("maxmemory-policy") != "noeviction":
        return Durability.C, "when memory is full the server evicts messages: set maxmemory-policy noeviction"
    if "appendonly" not in settings:
        return Durability.UNKNOWN, "the server does not show its configuration: ask whoever runs it"
    if settings["appendonly"] != "yes":
        return Durability.C, "accepted means in memory: set appendonly yes"
    if settings.get("appendfsync") == "always":
        return Durability.A, "accepted means on the server's disk"
    if settings.get("appendfsync") == "everysec":
        return (
            Durability.B,
            "accepted means written; a machine that dies loses what came since the last fsync",
        )
    return (
        Durability.C,
        "the operating system decides when to write to disk: set appendfsync everysec or always",
    )


def judge_all(nodes: Sequence[Facts]) -> tuple[Durability, str]:
    """The class of the weakest node."""
    judged = [judge(facts.known) for facts in nodes]
    return min(judged, key=lambda one: _WORST_FIRST.index(one[0]))


def engine_of(nodes: Sequence[Facts]) -> str:
    """Which server it is, of which version; empty where none tells."""
    for info in (facts.info for facts in nodes):
        if "valkey_version" in info:
            return f"Valkey {info['valkey_version']}"
        if "redis_version" in info:
            return f"Redis {info['redis_version']}"
    return ""


def refuse_unsafe(nodes: Sequence[Facts]) -> None:
    """StoreError for a server that may lose what was accepted without any fault."""
    for facts in nodes:
        durability, meaning = judge(facts.known)
        if durability is Durability.C:
            raise StoreError(
                f"{facts.address} is not safe for messages: {meaning}; or accept the loss with "
                "--allow-unsafe (allow_unsafe = true in [redis], REDRIVE_REDIS_ALLOW_UNSAFE=true)"
            )


async def examine_node(node: Node) -> list[Finding]:
    """All findings about one node."""
    facts = await read_facts(node)
    return [*judge_facts(facts), await _examine_clock(node), await _examine_scripts(node)]


def judge_facts(facts: Facts) -> Iterator[Finding]:
    """The findings that follow from what the server says of itself."""
    durability, meaning = judge(facts.known)
    yield Finding("durability", _GRADES[durability], f"class {durability}: {meaning}")
    yield _judge_version(facts)
    yield from _judge_settings(facts)
    yield from _judge_memory(facts)
    if not facts.info:
        yield Finding("persistence and replication", Grade.UNKNOWN, _HIDDEN, "allow the user INFO")
        return
    yield from _judge_persistence(facts)
    yield _judge_replication(facts)


def _judge_version(facts: Facts) -> Finding:
    for key, name in (("valkey_version", "Valkey"), ("redis_version", "Redis")):
        if key in facts.info:
            version = str(facts.info[key])
            new = int(version.partition(".")[0]) >= 7
            grade = Grade.RIGHT if new else Grade.WRONG
            return Finding("version", grade, f"{name} {version}", "" if new else "upgrade to 7.0 or later")
    return Finding("version", Grade.UNKNOWN, _HIDDEN, "allow the user INFO")


def _judge_settings(facts: Facts) -> Iterator[Finding]:
    if "appendonly" not in facts.settings:
        fix = "allow the user `config|get`, or ask whoever runs the server"
        yield Finding("appendonly, appendfsync", Grade.UNKNOWN, f"CONFIG is refused: {_HIDDEN}", fix)
        return
    kept = facts.settings["appendonly"] == "yes"
    fix = "" if kept else "CONFIG SET appendonly yes, and the same in its configuration file"
    yield Finding("appendonly", Grade.RIGHT if kept else Grade.WRONG, facts.settings["appendonly"], fix)
    how = facts.settings.get("appendfsync", "")
    sound = how in ("always", "everysec")
    fix = "" if sound else "CONFIG SET appendfsync everysec (class B) or always (class A)"
    yield Finding("appendfsync", Grade.RIGHT if sound else Grade.WRONG, how, fix)


def _judge_memory(facts: Facts) -> Iterator[Finding]:
    known = facts.known
    if "maxmemory" not in known:
        yield Finding("maxmemory", Grade.UNKNOWN, f"{_HIDDEN}; the watermark is off", "allow the user INFO")
        return
    policy, limited = known.get("maxmemory-policy", ""), known["maxmemory"] != "0"
    if limited:
        yield Finding("maxmemory", Grade.RIGHT, f"{int(known['maxmemory']):,} bytes")
    else:
        yield Finding(
            "maxmemory",
            Grade.WARNING,
            "0, no limit: the watermark is off, and a full machine may kill the server",
            "CONFIG SET maxmemory to what the machine can spare",
        )
    if policy == "noeviction":
        yield Finding("maxmemory-policy", Grade.RIGHT, policy)
    else:
        grade, then = (Grade.WRONG, "evicts messages") if limited else (Grade.WARNING, "would evict messages")
        found = f"{policy}: {then} when memory is full"
        yield Finding("maxmemory-policy", grade, found, "CONFIG SET maxmemory-policy noeviction")
    if facts.info:
        yield _judge_usage(facts)


def _judge_usage(facts: Facts) -> Finding:
    memory = read_memory(facts.info)
    if not memory.limit_bytes:
        return Finding("memory used", Grade.RIGHT, f"{memory.used_bytes:,} bytes")
    found = f"{memory.used_bytes:,} bytes, {memory.used_bytes / memory.limit_bytes:.0%} of maxmemory"
    if not memory.is_above(_NEARLY_FULL):
        return Finding("memory used", Grade.RIGHT, found)
    fix = "run more workers, remove dead letters, or raise maxmemory"
    return Finding("memory used", Grade.WARNING, found, fix)


def _judge_persistence(facts: Facts) -> Iterator[Finding]:
    for name, fix in _STATUSES.items():
        status = str(facts.info.get(name, "ok"))
        if status != "ok":
            yield Finding(name, Grade.WRONG, status, fix)
    if all(str(facts.info.get(name, "ok")) == "ok" for name in _STATUSES):
        yield Finding("persistence", Grade.RIGHT, "the last writes to disk succeeded")


def _judge_replication(facts: Facts) -> Finding:
    if facts.info.get("role") != "master":
        fix = "connect to the master: a replica refuses writes"
        return Finding("replication", Grade.WRONG, "this server is a replica", fix)
    count = int(facts.info.get("connected_slaves", 0))
    found = f"master with {count} replica{'' if count == 1 else 's'}"
    return Finding("replication", Grade.RIGHT, found)


async def _examine_clock(node: Node) -> Finding:
    """The server's clock rules; a difference only makes local logs hard to compare."""
    before_s = time.time()
    seconds, micros = await node.ask("TIME")
    middle_ms = (before_s + time.time()) / 2 * 1000
    off_ms = round(int(seconds) * 1000 + int(micros) / 1000 - middle_ms)
    found = f"{off_ms:+,} ms against this machine"
    if abs(off_ms) <= _CLOCK_MS:
        return Finding("clock", Grade.RIGHT, found)
    return Finding("clock", Grade.WARNING, found, "let both machines follow NTP")


async def _examine_scripts(node: Node) -> Finding:
    try:
        await node.ask("EVAL", "#!lua flags=allow-oom\nreturn 1", 0)
    except ResponseError as error:
        fix = "upgrade to 7.0 or later, and allow the user EVAL and EVALSHA"
        return Finding("scripts", Grade.WRONG, f"refused: {error}", fix)
    return Finding("scripts", Grade.RIGHT, "run, with the flag that lets work drain when memory is full")
