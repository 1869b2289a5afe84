"""What runs blocks in one process: the sandbox, the gateway to models, and the block runner over both."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from activities.blocks import BlockRunner
from activities.drift.checks import DriftBlocks
from activities.sandbox import Sandbox
from gateway.deployments import GatewayConfig
from gateway.gateway import Gateway
from store.blobs import BlobStore
from store.settings import Settings

_log = logging.getLogger("wyrd.worker")


@dataclass(frozen=True)
class Workshop:
    sandbox: Sandbox
    gateway: Gateway
    runner: BlockRunner

    async def close(self) -> None:
        self.runner.close()
        await self.sandbox.close()
        await self.gateway.aclose()


def gateway_config(settings: Settings) -> GatewayConfig:
    """The configured deployments; none where no file says any.

    Raises `WYRD_GATEWAY_400_INVALID_CONFIGURATION` naming the field.
    """
    path = settings.gateway_config
    if path is None:
        path = settings.home / "gateway.yaml"
        if not path.exists():
            return GatewayConfig()
    return GatewayConfig.load(path)


async def open_workshop(
    settings: Settings,
    blobs: BlobStore,
    environ: Mapping[str, str] | None = None,
    drift: DriftBlocks | None = None,
) -> Workshop:
    """Start the sandbox, its self-test included, and prepare the gateway. Says in the log when code
    cannot run here. `drift` judges drift checks, where this process is to run them."""
    gateway = Gateway(gateway_config(settings), os.environ if environ is None else environ)
    sandbox = await Sandbox.start(workers=settings.sandbox_workers)
    if sandbox.engine == "none":
        _log.error("code blocks will be inconclusive: %s", sandbox.unavailable)
    elif sandbox.engine != "bubblewrap":
        _log.warning("code runs in %s: slower, because user namespaces are off here", sandbox.engine)
    return Workshop(sandbox, gateway, BlockRunner(blobs, sandbox, gateway, drift))


class LazyWorkshop:
    """A workshop that opens when first needed: most verifies need neither code nor models."""

    def __init__(self, settings: Settings, blobs: BlobStore) -> None:
        self._settings = settings
        self._blobs = blobs
        self._opening: asyncio.Task[Workshop] | None = None

    def begin(self) -> asyncio.Task[Workshop]:
        """Open it in the background, once."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(open_workshop(self._settings, self._blobs))
        return self._opening

    async def get(self) -> Workshop:
        return await asyncio.shield(self.begin())

    async def close(self) -> None:
        if self._opening is None:
            return
        self._opening.cancel()
        try:
            await (await self._opening).close()
        except (asyncio.CancelledError, Exception):
            _log.debug("the workshop was not open yet")
