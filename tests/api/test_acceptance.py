"""What an input may be, checked before anything runs; above all files of declared Artifacts."""

from __future__ import annotations

from typing import Any

import pytest

from api.acceptance import Acceptance, check_group_id
from cards.targets import Target
from store.caller import Tenant
from store.settings import Settings
from tests.cards_registry.conftest import Registry, submission
from tests.cards_registry.conftest import registry as registry
from wyrd.cards import VerifierSpec
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import sha256_hex
from wyrd.wire.ids import uuid7
from wyrd.wire.refs import CardRef
from wyrd.wire.verification import ExecuteRequest

FILES = {"notes/letter.md": b"# Dear customer\n", "rows.csv": b"a,b\n1,2\n"}
SPEC = VerifierSpec.model_validate(
    {
        "inputs": {
            "letter": {"type": "media", "formats": ["markdown"], "max_bytes": 100},
            "ticket": {"type": "json", "schema": {"type": "object", "required": ["id"]}},
            "spans": {"type": "trace"},
        }
    }
)
TARGET = Target(
    CardRef(kind="Verifier", name="rule", version="1.0.0"),
    {},
    CardRef(kind="Agent", name="desk", version="1.0.0"),
    (),
    {},
)


async def accepted(registry: Registry, group_id: str | None = None, **inputs: Any) -> dict[str, Any]:
    asked = ExecuteRequest.model_validate(
        {"verifier_card_uid": uuid7(), "card_uid": uuid7(), "group_id": group_id, "inputs": inputs}
    )
    acceptance = Acceptance(Settings(max_file_bytes=1000), registry.database, registry.blobs)
    return await acceptance.accept(registry.caller, TARGET, SPEC, asked)


async def refusal(registry: Registry, **inputs: Any) -> WyrdError:
    with pytest.raises(WyrdError) as refused:
        await accepted(registry, **inputs)
    return refused.value


async def artifact(registry: Registry, files: dict[str, bytes] = FILES, *, upload: bool = True) -> CardRef:
    receipt = await registry.declare(submission("Artifact", "files", {"artifact_kind": "data"}, files=files))
    if upload:
        await registry.upload(receipt, files)
    return receipt.root


def of(ref: CardRef, path: str | None = None, **changed: Any) -> dict[str, Any]:
    given = {"kind": "artifact", "artifact": {**ref.document(), **changed}}
    return given if path is None else {**given, "path": path}


class TestArtifacts:
    async def test_a_file_of_an_artifact_is_pinned_by_its_digest(self, registry: Registry) -> None:
        ref = await artifact(registry)
        data = FILES["notes/letter.md"]
        found = await accepted(registry, letter=of(ref, "notes/letter.md"))
        assert found["letter"] == {
            "kind": "artifact",
            "artifact": ref.document(),
            "path": "notes/letter.md",
            "sha256": sha256_hex(data),
            "size_bytes": len(data),
            "format": "markdown",
            "filename": "letter.md",
        }

    async def test_the_path_may_be_left_out_only_where_there_is_one_file(self, registry: Registry) -> None:
        several = await refusal(registry, letter=of(await artifact(registry)))
        assert several.member is Code.VERIFICATION_400_INPUT_INVALID
        assert several.details["path"] == "inputs.letter"
        assert "notes/letter.md" in several.detail

    async def test_one_file_needs_no_path(self, registry: Registry) -> None:
        ref = await artifact(registry, {"letter.md": b"x"})
        assert (await accepted(registry, letter=of(ref)))["letter"]["path"] == "letter.md"

    async def test_what_is_not_there_is_refused_and_named(self, registry: Registry) -> None:
        ref = await artifact(registry)
        for given in (
            of(ref, "other.md"),
            of(ref, "notes/letter.md", version="2.0.0"),
            of(ref, "notes/letter.md", uid=uuid7()),
            of(ref, "notes/letter.md", kind="Prompt"),
        ):
            error = await refusal(registry, letter=given)
            assert (error.member, error.details["path"]) == (
                Code.VERIFICATION_400_INPUT_INVALID,
                "inputs.letter",
            )

    async def test_a_file_of_another_format_is_refused(self, registry: Registry) -> None:
        error = await refusal(registry, letter=of(await artifact(registry), "rows.csv"))
        assert error.detail == "inputs.letter takes markdown, not csv"

    async def test_the_slots_own_limit_holds_for_artifacts_too(self, registry: Registry) -> None:
        ref = await artifact(registry, {"letter.md": b"x" * 101})
        error = await refusal(registry, letter=of(ref))
        assert (error.member, error.details["limit"]) == (Code.VERIFICATION_413_INPUT_TOO_LARGE, 100)

    async def test_an_artifact_that_waits_for_its_files_is_not_ready(self, registry: Registry) -> None:
        ref = await artifact(registry, upload=False)
        error = await refusal(registry, letter=of(ref, "notes/letter.md"))
        assert error.member is Code.VERIFICATION_409_VERIFIER_NOT_READY

    async def test_a_deleted_artifact_is_gone(self, registry: Registry) -> None:
        ref = await artifact(registry)
        assert await registry.delete(ref.uid)
        error = await refusal(registry, letter=of(ref, "notes/letter.md"))
        assert error.member is Code.VERIFICATION_400_INPUT_INVALID

    async def test_another_tenants_artifact_does_not_exist(
        self, registry: Registry, other_tenant: Tenant
    ) -> None:
        ref = await artifact(registry)
        error = await refusal(registry.of(other_tenant), letter=of(ref, "notes/letter.md"))
        assert error.member is Code.VERIFICATION_400_INPUT_INVALID

    async def test_a_bound_caller_reaches_artifacts_of_its_graph_alone(self, registry: Registry) -> None:
        ref = await artifact(registry)
        other = await registry.declare(submission("Prompt", "lone", prompt()))
        error = await refusal(registry.bound_to(other.root.uid), letter=of(ref, "notes/letter.md"))
        assert error.member is Code.PERMISSION_403_DENIED_RBAC
        assert await accepted(registry.bound_to(ref.uid), letter=of(ref, "notes/letter.md"))


def prompt() -> dict[str, Any]:
    return {"provider": "openai", "model": "m", "messages": [{"role": "user", "content": "hello"}]}


class TestFilesAndValues:
    @pytest.mark.parametrize(
        ("slot", "given"),
        [
            ("unknown", {"kind": "json", "value": 1}),
            ("ticket", {"kind": "trace", "trace_id": "a" * 32}),
            ("letter", {"kind": "json", "value": "text"}),
            ("spans", {"kind": "trace", "trace_id": "0" * 32}),
            ("spans", {"kind": "trace", "trace_id": "A" * 32}),
            ("spans", {"kind": "trace", "trace_id": "a" * 32 + "\n"}),
            ("ticket", {"kind": "json", "value": {"no": "id"}}),
            ("ticket", {"kind": "json", "value": [0] * 10_000}),
            ("letter", {"kind": "file", "sha256": "0" * 64, "size_bytes": 5, "format": "pdf"}),
            ("letter", {"kind": "file", "sha256": "0" * 64, "size_bytes": 5, "format": "md"}),
        ],
    )
    async def test_what_does_not_fit_its_slot_is_refused_by_name(
        self, registry: Registry, slot: str, given: dict[str, Any]
    ) -> None:
        error = await refusal(registry, **{slot: given})
        assert error.member is Code.VERIFICATION_400_INPUT_INVALID
        assert error.details["path"] == f"inputs.{slot}"
        assert error.details["reason"]

    async def test_a_stored_file_is_taken_under_its_canonical_format(self, registry: Registry) -> None:
        sha256 = await registry.blobs.put(registry.caller.tenant, b"text")
        given = {"kind": "file", "sha256": sha256, "size_bytes": 4, "format": "md"}
        assert (await accepted(registry, letter=given))["letter"]["format"] == "markdown"
        wrong = await refusal(registry, letter={**given, "size_bytes": 5})
        assert wrong.member is Code.VERIFICATION_400_INPUT_INVALID, "another size is another file"

    async def test_another_tenants_file_is_not_stored_here(
        self, registry: Registry, other_tenant: Tenant
    ) -> None:
        sha256 = await registry.blobs.put(other_tenant, b"text")
        given = {"kind": "file", "sha256": sha256, "size_bytes": 4, "format": "md"}
        assert (await refusal(registry, letter=given)).member is Code.VERIFICATION_400_INPUT_INVALID

    async def test_no_inputs_at_all_are_accepted(self, registry: Registry) -> None:
        assert await accepted(registry) == {}

    async def test_more_slots_than_a_verifier_may_have_are_too_large(self, registry: Registry) -> None:
        many = {f"s{number}": {"kind": "json", "value": 1} for number in range(65)}
        assert (await refusal(registry, **many)).member is Code.VERIFICATION_413_INPUT_TOO_LARGE


@pytest.mark.parametrize("group_id", ["g", "ü" * 128, "conversation:42/é", "x" * 256])
def test_group_ids_of_visible_characters_are_taken(group_id: str) -> None:
    check_group_id(group_id)


@pytest.mark.parametrize(
    "group_id", ["ü" * 129, "a b", "a\u00a0b", "a\0", "a\n", "\u2028", "\u200b", "x" * 257]
)
def test_group_ids_with_white_space_or_control_characters_or_too_long_are_refused(group_id: str) -> None:
    with pytest.raises(WyrdError) as refused:
        check_group_id(group_id)
    assert refused.value.details["path"] == "group_id"
