"""Which addresses nothing is posted to, as a table of ranges.

Private ones are refused unless the channel allows them; metadata services of clouds, and what is no place for
a notice, always. An address that stands for an IPv4 address is judged as that one. The table does not lean on
what a version of the standard library calls global.
Sources: the IANA registries of special-purpose addresses, and the clouds' documentation.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

METADATA = (
    "100.100.100.200/32",  # Alibaba
    "168.63.129.16/32",  # Azure
    "169.254.169.254/32",  # most clouds
    "169.254.170.0/24",  # AWS, containers and pods
    "192.0.0.192/32",  # Oracle
    "fd00:42::42/128",  # Scaleway
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google
)
NOWHERE = (
    "0.0.0.0/8",  # this network
    "169.254.0.0/16",  # link-local
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # relays of 6to4
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
    "2001::/32",  # Teredo, which hides an IPv4 address
    "2001:10::/28",  # ORCHID, which are names and lead nowhere
    "2001:20::/28",  # ORCHID
    "2001:db8::/32",  # documentation
    "3fff::/20",  # documentation
)
PRIVATE = (
    "10.0.0.0/8",
    "100.64.0.0/10",  # between a provider and its customers
    "127.0.0.0/8",  # loopback
    "172.16.0.0/12",
    "192.0.0.0/24",  # assignments to protocols
    "192.168.0.0/16",
    "198.18.0.0/15",  # benchmarks
    "::1/128",  # loopback
    "2001::/23",  # assignments to protocols, and benchmarks
    "fc00::/7",  # unique local
    "fec0::/10",  # site-local, which unique local took the place of
)
_TRANSLATED, _UNICAST = IPv6Network("64:ff9b::/96"), IPv6Network("2000::/3")


class _Ranges:
    def __init__(self, networks: tuple[str, ...]) -> None:
        self._four = tuple(IPv4Network(one) for one in networks if "." in one)
        self._six = tuple(IPv6Network(one) for one in networks if "." not in one)

    def __contains__(self, address: Address) -> bool:
        if isinstance(address, IPv4Address):
            return any(address in one for one in self._four)
        return any(address in one for one in self._six)


_metadata, _nowhere, _private = _Ranges(METADATA), _Ranges(NOWHERE), _Ranges(PRIVATE)


def refusal(address: Address, *, allow_private: bool) -> str | None:
    """Why nothing is posted to an address; None when it may be."""
    address = _inner(address)
    if address in _metadata:
        return "which is a cloud's metadata service: nothing is sent there"
    if address in _nowhere:
        return "which is no place for a notice: nothing is sent there"
    if address in _private:
        said = "which is private: set allow_private for this channel where that is meant"
        return None if allow_private else said
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        # Among them what hides an IPv4 address: ::a.b.c.d, ::ffff:0:a.b.c.d, and 64:ff9b:1::/48, in which
        # each network has its own place for it.
        return "which is no place for a notice: nothing is sent there"
    return None


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where that can be told."""
    if isinstance(address, IPv4Address):
        return address
    translated = IPv4Address(int(address) & 0xFFFF_FFFF) if address in _TRANSLATED else None
    return address.ipv4_mapped or address.sixtofour or translated or address
