"""Where Operators may deliver to: every address of a name is looked at, in every spelling."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from activities.dispatch.screening import Destinations, Undeliverable
from store.dispatches import DispatchFault
from wyrd.errors import Code, WyrdError

PUBLIC_ONLY = Destinations.allowing(())

REFUSED = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1"),
    *("169.254.169.254", "100.100.100.200", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1"),
    *("255.255.255.255", "240.0.0.1"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
]
ALLOWED = ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", REFUSED)
async def test_p21_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(Undeliverable) as caught:
        await PUBLIC_ONLY.screened(address, 443)
    assert caught.value.code is DispatchFault.DESTINATION_REJECTED


@pytest.mark.parametrize("address", ALLOWED)
async def test_a_public_address_is_connected_to_as_it_is(address: str) -> None:
    assert await PUBLIC_ONLY.screened(address, 443) == [address]


@pytest.mark.parametrize(
    "spelling", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "LOCALHOST"]
)
async def test_no_spelling_of_loopback_passes(spelling: str) -> None:
    with pytest.raises(Undeliverable) as caught:
        await PUBLIC_ONLY.screened(spelling, 80)
    assert caught.value.code is DispatchFault.DESTINATION_REJECTED


def answering(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def look_up(_host: Any, port: Any, *_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


async def test_one_private_address_among_public_ones_refuses_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, "93.184.216.34", "169.254.169.254")
    with pytest.raises(Undeliverable) as caught:
        await PUBLIC_ONLY.screened("hooks.example", 443)
    assert caught.value.code is DispatchFault.DESTINATION_REJECTED
    assert "169.254" not in caught.value.message


async def test_the_configuration_allows_networks_addresses_and_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "10.1.2.3")
    for allowed in ("10.0.0.0/8", "10.1.2.3", "Hooks.Internal", "10.1.2.3/8"):
        assert await Destinations.allowing([allowed]).screened("hooks.internal", 443) == ["10.1.2.3"]
    for allowed in ("10.2.0.0/16", "10.1.2.4", "internal", "192.168.0.0/16"):
        with pytest.raises(Undeliverable):
            await Destinations.allowing([allowed]).screened("hooks.internal", 443)


async def test_an_allowed_network_reaches_its_mapped_addresses_too() -> None:
    assert await Destinations.allowing(["127.0.0.0/8"]).screened("::ffff:127.0.0.1", 80)


async def test_a_name_without_an_address_may_have_one_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(Undeliverable) as caught:
        await PUBLIC_ONLY.screened("nowhere.example", 443)
    assert caught.value.code is DispatchFault.DESTINATION_UNREACHABLE


async def test_what_is_no_host_name_is_a_fault_of_the_request() -> None:
    with pytest.raises(Undeliverable) as caught:
        await PUBLIC_ONLY.screened(f"{'x' * 64}.example", 443)
    assert caught.value.code is DispatchFault.INVALID_REQUEST


@pytest.mark.parametrize("item", ["10.0.0.0/40", "10.0.0/x", "http://host", ":1", "host:80"])
def test_an_item_that_allows_nothing_stops_the_start(item: str) -> None:
    with pytest.raises(WyrdError) as caught:
        Destinations.allowing([item])
    assert caught.value.member is Code.CFG_400_SCHEMA_MISMATCH
