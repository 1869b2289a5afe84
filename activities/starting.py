"""Starting the workflow of an accepted execution: the one place that knows how."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError

from engine.shape import Shape
from store.caller import Tenant
from store.executions import workflow_id_of
from workflows import contracts
from workflows.contracts import Prepared, VerificationStart


@dataclass(frozen=True)
class Startable:
    """What a start needs to know. `verifier` and `subject` are names without a uid."""

    tenant: Tenant
    execution_id: str
    verifier: str
    subject: str
    timeout_seconds: float
    shape: Shape


def prepared_of(row: Any, shape: Shape) -> Prepared:
    """A recorded execution as a workflow is told to run it."""
    document, pages = _paged(shape)
    return Prepared(
        execution_id=row.execution_id,
        verifier=row.verifier,
        subject=row.subject,
        shape=document,
        pages=pages,
        timeout_seconds=row.timeout_seconds,
    )


async def start_verification(client: Client, execution: Startable, *, eager: bool = False) -> None:
    """Start it, once: a workflow that runs or has ended under the same id is success too."""
    document, pages = _paged(execution.shape)
    argument = VerificationStart(
        tenant_id=execution.tenant.id,
        tenant_slug=execution.tenant.slug,
        execution_id=execution.execution_id,
        shape=document,
        pages=pages,
        timeout_seconds=execution.timeout_seconds,
    )
    try:
        await client.start_workflow(
            contracts.VERIFICATION_WORKFLOW,
            argument,
            id=workflow_id_of(execution.tenant, execution.execution_id),
            task_queue=contracts.QUEUE,
            execution_timeout=timedelta(seconds=execution.timeout_seconds + contracts.BACKSTOP_SECONDS),
            task_timeout=contracts.TASK_TIMEOUT,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(contracts.TENANT, execution.tenant.slug),
                    SearchAttributePair(contracts.VERIFIER, execution.verifier),
                    SearchAttributePair(contracts.SUBJECT, execution.subject),
                ]
            ),
            static_summary=f"{execution.verifier} on {execution.subject}",
            priority=Priority(fairness_key=execution.tenant.slug),
            request_eager_start=eager,
            rpc_timeout=timedelta(seconds=10),
        )
    except WorkflowAlreadyStartedError:
        return


def _paged(shape: Shape) -> tuple[list[Any] | None, int]:
    """The shape's document where it fits into an argument; otherwise the number of its pages."""
    document = shape.document()
    text = json.dumps(document, separators=(",", ":"))
    if len(text) <= contracts.SHAPE_PAGE_CHARACTERS:
        return document, 0
    return None, -(-len(text) // contracts.SHAPE_PAGE_CHARACTERS)
