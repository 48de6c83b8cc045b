"""Where nothing is posted to: a row for each range of addresses that leads inside, or nowhere."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.office.alerts.addresses import refusal

PUBLIC = ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "2a00:1450:4001:82f::200e")
PRIVATE = (
    ("10.1.2.3", "RFC 1918"),
    ("172.16.0.1", "RFC 1918"),
    ("172.31.255.255", "RFC 1918"),
    ("192.168.0.9", "RFC 1918"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("100.64.1.1", "between a provider and its customers"),
    ("192.0.0.8", "assignments to protocols"),
    ("198.18.0.1", "benchmarks"),
    ("198.19.255.255", "benchmarks"),
    ("::1", "loopback"),
    ("fc00::1", "unique local"),
    ("fd00::1", "unique local"),
    ("fec0::1", "site-local"),
    ("2001:2::1", "benchmarks"),
    ("::ffff:10.0.0.1", "10.0.0.1, mapped"),
    ("64:ff9b::a00:1", "10.0.0.1, translated"),
    ("2002:a00:1::", "10.0.0.1, by 6to4"),
)
METADATA = (
    ("169.254.169.254", "most clouds"),
    ("169.254.170.2", "AWS, containers"),
    ("169.254.170.23", "AWS, pods"),
    ("168.63.129.16", "Azure"),
    ("192.0.0.192", "Oracle"),
    ("100.100.100.200", "Alibaba"),
    ("fd00:ec2::254", "AWS"),
    ("fd00:ec2::23", "AWS, pods"),
    ("fd20:ce::254", "Google"),
    ("fd00:42::42", "Scaleway"),
    ("::ffff:169.254.169.254", "mapped"),
    ("::ffff:168.63.129.16", "mapped"),
    ("64:ff9b::a9fe:a9fe", "translated"),
    ("2002:a9fe:a9fe::", "by 6to4"),
)
NOWHERE = (
    ("0.0.0.0", "unspecified"),  # noqa: S104 - what is refused
    ("0.1.2.3", "this network"),
    ("169.254.7.7", "link-local"),
    ("192.0.2.1", "documentation"),
    ("198.51.100.1", "documentation"),
    ("203.0.113.1", "documentation"),
    ("192.88.99.1", "relays of 6to4"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::7f00:1", "127.0.0.1, IPv4-compatible"),
    ("::93.184.215.14", "IPv4-compatible"),
    ("::a9fe:a9fe", "169.254.169.254, IPv4-compatible"),
    ("::ffff:0:7f00:1", "127.0.0.1, IPv4-translated"),
    ("64:ff9b:1::a9fe:a9fe", "169.254.169.254 behind a network's own translation"),
    ("64:ff9b:1:a9fe:a9:fe00::", "169.254.169.254 there, embedded as RFC 6052 has it"),
    ("100::1", "discarded"),
    ("100:0:0:1::1", "dummy prefix"),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo"),
    ("2001:10::1", "ORCHID"),
    ("2001:20::1", "ORCHID"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation"),
    ("5f00::1", "segment routing"),
    ("4000::1", "not assigned"),
    ("e000::1", "not assigned"),
    ("fe80::1", "link-local"),
    ("ff02::1", "multicast"),
)

STAND_FOR_OTHERS = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_may_be_posted_to(address: str) -> None:
    assert refusal(ip_address(address), allow_private=False) is None


@pytest.mark.parametrize(("address", "what"), PRIVATE)
def test_what_is_private_is_refused_unless_the_channel_allows_it(address: str, what: str) -> None:
    said = refusal(ip_address(address), allow_private=False)
    assert said == "which is private: set allow_private for this channel where that is meant", what
    assert refusal(ip_address(address), allow_private=True) is None, what


@pytest.mark.parametrize(("address", "what"), METADATA)
def test_a_clouds_metadata_is_refused_whatever_the_channel_allows(address: str, what: str) -> None:
    for allowed in (False, True):
        said = refusal(ip_address(address), allow_private=allowed)
        assert said == "which is a cloud's metadata service: nothing is sent there", what


@pytest.mark.parametrize(("address", "what"), NOWHERE)
def test_what_is_no_place_for_a_notice_is_refused_whatever_the_channel_allows(
    address: str, what: str
) -> None:
    for allowed in (False, True):
        said = refusal(ip_address(address), allow_private=allowed)
        assert said == "which is no place for a notice: nothing is sent there", what


@given(st.ip_addresses())
def test_whatever_the_standard_library_calls_special_is_refused(address: IPv4Address | IPv6Address) -> None:
    special = (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )
    if special and not any(address in one for one in STAND_FOR_OTHERS):
        assert refusal(address, allow_private=False) is not None
