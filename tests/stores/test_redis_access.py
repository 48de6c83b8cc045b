"""Who may connect: TLS with an authority of our own, and a user with only the rights that the page lists."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trustme
from redis.asyncio import Redis

from redrive.core.condition import Durability
from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.ports import Cleanup
from redrive.core.settings import RedisSettings
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.servers import free_port, start_redis
from tests.stores.redis_server import connected, opened

PAGE = Path(__file__).parents[2] / "docs/redis.md"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that also speaks TLS, with the file of its authority."""
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    server = start_redis(
        folder,
        tls_port=str(port),
        tls_cert_file=str(folder / "certificate.pem"),
        tls_key_file=str(folder / "key.pem"),
        tls_ca_cert_file=str(folder / "ca.pem"),
        tls_auth_clients="no",
    )
    yield f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={folder / 'ca.pem'}"
    server.stop()


async def test_a_store_over_tls_works_when_its_authority_is_named(tls: str) -> None:
    async with opened(RedisStore(tls)) as store:
        await makers.submit(store)
        await store.wait([makers.QUEUE], 0.01)
        assert await makers.complete(store, *await makers.take(store)) == set()
        assert (await store.describe()).url.startswith("rediss://127.0.0.1")


async def test_a_certificate_of_an_unknown_authority_is_refused_with_what_to_do(tls: str) -> None:
    with pytest.raises(StoreError, match="ssl_ca_certs") as refusal:
        await RedisStore(tls.partition("?")[0]).open()
    assert not isinstance(refusal.value, StoreUnavailable)


async def test_a_certificate_for_another_name_is_refused(tls: str) -> None:
    with pytest.raises(StoreError, match="certificate"):
        await RedisStore(tls.replace("127.0.0.1", "localhost")).open()


@pytest.fixture
async def server(redis_url: str) -> AsyncIterator[Redis]:
    async with connected(redis_url) as server:
        yield server
        await server.execute_command("ACL", "DELUSER", "redrive")


def documented_user() -> list[str]:
    """The command of the page that makes the user, in words."""
    found = re.search(r"^ACL SETUSER redrive .+$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[0].replace("PASSWORD", "s3cret").split()


async def test_the_rights_that_the_page_lists_are_enough_for_everything(
    redis_url: str, server: Redis
) -> None:
    await server.execute_command(*documented_user())
    address = redis_url.replace("redis://", "redis://redrive:s3cret@")
    settings = RedisSettings(wait_replicas=0)
    async with opened(RedisStore(address, prefix="app:prod:outbox", settings=settings)) as store:
        await makers.submit(store, 3, dedupe=None)
        first, second, third = await makers.take(store)
        await makers.complete(store, first)
        await makers.bury(store, second)
        await makers.retry(store, third)
        await store.extend([third.lease], 30)
        await store.redrive(makers.QUEUE, makers.keys([second.message.id]), actor="ann")
        await store.wait([makers.QUEUE], 0.01)
        await store.reclaim(makers.QUEUE, makers.new_token(), 30, 10)
        await store.put_record("notes", "1", {"text": "x"}, expected=None, ttl_s=60)
        await store.write_journal("audit", {"who": "ann"})
        await store.read_journal("audit")
        await store.queues()
        await store.lanes(makers.QUEUE)
        await store.letters(None)
        await store.get(first.message.id)
        await store.cleanup(Cleanup(store.now()))
        assert (await store.describe()).durability is Durability.B
        assert (await store.capacity()).waiting_bytes is not None
        assert {finding.grade.value for finding in await store.examine()} <= {"right", "warning"}


async def test_the_user_of_the_page_reaches_no_other_prefix(redis_url: str, server: Redis) -> None:
    await server.execute_command(*documented_user())
    address = redis_url.replace("redis://", "redis://redrive:s3cret@")
    with pytest.raises(StoreError, match="`redrive docs redis` lists what Redrive needs"):
        await RedisStore(address, prefix="app:prod:other").open()
