"""What is wrong in the options of an address is said before anybody connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.core.errors import ConfigurationError
from redrive.stores.redis.address import RedisAddress, read_address

SECRET = "hunter2"  # noqa: S105 - looked for in errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("foo=1", "no option 'foo'"),
        ("allow_unsafe=1", "use one of prefix, cluster"),
        ("prefx=app", "did you mean prefix?"),
        ("retry_on_timeout=true", "no option 'retry_on_timeout'"),
        ("decode_responses=true", "no option"),
        ("ssl_ca_certs=ca.pem", "needs TLS: write the address as rediss://"),
        ("db=one", "db in the address is not a whole number"),
        ("cluster=maybe", "cluster='maybe' in the address: write true or false"),
    ],
)
def test_an_option_that_cannot_be_right_is_refused_without_connecting(options: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_address(f"redis://user:{SECRET}@127.0.0.1:1/0?{options}")
    assert said in str(refusal.value)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ssl_ca_certs=no.pem", "ssl_ca_certs names no.pem, which cannot be read: No such file"),
        ("ssl_cert_reqs=maybe", "write required or optional or none"),
        ("ssl_check_hostname=1", "write true or false"),
    ],
)
def test_tls_options_are_checked_too(options: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_address(f"rediss://127.0.0.1:1/0?{options}")
    assert said in str(refusal.value)


@pytest.mark.parametrize("address", ["redis://[::1", "redis://host:port/0", "redis://host/first"])
def test_an_address_that_cannot_be_read_says_how_to_write_it(address: str) -> None:
    with pytest.raises(ConfigurationError, match="write redis://"):
        read_address(address)


def test_our_options_are_kept_from_the_driver(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("")
    options = f"ssl_ca_certs={authority}&client_name=office"
    read = read_address(f"rediss://127.0.0.1:1/0?prefix=app:prod&cluster=true&{options}")
    assert (read.prefix, read.cluster) == ("app:prod", True)
    assert "prefix" not in read.url
    assert "client_name=office" in read.url
    assert read_address("redis://127.0.0.1/") == RedisAddress("redis://127.0.0.1/", "redrive", None)
