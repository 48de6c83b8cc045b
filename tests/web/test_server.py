"""The server: where it listens, what it refuses before any route is asked."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import trustme

from redrive import Redrive
from redrive.core.errors import CannotListen, ConfigurationError
from redrive.office.access import Access, Role
from redrive.web.listen import ServerSettings, check_listen
from redrive.web.server import serve


def _port(url: str) -> int:
    return httpx.URL(url).port or 0


async def _read(reader: asyncio.StreamReader) -> bytes:
    """What is answered until the connection ends; one that is reset has ended too."""
    with suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_any_free_port_is_found_and_told(app: Redrive) -> None:
    async with serve(app, "127.0.0.1:0") as server:
        assert _port(server.url) > 0
        async with httpx.AsyncClient(timeout=60) as client:
            assert (await client.get(f"{server.url}/health/live")).status_code == 200


async def test_it_listens_on_ipv6_too(app: Redrive) -> None:
    async with serve(app, "[::1]:0") as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        assert server.url.startswith("http://[::1]:")
        assert (await client.get("/health/live")).status_code == 200


async def test_a_port_in_use_is_named(app: Redrive) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotListen, match=rf"HTTP API .* {listen}: .* --listen or REDRIVE_LISTEN"):
            async with serve(app, listen):
                pytest.fail("it listens")


async def test_an_address_that_is_not_ours_is_named(app: Redrive) -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1:8025"):
        async with serve(app, "192.0.2.1:8025", settings=ServerSettings(allow_remote=True)):
            pytest.fail("it listens")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:8025", "mail.example:8025"])
async def test_other_machines_are_kept_out_unless_told_otherwise(app: Redrive, listen: str) -> None:
    with pytest.raises(ConfigurationError, match="--allow-remote"):
        async with serve(app, listen):
            pytest.fail("it listens")


@pytest.mark.parametrize(
    "settings", [ServerSettings(allow_remote=True), ServerSettings(trusted_proxies=("127.0.0.1",))]
)
async def test_every_interface_is_served_when_that_was_said(app: Redrive, settings: ServerSettings) -> None:
    async with serve(app, "0.0.0.0:0", settings=settings) as server, httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(f"http://127.0.0.1:{_port(server.url)}/health/live")
        assert answer.status_code == 200


async def test_with_a_certificate_it_serves_tls(app: Redrive, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    settings = ServerSettings(certificate=certificate, private_key=key)
    async with serve(app, "127.0.0.1:0", settings=settings) as server:
        assert server.url.startswith("https://")
        async with httpx.AsyncClient(base_url=server.url, verify=trusting, timeout=60) as client:
            assert (await client.get("/health/live")).status_code == 200


async def test_a_certificate_that_cannot_be_read_is_named(app: Redrive, tmp_path: Path) -> None:
    settings = ServerSettings(certificate=tmp_path / "nowhere.pem")
    with pytest.raises(ConfigurationError, match=r"nowhere\.pem"):
        async with serve(app, "127.0.0.1:0", settings=settings):
            pytest.fail("it listens")


@pytest.mark.parametrize("text", ["", "8025", "localhost", ":8025", "a:b", "127.0.0.1:70000", "127.0.0.1:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="listen"):
        check_listen(text)


async def test_signals_stay_with_the_process(app: Redrive) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serve(app, "127.0.0.1:0"):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_after_leaving_nobody_listens(app: Redrive) -> None:
    async with serve(app, "127.0.0.1:0") as server:
        url = server.url
    async with httpx.AsyncClient(timeout=60) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)


async def test_an_endless_head_is_cut_off(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.web.server.HEAD_S", 3_600.0)  # so it is not the time that ends it
    reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
    writer.write(b"GET /health/live HTTP/1.1\r\nX-Long: " + b"a" * 2_000_000)
    answer = await _read(reader)
    writer.close()
    assert not answer or answer.startswith(b"HTTP/1.1 400 ")


async def test_a_head_behind_a_long_body_is_not_taken_for_long(url: str, acme: httpx.AsyncClient) -> None:
    body = b'{"payload": "' + b"a" * 200_000 + b'"}'
    head = (
        "POST /v1/queues/orders/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"Authorization: {acme.headers['authorization']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
    writer.write(head.encode() + body + b"GET /health/live HTTP/1.1\r\n")
    await reader.readuntil(b"202 Accepted\r\n")
    writer.write(b"Host: a\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(30):
        assert b"HTTP/1.1 200 OK" in await reader.read()
    writer.close()


async def test_a_head_that_does_not_come_is_not_waited_for(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.web.server.HEAD_S", 0.05)
    async with serve(app, "127.0.0.1:0") as server, asyncio.timeout(30):
        for begun in (b"", b"GET /health/live HT"):
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(server.url))
            writer.write(begun)
            assert await _read(reader) == b""
            writer.close()


async def test_requests_on_one_connection_are_answered_in_order(url: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
    paths = ("/health/live", "/nowhere", "/health/ready")
    for path in paths:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    writer.write(b"GET /docs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(30):
        answered = (await reader.read()).decode()
    writer.close()
    assert re.findall(r"HTTP/1\.1 (\d+) ", answered) == ["200", "404", "200", "200"]


async def test_a_body_that_drips_ends_at_a_deadline_read_or_not(
    app: Redrive, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.web.server.BODY_S", 0.2)
    _, key = await access.create(Role.SUBMIT, "acme")
    async with serve(app, "127.0.0.1:0", mail=app.mail) as server, asyncio.timeout(30):
        for bearer in (key, "rdk_wrong"):
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(server.url))
            writer.write(
                "POST /v1/emails HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {bearer}\r\nContent-Length: 1000\r\n\r\n{{".encode()
            )
            ended = asyncio.ensure_future(reader.read())
            while not ended.done():
                writer.write(b" ")
                await asyncio.wait([ended], timeout=0.02)
            assert b" 202 " not in (b"" if ended.exception() else ended.result())
            writer.close()


async def test_behind_a_trusted_proxy_other_peers_are_refused(app: Redrive) -> None:
    for trusted, status in ((("192.0.2.1",), 403), (("192.0.2.1", "127.0.0.0/8"), 200)):
        settings = ServerSettings(trusted_proxies=trusted)
        async with (
            serve(app, "127.0.0.1:0", settings=settings) as server,
            httpx.AsyncClient(timeout=60) as client,
        ):
            answer = await client.get(f"{server.url}/health/live")
        assert answer.status_code == status


async def test_a_trusted_proxy_that_is_no_address_is_refused_at_the_start(app: Redrive) -> None:
    settings = ServerSettings(trusted_proxies=("proxy.internal",))
    with pytest.raises(ConfigurationError, match=r"trusted proxy: .*write an address or a network"):
        async with serve(app, "127.0.0.1:0", settings=settings):
            pass


@pytest.mark.parametrize("everybody", ["*", "0.0.0.0/0", "::/0"])
async def test_everybody_is_no_trusted_proxy(app: Redrive, everybody: str) -> None:
    settings = ServerSettings(trusted_proxies=("192.0.2.1", everybody))
    with pytest.raises(ConfigurationError, match=r"is everybody.*could say it is another"):
        async with serve(app, "127.0.0.1:0", settings=settings):
            pass


async def test_head_works_where_get_does(stranger: httpx.AsyncClient, viewer: httpx.AsyncClient) -> None:
    for client, path in ((stranger, "/health/live"), (stranger, "/docs"), (viewer, "/admin/dlq/operations")):
        head, get = await client.head(path), await client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"") == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
    assert (await stranger.head("/admin/dlq/operations")).status_code == 401
    refused = await stranger.head("/v1/emails")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
