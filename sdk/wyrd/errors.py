"""Every error a user can see: one enum of codes, one exception.

A code reads `WYRD_<FAMILY>_<HTTP status>_<NAME>` and is part of the contract; titles and
remedies are ours. The API turns a `WyrdError` into an RFC 9457 problem document, the SDK
turns the document back into the same exception, the CLI prints it with its remedy.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast


class Code(Enum):
    """The catalogue. A member's value is its code; `title` and `remedy` go with it."""

    title: str
    remedy: str

    def __new__(cls, code: str, title: str, remedy: str) -> Code:
        member = object.__new__(cls)
        member._value_ = code
        member.title = title
        member.remedy = remedy
        return member

    VERIFICATION_400_INPUT_INVALID = (
        "WYRD_VERIFICATION_400_INPUT_INVALID",
        "An input does not fit its slot",
        "Correct the input that details.path names and send the request again.",
    )
    VERIFICATION_400_INVALID_TARGET = (
        "WYRD_VERIFICATION_400_INVALID_TARGET",
        "The UID names a Card of another kind",
        "Send the UID of a Verifier as verifier_card_uid and of its subject as card_uid.",
    )
    VERIFICATION_400_INVALID_WINDOW = (
        "WYRD_VERIFICATION_400_INVALID_WINDOW",
        "The window is not valid",
        "Give a span that begins before it ends, is over, and holds no more slots than one call takes.",
    )
    VERIFICATION_404_BINDING_NOT_FOUND = (
        "WYRD_VERIFICATION_404_BINDING_NOT_FOUND",
        "The Verifier is not bound to that subject",
        "Bind the Verifier under verified_by of the subject or its owner, and declare it again.",
    )
    VERIFICATION_404_EXECUTION_NOT_FOUND = (
        "WYRD_VERIFICATION_404_EXECUTION_NOT_FOUND",
        "No such execution",
        "Check the execution id; it may belong to another tenant.",
    )
    VERIFICATION_404_TARGET_NOT_FOUND = (
        "WYRD_VERIFICATION_404_TARGET_NOT_FOUND",
        "The Verifier or the subject does not exist",
        "Declare the Card, or check the UID you sent.",
    )
    VERIFICATION_409_BASELINE_NOT_READY = (
        "WYRD_VERIFICATION_409_BASELINE_NOT_READY",
        "The drift baseline is not ready",
        "Wait until the Verifier's baseline status says ready, or read why it failed.",
    )
    VERIFICATION_409_SNAPSHOT_INCOMPLETE = (
        "WYRD_VERIFICATION_409_SNAPSHOT_INCOMPLETE",
        "A group's evidence is not complete",
        "Look at the executions the message names; the group's next evidence schedules it again.",
    )
    VERIFICATION_409_VERIFIER_NOT_READY = (
        "WYRD_VERIFICATION_409_VERIFIER_NOT_READY",
        "An artifact the Verifier needs is still pending",
        "Finish the artifact upload, then try again.",
    )
    VERIFICATION_413_INPUT_TOO_LARGE = (
        "WYRD_VERIFICATION_413_INPUT_TOO_LARGE",
        "An input is too large",
        "Send less evidence, or raise the slot's max_bytes.",
    )
    VERIFICATION_422_INPUT_INCOMPATIBLE = (
        "WYRD_VERIFICATION_422_INPUT_INCOMPATIBLE",
        "The samples do not fit the slot",
        "Send the features the slot declares, as numbers or text.",
    )
    VERIFICATION_422_INPUT_UNSUPPORTED = (
        "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED",
        "This Verifier does not take inputs that way",
        "Submit samples instead of verifying them; group Verifiers run by themselves.",
    )
    VERIFICATION_429_STAGING_FULL = (
        "WYRD_VERIFICATION_429_STAGING_FULL",
        "Too many executions are waiting",
        "Wait and try again with the same idempotency key.",
    )
    VERIFICATION_502_DEPENDENCY_FAILED = (
        "WYRD_VERIFICATION_502_DEPENDENCY_FAILED",
        "Something the execution depends on failed",
        "Try again; if it persists, look at the server's log for the request id.",
    )
    VERIFICATION_504_EXECUTION_TIMED_OUT = (
        "WYRD_VERIFICATION_504_EXECUTION_TIMED_OUT",
        "The execution ran out of time",
        "Give the Verifier's blocks shorter timeouts, or submit it instead of verifying it.",
    )
    OPERATOR_400_INVALID_CONNECTION = (
        "WYRD_OPERATOR_400_INVALID_CONNECTION",
        "The operator connection is not valid",
        "Correct the member that details.field names.",
    )
    OPERATOR_404_CONNECTION_NOT_FOUND = (
        "WYRD_OPERATOR_404_CONNECTION_NOT_FOUND",
        "No such operator connection",
        "Create the connection, or check its name.",
    )
    OPERATOR_409_CONNECTION_CONFLICT = (
        "WYRD_OPERATOR_409_CONNECTION_CONFLICT",
        "An operator connection of that name exists",
        "Choose another name, or change the existing connection.",
    )
    OPERATOR_503_KEY_UNAVAILABLE = (
        "WYRD_OPERATOR_503_KEY_UNAVAILABLE",
        "The key that protects connections is missing",
        "Set the secret key in the server's configuration.",
    )
    SPEC_400_DUPLICATE_BINDING_OPERATOR = (
        "WYRD_SPEC_400_DUPLICATE_BINDING_OPERATOR",
        "One Operator is listed twice",
        "Remove the second mention of the Operator from that list.",
    )
    SPEC_400_DUPLICATE_SUBMISSION = (
        "WYRD_SPEC_400_DUPLICATE_SUBMISSION",
        "One Card is submitted twice",
        "Send each Card once in a declaration.",
    )
    SPEC_400_DUPLICATE_VERIFICATION_BINDING = (
        "WYRD_SPEC_400_DUPLICATE_VERIFICATION_BINDING",
        "One Verifier is bound twice in a list",
        "Remove the second binding of that Verifier from the list.",
    )
    SPEC_400_INVALID_BINDING_REF_KIND = (
        "WYRD_SPEC_400_INVALID_BINDING_REF_KIND",
        "A binding refers to a Card of the wrong kind",
        "Refer to a Trigger under runs_on, and to Operators in the lists.",
    )
    SPEC_400_INVALID_OPERATOR = (
        "WYRD_SPEC_400_INVALID_OPERATOR",
        "The Operator is not valid",
        "Use known template fields, an allowed URL and allowed header names.",
    )
    SPEC_400_INVALID_SERVICE_COMPONENT_KIND = (
        "WYRD_SPEC_400_INVALID_SERVICE_COMPONENT_KIND",
        "A component refers to a Card that cannot be one",
        "Point the component at an Agent, Prompt, Model, Data, Service or another component kind.",
    )
    SPEC_400_INVALID_VERIFIER_REF_KIND = (
        "WYRD_SPEC_400_INVALID_VERIFIER_REF_KIND",
        "A binding's verifier is not a Verifier",
        "Refer to a Verifier Card.",
    )
    SPEC_400_OPERATOR_CONNECTION_UNAVAILABLE = (
        "WYRD_SPEC_400_OPERATOR_CONNECTION_UNAVAILABLE",
        "The Operator's connection does not exist or is disabled",
        "Have an administrator create or enable the connection.",
    )
    SPEC_400_TRIGGER_ACTIVATION_MISMATCH = (
        "WYRD_SPEC_400_TRIGGER_ACTIVATION_MISMATCH",
        "The trigger does not fit the Verifier",
        "Use schedule with samples Verifiers and group_end with Verifiers that read source slots.",
    )
    SPEC_400_UNBOUND_VERIFIER_PEER = (
        "WYRD_SPEC_400_UNBOUND_VERIFIER_PEER",
        "A source slot names a Verifier that is not bound to the same owner",
        "Bind the named Verifier to the same owner.",
    )
    SPEC_400_VALIDATION = (
        "WYRD_SPEC_400_VALIDATION",
        "A value breaks a rule",
        "Correct what details.field or the diagnostics name.",
    )
    SPEC_404_NOT_FOUND = ("WYRD_SPEC_404_NOT_FOUND", "Not found", "Check the address and the ids in it.")
    SPEC_409_CONFLICT = (
        "WYRD_SPEC_409_CONFLICT",
        "The request conflicts with what is stored",
        "Read the current state, then try again.",
    )
    SPEC_413_PAYLOAD_TOO_LARGE = (
        "WYRD_SPEC_413_PAYLOAD_TOO_LARGE",
        "The request body is too large",
        "Send large evidence as files instead of inline values.",
    )
    SPEC_500_INTERNAL = (
        "WYRD_SPEC_500_INTERNAL",
        "The server failed",
        "Try again; if it persists, report the request id.",
    )
    SPEC_502_UPSTREAM_FAILURE = (
        "WYRD_SPEC_502_UPSTREAM_FAILURE",
        "The server answered something unexpected",
        "Check that the address is a Wyrd server of a supported version.",
    )
    SPEC_504_TIMEOUT = ("WYRD_SPEC_504_TIMEOUT", "The request took too long", "Try again, or ask for less.")
    DRIFT_400_PROFILE_REQUIRED = (
        "WYRD_DRIFT_400_PROFILE_REQUIRED",
        "The drift check has no profile",
        "Add a profile of the check's method.",
    )
    DRIFT_400_SIGNAL_METHOD_MISMATCH = (
        "WYRD_DRIFT_400_SIGNAL_METHOD_MISMATCH",
        "The signal does not fit the method",
        "Use Distribution with Psi or Spc, and Metric with Custom.",
    )
    DRIFT_400_VALIDATION = (
        "WYRD_DRIFT_400_VALIDATION",
        "The drift check is not valid",
        "Correct the member that the diagnostic names.",
    )
    SOURCE_400_VALIDATION = (
        "WYRD_SOURCE_400_VALIDATION",
        "The Source is not valid",
        "Correct the member that the diagnostic names.",
    )
    LOADER_400_CONFIG_LOAD_FAILED = (
        "WYRD_LOADER_400_CONFIG_LOAD_FAILED",
        "wyrd.toml cannot be used",
        "Keep only space, labels and annotations under [defaults] and [kind.<Kind>].",
    )
    LOADER_400_INVALID_ENVELOPE = (
        "WYRD_LOADER_400_INVALID_ENVELOPE",
        "The Card cannot be decoded",
        "Correct the field that the diagnostic names.",
    )
    LOADER_400_IO = (
        "WYRD_LOADER_400_IO",
        "A file cannot be read",
        "Check that the file exists and is readable UTF-8 text.",
    )
    LOADER_400_PATH_ABSOLUTE_ADVISORY = (
        "WYRD_LOADER_400_PATH_ABSOLUTE_ADVISORY",
        "A reference uses an absolute path",
        "Use a path relative to the file, so that the tree can move.",
    )
    LOADER_400_PATH_ESCAPE = (
        "WYRD_LOADER_400_PATH_ESCAPE",
        "A path leaves the workspace",
        "Keep referenced files inside the workspace root.",
    )
    LOADER_400_YAML_SYNTAX = (
        "WYRD_LOADER_400_YAML_SYNTAX",
        "The file is not valid YAML for a Card",
        "Correct the YAML at the line and column given.",
    )
    REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE = (
        "WYRD_REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE",
        "The reference's uid does not belong to that Card",
        "Drop the uid, or use the one the registry returned.",
    )
    REGISTRY_400_CURSOR_MISMATCH = (
        "WYRD_REGISTRY_400_CURSOR_MISMATCH",
        "The cursor belongs to another list",
        "Start the list again without a cursor.",
    )
    REGISTRY_400_DEPENDENCY_CYCLE = (
        "WYRD_REGISTRY_400_DEPENDENCY_CYCLE",
        "Cards refer to each other in a cycle",
        "Break the cycle that the diagnostic names.",
    )
    REGISTRY_400_HEAVY_ARTIFACT_NOT_SOLE_SUBMISSION = (
        "WYRD_REGISTRY_400_HEAVY_ARTIFACT_NOT_SOLE_SUBMISSION",
        "Artifacts need a declaration of their own",
        "Declare the Card with artifacts alone.",
    )
    REGISTRY_400_IDEMPOTENCY_KEY_INVALID = (
        "WYRD_REGISTRY_400_IDEMPOTENCY_KEY_INVALID",
        "The idempotency key is not valid",
        "Send 8 to 256 visible ASCII characters.",
    )
    REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED = (
        "WYRD_REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED",
        "An idempotency key is required",
        "Send an idempotency-key header and reuse it on every retry.",
    )
    REGISTRY_400_INVALID_ARTIFACT_PATH = (
        "WYRD_REGISTRY_400_INVALID_ARTIFACT_PATH",
        "The artifact path is not valid",
        "Use a relative path without dot segments.",
    )
    REGISTRY_400_INVALID_CARD_SPEC = (
        "WYRD_REGISTRY_400_INVALID_CARD_SPEC",
        "The Card's spec is not valid",
        "Correct the place that details.field names.",
    )
    REGISTRY_400_INVALID_VERSION_BLOCK = (
        "WYRD_REGISTRY_400_INVALID_VERSION_BLOCK",
        "The version is not usable here",
        "Pin an exact version such as 1.0.0.",
    )
    REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE = (
        "WYRD_REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE",
        "The list limit is out of range",
        "Use a limit from 1 to 1000.",
    )
    REGISTRY_400_MANIFEST_HASH_MISMATCH = (
        "WYRD_REGISTRY_400_MANIFEST_HASH_MISMATCH",
        "The artifact hash does not match the manifest",
        "Recompute the hash over the artifacts you send.",
    )
    REGISTRY_400_REQUIREMENT_NOT_RESOLVABLE_HERE = (
        "WYRD_REGISTRY_400_REQUIREMENT_NOT_RESOLVABLE_HERE",
        "A version range cannot be resolved here",
        "Use an exact version.",
    )
    REGISTRY_400_SPEC_TOO_LARGE = (
        "WYRD_REGISTRY_400_SPEC_TOO_LARGE",
        "The spec is too large",
        "Keep the spec under 256 KiB; move text into files and evidence.",
    )
    REGISTRY_400_UNRESOLVED_INLINE_REFERENCE = (
        "WYRD_REGISTRY_400_UNRESOLVED_INLINE_REFERENCE",
        "An inline reference cannot be resolved",
        "Declare the referenced Card in the same call, or before.",
    )
    REGISTRY_400_UNRESOLVED_PATH_REF = (
        "WYRD_REGISTRY_400_UNRESOLVED_PATH_REF",
        "A path reference cannot be resolved",
        "Correct the path, or the Card it leads to.",
    )
    REGISTRY_400_UPLOAD_INTERRUPTED = (
        "WYRD_REGISTRY_400_UPLOAD_INTERRUPTED",
        "The upload is not complete",
        "Upload the file again, then complete it.",
    )
    REGISTRY_400_VERSION_REQUIRED = (
        "WYRD_REGISTRY_400_VERSION_REQUIRED",
        "A version is required",
        "Pin an exact version such as 1.0.0.",
    )
    REGISTRY_404_CARD_NOT_FOUND = (
        "WYRD_REGISTRY_404_CARD_NOT_FOUND",
        "No such Card",
        "Check kind, space, name and version.",
    )
    REGISTRY_409_IDEMPOTENCY_CONFLICT = (
        "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT",
        "The idempotency key was used for another request",
        "Use a new key for a new request.",
    )
    REGISTRY_409_SPEC_DRIFT = (
        "WYRD_REGISTRY_409_SPEC_DRIFT",
        "That version exists with another spec",
        "Give the changed Card a new version.",
    )
    REGISTRY_410_OPERATION_EXPIRED = (
        "WYRD_REGISTRY_410_OPERATION_EXPIRED",
        "The operation has expired",
        "Start it again.",
    )
    REGISTRY_422_UNRESOLVED_DEPENDENCY = (
        "WYRD_REGISTRY_422_UNRESOLVED_DEPENDENCY",
        "A referenced Card is not in the registry",
        "Declare the referenced Card first, or in the same call.",
    )
    REGISTRY_500_VERSION_CONFLICT = (
        "WYRD_REGISTRY_500_VERSION_CONFLICT",
        "Two declarations chose the same version",
        "Try again.",
    )
    REGISTRY_503_REGISTRY_UNAVAILABLE = (
        "WYRD_REGISTRY_503_REGISTRY_UNAVAILABLE",
        "The registry cannot be reached",
        "Try again shortly.",
    )
    REGISTRY_507_ARTIFACT_VERIFY_FAILED = (
        "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED",
        "An artifact does not match its digest",
        "Upload the file again.",
    )
    QUERY_400_INVALID_FIELD = (
        "WYRD_QUERY_400_INVALID_FIELD",
        "The filter names an unknown field",
        "Correct what details.field names; a filter takes the fields of the list's items.",
    )
    QUERY_400_INVALID_SYNTAX = (
        "WYRD_QUERY_400_INVALID_SYNTAX",
        "The filter cannot be read",
        "Correct the filter expression.",
    )
    QUERY_400_TOO_COMPLEX = (
        "WYRD_QUERY_400_TOO_COMPLEX",
        "The filter is too complex",
        "Use fewer conditions.",
    )
    CFG_400_INVALID_TOML = (
        "WYRD_CFG_400_INVALID_TOML",
        "The configuration file is not TOML",
        "Correct the file at the place given.",
    )
    CFG_400_SCHEMA_MISMATCH = (
        "WYRD_CFG_400_SCHEMA_MISMATCH",
        "The configuration does not fit its schema",
        "Correct the member that details.field names.",
    )
    CLIENT_400_CONFIG_INVALID = (
        "WYRD_CLIENT_400_CONFIG_INVALID",
        "The client's configuration is not valid",
        "Correct the setting that details.field names.",
    )
    CLIENT_401_NO_CREDENTIALS = (
        "WYRD_CLIENT_401_NO_CREDENTIALS",
        "No credential was found",
        "Set WYRD_API_KEY, pass credential=, or start wyrd up in this folder.",
    )
    CLIENT_401_SAVED_LOGIN_UNUSABLE = (
        "WYRD_CLIENT_401_SAVED_LOGIN_UNUSABLE",
        "The saved login cannot be used",
        "Log in again, or set WYRD_API_KEY.",
    )
    CLIENT_413_PAYLOAD_TOO_LARGE = (
        "WYRD_CLIENT_413_PAYLOAD_TOO_LARGE",
        "The request is too large to send",
        "Send large evidence as files.",
    )
    CLIENT_422_ROW_DESERIALIZATION = (
        "WYRD_CLIENT_422_ROW_DESERIALIZATION",
        "A row does not fit the model",
        "Select the columns the model declares.",
    )
    CLIENT_429_QUEUE_FULL = (
        "WYRD_CLIENT_429_QUEUE_FULL",
        "The local queue is full",
        "Slow down, or wait until the server is reachable.",
    )
    CLIENT_503_TRANSPORT_DOWN = (
        "WYRD_CLIENT_503_TRANSPORT_DOWN",
        "The server cannot be reached",
        "Check the address, and that the server is running.",
    )
    CLIENT_504_FLUSH_TIMEOUT = (
        "WYRD_CLIENT_504_FLUSH_TIMEOUT",
        "Flushing took too long",
        "Call flush again, or raise its timeout.",
    )
    SDK_400_BIFROST_NOT_STARTED = (
        "WYRD_SDK_400_BIFROST_NOT_STARTED",
        "Bifrost is not started",
        "Call start_bifrost first.",
    )
    SDK_400_CARD_KIND_MISMATCH = (
        "WYRD_SDK_400_CARD_KIND_MISMATCH",
        "The Card is of another kind",
        "Use the accessor of the Card's own kind.",
    )
    SDK_400_INVALID_OBSERVATION = (
        "WYRD_SDK_400_INVALID_OBSERVATION",
        "The observation is not valid",
        "Correct the member that details.field names.",
    )
    SDK_400_INVALID_STATE_BUNDLE = (
        "WYRD_SDK_400_INVALID_STATE_BUNDLE",
        "The bundle is not usable",
        "Pull the bundle again.",
    )
    SDK_404_UNKNOWN_ALIAS = (
        "WYRD_SDK_404_UNKNOWN_ALIAS",
        "The Service has no such component",
        "Use one of the aliases that details.aliases lists.",
    )
    SDK_404_UNKNOWN_VERIFIER = (
        "WYRD_SDK_404_UNKNOWN_VERIFIER",
        "No such Verifier is bound to this view",
        "Use one of the names that details.verifiers lists.",
    )
    SDK_409_BIFROST_ALREADY_STARTED = (
        "WYRD_SDK_409_BIFROST_ALREADY_STARTED",
        "Bifrost is already started",
        "Use the handle you have.",
    )
    SDK_409_BIFROST_CLOSED = ("WYRD_SDK_409_BIFROST_CLOSED", "Bifrost is closed", "Open a new state.")
    SDK_409_TELEMETRY_PROVIDER_EXISTS = (
        "WYRD_SDK_409_TELEMETRY_PROVIDER_EXISTS",
        "Another telemetry provider is set",
        "Start telemetry before other instrumentation.",
    )
    SDK_503_TELEMETRY_FLUSH_FAILED = (
        "WYRD_SDK_503_TELEMETRY_FLUSH_FAILED",
        "Telemetry could not be flushed",
        "Check that the server is reachable.",
    )
    SDK_504_TELEMETRY_FLUSH_TIMEOUT = (
        "WYRD_SDK_504_TELEMETRY_FLUSH_TIMEOUT",
        "Flushing telemetry took too long",
        "Flush again, or raise its timeout.",
    )
    SDK_504_VERIFICATION_WAIT_TIMEOUT = (
        "WYRD_SDK_504_VERIFICATION_WAIT_TIMEOUT",
        "The execution has no result yet",
        "Wait again; the execution goes on.",
    )
    PERMISSION_401_UNAUTHENTICATED = (
        "WYRD_PERMISSION_401_UNAUTHENTICATED",
        "The request carries no usable credential",
        "Send a valid access token.",
    )
    PERMISSION_403_DENIED_RBAC = (
        "WYRD_PERMISSION_403_DENIED_RBAC",
        "The caller may not do that",
        "Use a credential whose role and graph allow it.",
    )
    AUTH_400_BAD_TOKEN_FORMAT = (
        "WYRD_AUTH_400_BAD_TOKEN_FORMAT",
        "The token is malformed",
        "Send the token as it was issued.",
    )
    AUTH_400_INVALID_CARD_REF_VERSION = (
        "WYRD_AUTH_400_INVALID_CARD_REF_VERSION",
        "The Card reference needs an exact version",
        "Pin an exact version.",
    )
    AUTH_400_PRINCIPAL_KIND_CARD_KIND_MISMATCH = (
        "WYRD_AUTH_400_PRINCIPAL_KIND_CARD_KIND_MISMATCH",
        "That kind of Card cannot own a key",
        "Bind the key to a Service or Agent Card.",
    )
    AUTH_400_UNSUPPORTED_CLIENT_AUTH = (
        "WYRD_AUTH_400_UNSUPPORTED_CLIENT_AUTH",
        "The client authentication is not supported",
        "Send client_id in the form.",
    )
    AUTH_400_UNSUPPORTED_GRANT_TYPE = (
        "WYRD_AUTH_400_UNSUPPORTED_GRANT_TYPE",
        "The grant type is not supported",
        "Exchange an API key with the token-exchange grant.",
    )
    AUTH_401_API_KEY_INVALID = (
        "WYRD_AUTH_401_API_KEY_INVALID",
        "The API key is not valid",
        "Check the key; issue a new one if it is lost.",
    )
    AUTH_401_CREDENTIAL_REVOKED = (
        "WYRD_AUTH_401_CREDENTIAL_REVOKED",
        "The credential is revoked",
        "Issue a new key.",
    )
    AUTH_401_INVALID_CARD_REF = (
        "WYRD_AUTH_401_INVALID_CARD_REF",
        "The key's Card does not exist",
        "Declare the Card, then issue a key for it.",
    )
    AUTH_401_INVALID_TOKEN = (
        "WYRD_AUTH_401_INVALID_TOKEN",
        "The access token is not valid",
        "Exchange the API key again.",
    )
    AUTH_401_TOKEN_EXPIRED = (
        "WYRD_AUTH_401_TOKEN_EXPIRED",
        "The access token has expired",
        "Exchange the API key again.",
    )
    AUTH_401_UNAUTHENTICATED = (
        "WYRD_AUTH_401_UNAUTHENTICATED",
        "The request carries no usable credential",
        "Send a valid access token or API key.",
    )
    AUTH_403_PRINCIPAL_ORPHANED = (
        "WYRD_AUTH_403_PRINCIPAL_ORPHANED",
        "The principal's Card is gone",
        "Issue a key for a Card that exists.",
    )
    AUTH_404_PRINCIPAL_NOT_FOUND = (
        "WYRD_AUTH_404_PRINCIPAL_NOT_FOUND",
        "No such principal",
        "Check the principal id.",
    )
    AUTH_409_ADMIN_CONFLICT = (
        "WYRD_AUTH_409_ADMIN_CONFLICT",
        "That would leave the tenant without an administrator",
        "Give another principal the admin role first.",
    )
    AUTH_503_VERIFY_UNAVAILABLE = (
        "WYRD_AUTH_503_VERIFY_UNAVAILABLE",
        "Credentials cannot be checked now",
        "Try again shortly.",
    )
    GATEWAY_400_INVALID_CONFIGURATION = (
        "WYRD_GATEWAY_400_INVALID_CONFIGURATION",
        "The gateway's configuration is not valid",
        "Correct the deployment that details.field names.",
    )
    GATEWAY_400_INVALID_REQUEST = (
        "WYRD_GATEWAY_400_INVALID_REQUEST",
        "The model call is not valid",
        "Correct the Prompt that the reason names.",
    )
    GATEWAY_404_MODEL_UNAVAILABLE = (
        "WYRD_GATEWAY_404_MODEL_UNAVAILABLE",
        "The deployment does not offer that model",
        "Add the model to the deployment, or change the Prompt.",
    )
    GATEWAY_404_RESOURCE_NOT_FOUND = (
        "WYRD_GATEWAY_404_RESOURCE_NOT_FOUND",
        "No such deployment",
        "Add the deployment to the gateway's configuration.",
    )
    GATEWAY_502_UPSTREAM_UNAVAILABLE = (
        "WYRD_GATEWAY_502_UPSTREAM_UNAVAILABLE",
        "The provider cannot be reached",
        "Try again; check the provider's status.",
    )
    GATEWAY_504_DEADLINE_EXCEEDED = (
        "WYRD_GATEWAY_504_DEADLINE_EXCEEDED",
        "The provider took too long",
        "Give the block more time, or use a faster model.",
    )
    STORAGE_400_SHA256_MISMATCH = (
        "WYRD_STORAGE_400_SHA256_MISMATCH",
        "The content does not match its digest",
        "Upload the file again.",
    )
    STORAGE_400_SIZE_MISMATCH = (
        "WYRD_STORAGE_400_SIZE_MISMATCH",
        "The content does not have the announced size",
        "Upload the file again with its exact size.",
    )
    STORAGE_400_ARTIFACT_TOO_LARGE = (
        "WYRD_STORAGE_400_ARTIFACT_TOO_LARGE",
        "The file is too large",
        "Send a smaller file.",
    )
    STORAGE_400_INVALID_UPLOAD_ID = (
        "WYRD_STORAGE_400_INVALID_UPLOAD_ID",
        "The upload id is not valid",
        "Use the upload id from the plan.",
    )
    STORAGE_400_SHA256_INVALID = (
        "WYRD_STORAGE_400_SHA256_INVALID",
        "The digest is not a SHA-256",
        "Send 64 lower-case hexadecimal characters.",
    )
    STORAGE_404_UPLOAD_NOT_FOUND = (
        "WYRD_STORAGE_404_UPLOAD_NOT_FOUND",
        "No such upload",
        "Declare the Card again for a new plan.",
    )
    STORAGE_404_OBJECT_NOT_FOUND = (
        "WYRD_STORAGE_404_OBJECT_NOT_FOUND",
        "No such object",
        "Upload the file first.",
    )
    STORAGE_409_UPLOAD_NOT_PENDING = (
        "WYRD_STORAGE_409_UPLOAD_NOT_PENDING",
        "The upload is already complete",
        "Go on with the next step.",
    )
    STORAGE_500_BACKEND = (
        "WYRD_STORAGE_500_BACKEND",
        "The object storage failed",
        "Try again; if it persists, report the request id.",
    )
    STORAGE_503_PRESIGN_EXPIRED = (
        "WYRD_STORAGE_503_PRESIGN_EXPIRED",
        "The upload address has expired",
        "Ask for a new plan.",
    )
    STORAGE_503_BACKEND_UNAVAILABLE = (
        "WYRD_STORAGE_503_BACKEND_UNAVAILABLE",
        "The object storage cannot be reached",
        "Try again shortly.",
    )
    VALA_400_SCHEMA_PARSE = (
        "WYRD_VALA_400_SCHEMA_PARSE",
        "The table's schema cannot be read",
        "Correct the schema at the place that details.detail names.",
    )
    VALA_400_QUERY_INVALID_SQL = (
        "WYRD_VALA_400_QUERY_INVALID_SQL",
        "The query is not allowed or not SQL",
        "Send one SELECT over known tables and functions; the detail names the place.",
    )
    VALA_400_FILTER_INVALID = (
        "WYRD_VALA_400_FILTER_INVALID",
        "The filter is not valid",
        "Correct the filter that details.detail names.",
    )
    VALA_400_BIFROST_UNDECLARED_FIELD = (
        "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD",
        "A row has a column that its table does not declare",
        "Remove the column that details.field names, or declare it with a new version of the table.",
    )
    VALA_400_BIFROST_UNSUPPORTED_TYPE = (
        "WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE",
        "A column has a type that tables cannot hold",
        "Change the type of the column that details.field names.",
    )
    VALA_400_BIFROST_RESERVED_COLUMN = (
        "WYRD_VALA_400_BIFROST_RESERVED_COLUMN",
        "A column has a name that Wyrd keeps for itself",
        "Rename the column that details.column names.",
    )
    VALA_400_BIFROST_INVALID_COMPACTION_TARGET = (
        "WYRD_VALA_400_BIFROST_INVALID_COMPACTION_TARGET",
        "The target size of data files is out of range",
        "Give a target size between 1 MiB and 1 GiB.",
    )
    VALA_400_BIFROST_INVALID_PHYSICAL_LAYOUT = (
        "WYRD_VALA_400_BIFROST_INVALID_PHYSICAL_LAYOUT",
        "The table's layout is not valid",
        "Name columns of the table in its layout.",
    )
    VALA_400_INGEST_PROTO = (
        "WYRD_VALA_400_INGEST_PROTO",
        "The batch cannot be read",
        "Send one Arrow IPC stream with the table's columns, or JSON rows.",
    )
    VALA_400_OTLP_REQUEST_MALFORMED = (
        "WYRD_VALA_400_OTLP_REQUEST_MALFORMED",
        "The body is not an OTLP request",
        "Send OTLP as protobuf or JSON, with the matching content type.",
    )
    VALA_400_VARIANT_INVALID_JSON = (
        "WYRD_VALA_400_VARIANT_INVALID_JSON",
        "A free-form value is not JSON",
        "Send valid JSON in the field that details.field names.",
    )
    VALA_400_VARIANT_TOO_DEEP = (
        "WYRD_VALA_400_VARIANT_TOO_DEEP",
        "A free-form value is nested too deeply",
        "Flatten the value that details.field names.",
    )
    VALA_401_INGEST_AUTH = (
        "WYRD_VALA_401_INGEST_AUTH",
        "The batch carries no valid credential",
        "Send a valid token in x-wyrd-access-token.",
    )
    VALA_403_BIFROST_CARD_SCOPE = (
        "WYRD_VALA_403_BIFROST_CARD_SCOPE",
        "An observation names a Card outside the caller's graph",
        "Record only about Cards of the Service this credential is bound to.",
    )
    VALA_403_BIFROST_RESERVED_BUILTIN_WRITE = (
        "WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE",
        "Only Wyrd writes that table",
        "Write to a table of vala.datasets.",
    )
    VALA_403_QUERY_FORBIDDEN = (
        "WYRD_VALA_403_QUERY_FORBIDDEN",
        "The caller may not query",
        "Use a credential whose role permits queries.",
    )
    VALA_404_BIFROST_TABLE_NOT_FOUND = (
        "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND",
        "No such table",
        "List the tables, or register this one.",
    )
    VALA_404_RUNNING_QUERY_NOT_FOUND = (
        "WYRD_VALA_404_RUNNING_QUERY_NOT_FOUND",
        "No such running query",
        "It may have ended already; list the running ones.",
    )
    VALA_404_TRACE_NOT_FOUND = (
        "WYRD_VALA_404_TRACE_NOT_FOUND",
        "No span of that trace is recorded",
        "Check the trace id; spans may still be on their way.",
    )
    VALA_409_BIFROST_FINGERPRINT_MISMATCH = (
        "WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH",
        "The table exists with other columns",
        "Only add nullable columns, or use a new table name.",
    )
    VALA_409_BIFROST_LAYOUT_MISMATCH = (
        "WYRD_VALA_409_BIFROST_LAYOUT_MISMATCH",
        "The table exists with another layout",
        "Use the layout it was registered with.",
    )
    VALA_409_BIFROST_COMPACTION_TARGET_MISMATCH = (
        "WYRD_VALA_409_BIFROST_COMPACTION_TARGET_MISMATCH",
        "The table exists with another compaction target",
        "Use the target it was registered with.",
    )
    VALA_409_BIFROST_COMPACTION_TYPE_MISMATCH = (
        "WYRD_VALA_409_BIFROST_COMPACTION_TYPE_MISMATCH",
        "The table exists with another compaction type",
        "Use the type it was registered with.",
    )
    VALA_409_BIFROST_COMMIT_CONFLICT = (
        "WYRD_VALA_409_BIFROST_COMMIT_CONFLICT",
        "Another writer changed the table",
        "Try again.",
    )
    VALA_413_PAYLOAD_TOO_LARGE = (
        "WYRD_VALA_413_PAYLOAD_TOO_LARGE",
        "The batch is too large",
        "Send smaller batches.",
    )
    VALA_413_QUERY_RESULT_TOO_LARGE = (
        "WYRD_VALA_413_QUERY_RESULT_TOO_LARGE",
        "The answer is over its limit",
        "Ask for less, aggregate, or raise the limit of the request.",
    )
    VALA_413_VARIANT_TOO_LARGE = (
        "WYRD_VALA_413_VARIANT_TOO_LARGE",
        "A free-form value is too large",
        "Store less in the field that details.field names.",
    )
    VALA_429_INGEST_BUSY = (
        "WYRD_VALA_429_INGEST_BUSY",
        "Too much is waiting to be published",
        "Try again shortly.",
    )
    VALA_429_QUERY_QUEUE_FULL = (
        "WYRD_VALA_429_QUERY_QUEUE_FULL",
        "Too many queries are waiting",
        "Try again shortly.",
    )
    VALA_500_BIFROST_INTERNAL = (
        "WYRD_VALA_500_BIFROST_INTERNAL",
        "Bifrost failed",
        "Try again; if it persists, report the request id.",
    )
    VALA_502_QUERY_STREAM_INCOMPLETE = (
        "WYRD_VALA_502_QUERY_STREAM_INCOMPLETE",
        "The answer ended before its end",
        "Ask again; what arrived is not the whole answer.",
    )
    VALA_502_QUERY_STREAM_PROTOCOL = (
        "WYRD_VALA_502_QUERY_STREAM_PROTOCOL",
        "The answer is not a query stream",
        "Check that the address is a Wyrd server's and not a proxy's.",
    )
    VALA_503_BIFROST_CATALOG_UNREACHABLE = (
        "WYRD_VALA_503_BIFROST_CATALOG_UNREACHABLE",
        "The catalog of tables cannot be reached",
        "Try again shortly.",
    )
    VALA_503_BIFROST_STORAGE_UNREACHABLE = (
        "WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE",
        "The storage of tables cannot be reached",
        "Try again shortly.",
    )
    VALA_504_QUERY_TIMEOUT = (
        "WYRD_VALA_504_QUERY_TIMEOUT",
        "The query took too long",
        "Ask for less, or give it more time.",
    )
    VALA_507_WAL_DISK_FULL = (
        "WYRD_VALA_507_WAL_DISK_FULL",
        "There is no room to record more",
        "Free disk space on the server; nothing acknowledged is lost.",
    )
    SERVER_503_NOT_READY = (
        "WYRD_SERVER_503_NOT_READY",
        "The server is not ready",
        "Wait until /readyz answers 200.",
    )
    SERVER_503_SERVICE_UNAVAILABLE = (
        "WYRD_SERVER_503_SERVICE_UNAVAILABLE",
        "A service the server needs cannot be reached",
        "Try again shortly.",
    )
    SERVER_504_REQUEST_TIMEOUT = (
        "WYRD_SERVER_504_REQUEST_TIMEOUT",
        "The request took too long",
        "Try again, or ask for less.",
    )
    CLI_400_CARD_LOAD = (
        "WYRD_CLI_400_CARD_LOAD",
        "The Cards cannot be declared",
        "Correct what the diagnostics name.",
    )
    CLI_401_NO_CREDENTIALS = (
        "WYRD_CLI_401_NO_CREDENTIALS",
        "No credential was found",
        "Set WYRD_API_KEY, or run this where wyrd up keeps its dev key.",
    )

    @property
    def status(self) -> int:
        """The HTTP status that the code itself names."""
        return int(cast(str, self.value).split("_")[2])

    def __str__(self) -> str:
        return cast(str, self.value)


_BY_CODE: dict[str, Code] = {cast(str, member.value): member for member in Code}


def code_named(text: str) -> Code | None:
    """The catalogue member of that code, or None for a code this version does not know."""
    return _BY_CODE.get(text)


class WyrdError(Exception):
    """One failure, told the same way by engine, server, SDK and command line.

    `code` is the catalogue code as text, the thing to branch on. `detail` (also `message`) says
    what happened here, in one sentence. `details` holds data; where a field is at fault it names
    it under `field` or `path`.
    """

    def __init__(self, code: Code | str, detail: str = "", /, **details: Any) -> None:
        member = code if isinstance(code, Code) else code_named(code)
        if member is None:
            details = {"original_code": code, "original_details": details}
            detail = f"server error: {detail}"
            member = Code.SPEC_502_UPSTREAM_FAILURE
        self.member: Code = member
        self.code: str = cast(str, member.value)
        self.detail: str = detail or member.title
        self.details: dict[str, Any] = details
        super().__init__(f"{self.code}: {self.detail}")

    @property
    def message(self) -> str:
        """The same sentence as `detail`, under the published client's name."""
        return self.detail

    @property
    def status(self) -> int:
        return self.member.status

    @property
    def title(self) -> str:
        return self.member.title

    @property
    def remediation(self) -> str:
        return self.member.remedy

    @property
    def type(self) -> str:
        return f"urn:wyrd:error:{self.code}"

    def problem(self, request_id: str | None = None) -> dict[str, Any]:
        """The RFC 9457 document of this error."""
        document: dict[str, Any] = {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "remediation": self.remediation,
            "details": self.details,
        }
        if request_id is not None:
            document["request_id"] = request_id
        return document

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.code, self.detail, self.details)


def _rebuild(code: str, detail: str, details: dict[str, Any]) -> WyrdError:
    return WyrdError(code, detail, **details)
