"""Zeroconf (DNS-SD) announcement of the Wyoming port, so that Home Assistant discovers it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket

from runtime.errors import InvalidSetting

log = logging.getLogger(__name__)

SERVICE = "_wyoming._tcp.local."
SETTING = "VOICEWRIGHT_WYOMING_ANNOUNCED"


def check_announcement_support() -> None:
    """Check that the optional package `zeroconf` is installed.

    Raises:
        InvalidSetting: The package is not installed.
    """
    try:
        import zeroconf  # noqa: F401
    except ImportError:
        why = "it needs the extra zeroconf: pip install ./clients/python '.[zeroconf]'"
        raise InvalidSetting(name=SETTING, value="yes", why=why) from None


async def announce_port(bound: str, port: int) -> None:
    """Announce the Wyoming port until the task is cancelled, then withdraw the announcement.

    Network errors are logged.

    Args:
        bound: Address of the port. For a wildcard address, all addresses of this machine are announced.
    """
    from zeroconf import Error, InterfaceChoice, IPVersion
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    is_everywhere = ipaddress.ip_address(bound).is_unspecified
    machine = socket.gethostname().partition(".")[0][:40]
    info = AsyncServiceInfo(
        SERVICE,
        f"Voicewright {machine} {port}.{SERVICE}",
        parsed_addresses=_addresses() if is_everywhere else [bound],
        port=port,
        server=f"voicewright-{machine}.local.",
    )
    try:
        network = AsyncZeroconf(
            interfaces=InterfaceChoice.All if is_everywhere else [bound],
            ip_version=IPVersion.V6Only if ":" in bound and not is_everywhere else IPVersion.V4Only,
        )
    except OSError as error:
        log.warning("the Wyoming port is not announced: %s", error.strerror)
        return
    try:
        # When a runtime is replaced, the old and the new process announce the same name for a short time.
        await (await network.async_register_service(info, cooperating_responders=True))
        await asyncio.Event().wait()
    except (OSError, Error):
        log.exception("the Wyoming port is not announced")
    finally:
        await network.async_unregister_all_services()
        await network.async_close()


def _addresses() -> list[str]:
    """Return the addresses of this machine that other machines can reach."""
    import ifaddr  # The package zeroconf depends on this package.

    found = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if isinstance(ip.ip, str)]
    return [address for address in found if not ipaddress.ip_address(address).is_loopback] or found
