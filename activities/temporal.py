"""The connection to Temporal, and the workers of a process."""

from __future__ import annotations

import base64
import dataclasses
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.dispatch.courier import Courier
from activities.dispatch.delivery import DispatchActivities
from store.database import Database
from store.sealing import Sealer
from store.settings import Settings
from workflows import contracts
from workflows.baseline import BaselineWorkflow
from workflows.dispatch import DispatchWorkflow
from workflows.group import GroupWorkflow
from workflows.verification import VerificationWorkflow
from workflows.window import ScheduledWindowWorkflow
from wyrd.errors import Code, WyrdError

_PASSED_THROUGH = (
    "wyrd",
    "engine",
    "workflows.calls",
    "workflows.contracts",
    "workflows.runner",
    "pydantic",
    "pydantic_core",
    "annotated_types",
)
WORKFLOWS = (
    VerificationWorkflow,
    DispatchWorkflow,
    GroupWorkflow,
    ScheduledWindowWorkflow,
    BaselineWorkflow,
)
"""Every workflow there is."""
_GRACE = timedelta(seconds=5)
_KEY_BYTES = 32
_ENCODING = b"binary/wyrd-aes-256-gcm"


class EncryptingCodec(PayloadCodec):
    """AES-256-GCM over every payload that reaches the Temporal server."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._sealed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._opened(payload) for payload in payloads]

    def _sealed(self, payload: Payload) -> Payload:
        nonce = os.urandom(12)
        data = nonce + self._cipher.encrypt(nonce, payload.SerializeToString(), _ENCODING)
        return Payload(metadata={"encoding": _ENCODING}, data=data)

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != _ENCODING:
            return payload
        try:
            plain = self._cipher.decrypt(payload.data[:12], payload.data[12:], _ENCODING)
        except InvalidTag:
            raise ValueError("a payload was sealed with another key") from None
        return Payload.FromString(plain)


def data_converter(settings: Settings) -> DataConverter:
    """Pydantic models as JSON; encrypted where `payload_key` is set.

    Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for a key that is not 32 bytes in base64.
    """
    if settings.payload_key is None:
        return pydantic_data_converter
    try:
        key = base64.b64decode(settings.payload_key.get_secret_value(), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise WyrdError(
            Code.CFG_400_SCHEMA_MISMATCH, "payload_key must be 32 bytes in base64", field="payload_key"
        )
    return dataclasses.replace(pydantic_data_converter, payload_codec=EncryptingCodec(key))


async def connect(settings: Settings, *, lazy: bool = False) -> Client:
    """A client of the configured namespace."""
    key = settings.temporal_api_key
    return await Client.connect(
        settings.temporal_address,
        namespace=settings.temporal_namespace,
        api_key=None if key is None else key.get_secret_value(),
        tls=settings.temporal_tls,
        data_converter=data_converter(settings),
        lazy=lazy,
    )


async def ensure_search_attributes(client: Client) -> None:
    """Add the search attributes that the namespace lacks; what others added at the same time is fine."""
    known = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    missing = {
        attribute.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        for attribute in contracts.SEARCH_ATTRIBUTES
        if attribute.name not in known.custom_attributes
    }
    if not missing:
        return
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise


def workflow_runner() -> SandboxedWorkflowRunner:
    """The workflow sandbox, with the pure modules passed through (loading them again costs seconds)."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*_PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def quick_worker(client: Client, activities: Sequence[Callable[..., Any]]) -> Worker:
    """The worker of the `wyrd` queue: workflows, and the activities that take milliseconds."""
    return Worker(
        client,
        task_queue=contracts.QUEUE,
        workflows=list(WORKFLOWS),
        activities=list(activities),
        workflow_runner=workflow_runner(),
        max_cached_workflows=2000,
        # More at once would be no faster, but each slower than its time-out when thousands are due.
        max_concurrent_workflow_tasks=40,
        max_concurrent_local_activities=100,
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=_GRACE,
    )


def block_workers(
    client: Client, activities: Sequence[Callable[..., Any]], settings: Settings
) -> list[Worker]:
    """One worker for each queue of slow blocks, so that none of them starves another kind."""
    cores = os.cpu_count() or 1
    slots = {
        contracts.QUEUE_AGENT: settings.agent_slots,
        contracts.QUEUE_SANDBOX: settings.sandbox_workers or cores,
        contracts.QUEUE_EXTRACT: settings.extract_workers,
    }
    return [
        Worker(
            client,
            task_queue=name,
            activities=list(activities),
            max_concurrent_activities=count,
            max_heartbeat_throttle_interval=timedelta(seconds=1),
            default_heartbeat_throttle_interval=timedelta(seconds=1),
            graceful_shutdown_timeout=_GRACE,
        )
        for name, count in slots.items()
    ]


def notify_worker(client: Client, database: Database, settings: Settings) -> Worker:
    """The worker of the queue of deliveries.

    Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for a `connection_key` or `operator_destinations` that says
    nothing usable.
    """
    delivering = DispatchActivities(database, Sealer.of(settings), Courier(settings))
    return Worker(
        client,
        task_queue=contracts.QUEUE_NOTIFY,
        activities=delivering.deliveries,
        max_concurrent_activities=settings.notify_slots,
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=_GRACE,
    )
