"""Where Operators may deliver to: public addresses, and what the configuration allows besides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from store.dispatches import DispatchFault
from wyrd.errors import Code, WyrdError

Address = IPv4Address | IPv6Address

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Of translators: the last 32 bits are the IPv4 address that is reached."""
_TRANSLATED_LOCALLY = IPv6Network("64:ff9b:1::/48")


class Undeliverable(Exception):
    """An attempt that made no request; `code` says of which kind."""

    def __init__(self, code: DispatchFault, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Destinations:
    """The screen. `hosts` are names in lower case."""

    hosts: frozenset[str]
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def allowing(cls, listed: Sequence[str]) -> Destinations:
        """Public addresses, and those hosts, addresses and networks.

        Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for an item that is none of them.
        """
        hosts, networks = set(), []
        for item in listed:
            try:
                networks.append(ip_network(item, strict=False))
            except ValueError:
                if "/" in item or ":" in item or not item:
                    raise WyrdError(
                        Code.CFG_400_SCHEMA_MISMATCH,
                        f"{item[:100]!r} is neither a host nor an address nor a network",
                        field="operator_destinations",
                    ) from None
                hosts.add(item.lower().rstrip("."))
        return cls(frozenset(hosts), tuple(networks))

    def names(self, host: str) -> bool:
        """Whether the configuration allows that host, by its name or as the address that it is."""
        try:
            return any(ip_address(host) in network for network in self.networks)
        except ValueError:
            return host.lower().rstrip(".") in self.hosts

    async def screened(self, host: str, port: int) -> list[str]:
        """The addresses of a host, every one of them fit to be connected to.

        Raises `Undeliverable`: destination_rejected where one of them is not, destination_unreachable
        where the host has none, invalid_request for what is no host name.
        """
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror:
            message = f"the name {host[:200]} has no address"
            raise Undeliverable(DispatchFault.DESTINATION_UNREACHABLE, message) from None
        except (UnicodeError, ValueError):
            message = f"{host[:200]} is not a host name"
            raise Undeliverable(DispatchFault.INVALID_REQUEST, message) from None
        # In the system's order of preference, and each once.
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if host.lower().rstrip(".") not in self.hosts:
            for address in addresses:
                if not self._fit(address):
                    message = f"{host[:200]} leads to an address that is not public and not allowed"
                    raise Undeliverable(DispatchFault.DESTINATION_REJECTED, message)
        return addresses

    def _fit(self, text: str) -> bool:
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return False
        meant = list(_meant(address))
        if any(one in network for one in meant for network in self.networks):
            return True
        return all(_public(one) for one in meant)


def _meant(address: Address) -> Iterator[Address]:
    """The address, and every IPv4 address that it stands for."""
    yield address
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _TRANSLATED or int(address) >> 32 == 0:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)


def _public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address in _TRANSLATED:
            # What counts is the IPv4 address that it stands for.
            return True
        if address.is_site_local or address in _TRANSLATED_LOCALLY:
            return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )
