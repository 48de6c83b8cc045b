"""What `examine` says of live servers: each setting that matters, right or wrong, and what cannot be told."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from redrive.core.condition import Durability, Finding, Grade
from redrive.core.settings import RedisSettings
from redrive.stores.redis import RedisStore
from redrive.stores.redis.examination import Facts, judge_facts
from tests.servers import free_port
from tests.stores.redis_server import opened

ANYWAY = RedisSettings(allow_unsafe=True)


async def examine(url: str) -> dict[str, Finding]:
    async with opened(RedisStore(url, settings=ANYWAY)) as store:
        return {finding.subject: finding for finding in await store.examine()}


async def test_a_server_on_the_shipped_configuration_is_all_right(url: str) -> None:
    assert {finding.grade for finding in (await examine(url)).values()} == {Grade.RIGHT}


async def test_a_valkey_server_is_all_right_and_named(valkey_url: str) -> None:
    findings = await examine(valkey_url)
    assert {finding.grade for finding in findings.values()} == {Grade.RIGHT}
    assert findings["version"].found.startswith("Valkey 9.")


@pytest.mark.parametrize(
    ("setting", "value", "grade", "fix"),
    [
        ("appendonly", "no", Grade.WRONG, "appendonly yes"),
        ("appendfsync", "no", Grade.WRONG, "everysec"),
        ("appendfsync", "always", Grade.RIGHT, ""),
        ("maxmemory", "0", Grade.WARNING, "maxmemory"),
        ("maxmemory-policy", "allkeys-lru", Grade.WRONG, "noeviction"),
    ],
)
async def test_each_setting_is_judged_with_how_to_fix_it(
    url: str, server: Redis, setting: str, value: str, grade: Grade, fix: str
) -> None:
    await server.config_set(setting, value)
    found = (await examine(url))[setting]
    assert found.grade is grade
    assert fix in found.fix
    assert bool(found.fix) == (grade is not Grade.RIGHT)


async def test_without_a_limit_an_evicting_policy_is_only_worth_a_look(url: str, server: Redis) -> None:
    await server.config_set("maxmemory", 0)
    await server.config_set("maxmemory-policy", "allkeys-lru")
    findings = await examine(url)
    assert findings["maxmemory-policy"].grade is Grade.WARNING
    assert "watermark is off" in findings["maxmemory"].found


async def test_a_nearly_full_server_is_worth_a_look(url: str, server: Redis) -> None:
    await examine(url)
    used = (await server.info("memory"))["used_memory"]
    await server.config_set("maxmemory", round(used * 1.1))
    assert (await examine(url))["memory used"].grade is Grade.WARNING


async def test_a_server_that_hides_its_settings_starts_and_the_doctor_says_what_it_cannot_tell(
    url: str, server: Redis
) -> None:
    await server.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", "-config", "-info")
    address = url.replace("redis://", "redis://limited:x@")
    async with opened(RedisStore(address)) as store:
        assert (await store.describe()).durability is Durability.UNKNOWN
    findings = await examine(address)
    assert {finding.grade for finding in findings.values()} == {Grade.RIGHT, Grade.UNKNOWN}
    assert findings["appendonly, appendfsync"].grade is Grade.UNKNOWN
    assert findings["maxmemory"].grade is Grade.UNKNOWN


async def test_a_replica_is_wrong(url: str, server: Redis) -> None:
    async with opened(RedisStore(url)) as store:
        await server.replicaof("127.0.0.1", str(free_port()))
        findings = {finding.subject: finding for finding in await store.examine()}
    assert findings["replication"].grade is Grade.WRONG


def test_what_the_server_could_not_write_to_disk_is_wrong() -> None:
    info = {"aof_last_write_status": "err", "redis_version": "7.0.15", "used_memory": 1, "maxmemory": 0}
    findings = {one.subject: one for one in judge_facts(Facts("redis://here", {}, info))}
    assert findings["aof_last_write_status"].grade is Grade.WRONG
    assert "persistence" not in findings


def test_a_server_before_version_7_is_wrong() -> None:
    info = {"redis_version": "6.2.14", "used_memory": 1, "maxmemory": 0}
    findings = {one.subject: one for one in judge_facts(Facts("redis://here", {}, info))}
    assert findings["version"].grade is Grade.WRONG
