"""Declaring Cards: what is stored, under which version, all of it or none.

The transaction of one declaration. Whether the Cards are well-formed and fit together is decided
before, by the Card language (`wyrd.cards`) and `cards.submissions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from cards.baselines import begin_baselines
from cards.bindings import bindings_of
from cards.connections import require_connections
from cards.receipts import Declared, Receipt, earlier_receipt, remember_receipt
from cards.references import Identity, identity_of, named_by, normal_form
from cards.submissions import Declaration, DeclaredFile, Incoming
from cards.versions import Bump, Scope, Version, next_version
from store.baselines import Baselines
from store.bindings import Bindings
from store.caller import Caller, Permission
from store.card_artifacts import CardArtifacts, StoredArtifact
from store.cards import Cards, StoredCard, stored_json
from store.connections import Connections
from store.database import database_now
from wyrd.cards import Metadata, PromptSpec
from wyrd.cards.agent import AgentSpec
from wyrd.cards.card_ref import Sibling
from wyrd.cards.links import LinkAt, rewrite_links
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import canonical_json, digest
from wyrd.wire.cards import DeclareOutcome
from wyrd.wire.ids import uuid7

_LONGEST_NAME = 64
_PROMPT_SUFFIX = "-prompt"


def declare(
    connection: Connection, caller: Caller, declaration: Declaration, key: str, body_digest: str
) -> Receipt:
    """Store what is new of a declaration and answer its receipt. One transaction: all of it or none.

    Errors: `WYRD_PERMISSION_403_DENIED_RBAC`, `WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT`,
    `WYRD_REGISTRY_409_SPEC_DRIFT`, `WYRD_SPEC_409_CONFLICT` (the version was deleted),
    `WYRD_REGISTRY_422_UNRESOLVED_DEPENDENCY`,
    `WYRD_REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE`,
    `WYRD_REGISTRY_400_INVALID_VERSION_BLOCK`,
    `WYRD_SPEC_400_OPERATOR_CONNECTION_UNAVAILABLE`.
    """
    caller.require(Permission.CARDS_WRITE)
    Cards(connection, caller.tenant).lock()
    earlier = earlier_receipt(connection, caller, key, body_digest)
    if earlier is not None:
        return earlier
    return _Declaring(connection, caller, declaration).run(key, body_digest)


class _Declaring:
    """One declaration on its way into the database."""

    def __init__(self, connection: Connection, caller: Caller, declaration: Declaration) -> None:
        self.cards = Cards(connection, caller.tenant)
        self.artifacts = CardArtifacts(connection, caller.tenant)
        self.baselines = Baselines(connection, caller.tenant)
        self.bindings = Bindings(connection, caller.tenant)
        self.connections = Connections(connection, caller.tenant)
        self.declaration = declaration
        self.now: datetime = database_now(connection)
        self.resolved: dict[Identity, StoredCard] = {}
        self.outcomes: list[Declared] = []

    def run(self, key: str, body_digest: str) -> Receipt:
        root: StoredCard | None = None
        for incoming in self.declaration.cards:
            card = self._store(incoming)
            if incoming is self.declaration.root:
                root = card
        assert root is not None
        receipt = Receipt(root, tuple(self.outcomes))
        remember_receipt(self.cards, key, body_digest, receipt, self.now)
        return receipt

    def _store(self, incoming: Incoming) -> StoredCard:
        refs: dict[tuple[str, str | None], None] = {}

        def exact(link: LinkAt) -> dict[str, Any]:
            target = self._exact(incoming, link)
            refs[target.uid, link.alias] = None
            return target.ref.document()

        document = rewrite_links(incoming.spec, normal_form(incoming.spec), exact)
        if isinstance(incoming.spec, AgentSpec) and isinstance(incoming.spec.prompt, PromptSpec):
            prompt = self._hoisted(incoming, incoming.spec.prompt, document["prompt"])
            document["prompt"] = prompt.ref.document()
            refs[prompt.uid, None] = None
        existing, version = self._placed(incoming, document)
        if existing is None:
            card = self._insert(incoming, version, document, refs)
            return self._done(card, DeclareOutcome.DECLARED)
        if incoming.version is None:
            return self._done(existing, DeclareOutcome.DEDUPLICATED)
        return self._done(existing, DeclareOutcome.IDEMPOTENT_NOOP)

    def _hoisted(self, agent: Incoming, spec: PromptSpec, document: dict[str, Any]) -> StoredCard:
        """The Prompt Card that an Agent's inline prompt becomes: `<agent>-prompt` in its space.

        The oldest version with that content is taken again, so that an unchanged Agent stays
        unchanged. A new one gets the Agent's own version where that is free, else the next.
        """
        name = agent.name[: _LONGEST_NAME - len(_PROMPT_SUFFIX)] + _PROMPT_SUFFIX
        every = self.cards.versions("Prompt", agent.space, name)
        spec_hash = digest(document)
        same = [card for card in every if card.spec_hash == spec_hash and card.status == "active"]
        if same:
            return self._done(min(same, key=lambda card: card.uid), DeclareOutcome.DEDUPLICATED)
        taken = {_version_of(card) for card in every} | {
            other.version
            for other in self.declaration.cards
            if (other.kind, other.space, other.name) == ("Prompt", agent.space, name) and other.version
        }
        version = agent.version
        if version is None or version in taken:
            highest = max(taken, key=lambda one: one.precedence, default=None)
            version = next_version(Bump(), Scope(), highest)
        prompt = Incoming(
            "Prompt", Metadata(name=name, space=agent.space), spec, (), version, Scope(), Bump()
        )
        return self._done(self._insert(prompt, version, document, {}), DeclareOutcome.DECLARED)

    def _done(self, card: StoredCard, outcome: DeclareOutcome) -> StoredCard:
        self.resolved[identity_of(card.ref)] = card
        if all(one.card.uid != card.uid for one in self.outcomes):
            self.outcomes.append(Declared(card, outcome))
        return card

    def _exact(self, incoming: Incoming, link: LinkAt) -> StoredCard:
        """The Card that a link of a submission names."""
        named = named_by(link)
        found = self.resolved.get(identity_of(named)) or self.cards.by_identity(*identity_of(named))
        if found is None or found.status == "deleted":
            sibling = " in this declaration or" if isinstance(link.value, Sibling) else ""
            raise WyrdError(
                Code.REGISTRY_422_UNRESOLVED_DEPENDENCY,
                f"{incoming.label} names {named.pinned}, which is not{sibling} in the registry",
                card=incoming.label,
                field=link.field,
                target=named.pinned,
            )
        if named.uid is not None and named.uid.lower() != found.uid:
            raise WyrdError(
                Code.REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE,
                f"{incoming.label} names {named.pinned} by the uid of another Card",
                card=incoming.label,
                field=link.field,
                target=str(named),
            )
        return found

    def _placed(self, incoming: Incoming, document: dict[str, Any]) -> tuple[StoredCard | None, Version]:
        """The stored version that this is, or the version it will get."""
        if incoming.version is not None:
            existing = self.cards.by_identity(*incoming.identity)
            if existing is not None:
                self._require_same(incoming, existing, document)
            self._require_uid(incoming, existing)
            return existing, incoming.version
        self._require_uid(incoming, None)
        every = self.cards.versions(incoming.kind, incoming.space, incoming.name)
        parsed = [(card, _version_of(card)) for card in every]
        in_scope = [(card, version) for card, version in parsed if incoming.scope.holds(version)]
        latest = next((card for card, _ in in_scope if _counts(card, incoming.bump)), None)
        if latest is not None and self._same(incoming, latest, document):
            return latest, _version_of(latest)
        version = next_version(incoming.bump, incoming.scope, in_scope[0][1] if in_scope else None)
        taken = next((card for card in every if card.version == str(version)), None)
        if taken is not None:
            raise _drift(incoming, taken, document)
        return None, version

    def _require_same(self, incoming: Incoming, existing: StoredCard, document: dict[str, Any]) -> None:
        if not self._same(incoming, existing, document):
            raise _drift(incoming, existing, document)
        if existing.status == "deleted":
            raise WyrdError(
                Code.SPEC_409_CONFLICT,
                f"{incoming.label} was deleted, which is for ever; declare a new version",
                card=incoming.label,
                card_uid=existing.uid,
            )

    def _same(self, incoming: Incoming, card: StoredCard, document: dict[str, Any]) -> bool:
        """Whether a stored version has this content: the spec and the files."""
        if card.spec_hash != digest(document):
            return False
        stored = {
            (file.relative_path, file.sha256, file.size_bytes) for file in self.artifacts.of_card(card.uid)
        }
        return stored == {(file.relative_path, file.sha256, file.size_bytes) for file in incoming.files}

    def _require_uid(self, incoming: Incoming, existing: StoredCard | None) -> None:
        """UIDs are the registry's to give: a submission may only repeat the one it was given."""
        given = incoming.metadata.uid
        if given is not None and (existing is None or given != existing.uid):
            raise WyrdError(
                Code.REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE,
                f"{incoming.label} carries a uid that is not its own",
                card=incoming.label,
                field="metadata.uid",
            )

    def _insert(
        self,
        incoming: Incoming,
        version: Version,
        document: dict[str, Any],
        refs: Iterable[tuple[str, str | None]],
    ) -> StoredCard:
        metadata = incoming.metadata
        card = StoredCard(
            uid=uuid7(),
            kind=incoming.kind,
            space=incoming.space,
            name=incoming.name,
            version=str(version),
            precedence=version.precedence,
            prerelease=bool(version.pre),
            spec=stored_json(document),
            spec_hash=digest(document),
            artifact_hash=_artifact_hash(metadata.artifact_hash, incoming.files),
            descriptive=stored_json(
                metadata.model_dump(
                    mode="json", include={"labels", "annotations", "origin"}, exclude_none=True
                )
            ),
            status="pending" if incoming.files else "active",
            created_at=self.now,
            updated_at=self.now,
        )
        self.cards.insert(card)
        self.cards.refer(card.uid, refs)
        self.artifacts.add(_upload(card.uid, file) for file in incoming.files)
        bound = bindings_of(self.cards, card, document, self.now)
        require_connections(self.connections, card, document, bound)
        self.bindings.add(bound)
        begin_baselines(self.baselines, card, document)
        return card


def _version_of(card: StoredCard) -> Version:
    version = Version.parse(card.version)
    assert version is not None, card.version
    return version


def _counts(card: StoredCard, bump: Bump) -> bool:
    """Whether a version can be the latest one that new content is compared with.

    A bump to a release looks at releases alone: content that so far is only in a pre-release is
    being promoted, not repeated.
    """
    return card.status in ("active", "pending") and (not card.prerelease or bump.part in ("pre", "pre_build"))


def _drift(incoming: Incoming, existing: StoredCard, document: dict[str, Any]) -> WyrdError:
    stored = existing.spec_document
    members = sorted({*stored, *document})
    changed = [name for name in members if _member(stored, name) != _member(document, name)]
    return WyrdError(
        Code.REGISTRY_409_SPEC_DRIFT,
        f"{existing.ref.pinned} is declared with other content; a change needs a new version"
        if changed
        else f"{existing.ref.pinned} is declared with other files: give the same ones, or a new version",
        card=incoming.label,
        card_uid=existing.uid,
        status=existing.status,
        changed=[f"spec.{name}" for name in changed] or ["artifacts"],
    )


def _member(document: dict[str, Any], name: str) -> bytes | None:
    return canonical_json(document[name]) if name in document else None


def _artifact_hash(given: str | None, files: tuple[DeclaredFile, ...]) -> str | None:
    """What the client says it is, else a digest over the inventory; none without files."""
    if not files:
        return None
    return given or digest([[file.relative_path, file.sha256, file.size_bytes] for file in files])


def _upload(card_uid: str, file: DeclaredFile) -> StoredArtifact:
    upload_id = "wyu_" + uuid7().replace("-", "")
    return StoredArtifact(
        card_uid, file.relative_path, upload_id, file.sha256, file.size_bytes, file.content_type, None
    )
