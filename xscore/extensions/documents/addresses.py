"""Which addresses of the network a document may come from: public ones alone.

Every connection is checked where its socket is made, after the name was resolved and for the very
address that is about to be called, so neither a redirect nor a name that answers differently the
second time leads inside. Pure. Trade-off: an address that only translates to a public one (NAT64,
6to4, Teredo, IPv4 within IPv6) is refused as well.
"""

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

_TRANSLATING = tuple(
    ip_network(network)
    for network in (
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
    )
)
"""Networks of IPv6 whose addresses contain one of IPv4."""
_NEVER = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        "fd00:ec2::254/128",
    )
)
"""Networks that no setting opens: this host, the link, multicast, and where clouds keep
credentials."""
_GLOBAL_UNICAST = ip_network("2000::/3")
"""The part of IPv6 that has been assigned; the standard library takes the rest for public."""
_NOT_PUBLIC = tuple(
    ip_network(network) for network in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")
)
"""Networks of protocols and of documentation, which the standard library takes for public as
well."""
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def why_refused(text: str, *, may_be_private: bool) -> str:
    """Return why nothing may be fetched from an address; empty if it may.

    may_be_private: the user named the host as one inside their own network.
    """
    try:
        # The zone of an address (`fe80::1%eth0`) says nothing about what it is.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text} is not an IP address"
    inner = _inner_address(address)
    if _is_within(inner, _NEVER) or inner.is_unspecified or inner.is_multicast:
        return f"{address} is link-local, multicast or unspecified"
    if may_be_private:
        return ""
    if _is_within(address, _TRANSLATING):
        return f"{address} only translates to another address"
    if not _is_public(address):
        return f"{address} is not public"
    return ""


def _inner_address(address: Address) -> Address:
    """Return the address of IPv4 that is called by one of IPv6, or the address itself."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_public(address: Address) -> bool:
    if not address.is_global or _is_within(address, _NOT_PUBLIC):
        return False
    return address.version == 4 or address in _GLOBAL_UNICAST


def _is_within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(
        address.version == network.version and address in network for network in networks
    )
