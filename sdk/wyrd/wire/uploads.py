"""How files travel: what is asked about digests, and where missing bytes are to be put.

`POST /v1/verification/evidence` and the artifact routes share the plan. Digests are 64 lower-case
hexadecimal characters here, sizes are bytes, times to live seconds.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from wyrd.wire.verification import Sha256

MOST_FILES = 1000
"""Files that one question about missing evidence may name."""


class RequiredHeader(BaseModel):
    """A header the PUT must carry, or the object store refuses it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str
    value: str


class PutTarget(BaseModel):
    """Where and how to PUT. `put_url` may be relative to the server (`local_fs` only)."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    put_url: str
    ttl_secs: int
    required_headers: list[RequiredHeader] = Field(default_factory=list)


class LocalPlan(BaseModel):
    """One PUT to the Wyrd server, with the usual credentials."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    protocol: Literal["local_fs"] = "local_fs"
    data: PutTarget


class SinglePutPlan(BaseModel):
    """One PUT to an object store, without Wyrd credentials."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    protocol: Literal["single_put"] = "single_put"
    data: PutTarget


UploadPlan = Annotated[LocalPlan | SinglePutPlan, Field(discriminator="protocol")]


class EvidenceFile(BaseModel):
    """One file the client holds."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sha256: Sha256
    size_bytes: int = Field(ge=0)


class EvidenceRequest(BaseModel):
    """Body of `POST /v1/verification/evidence`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    files: list[EvidenceFile] = Field(max_length=MOST_FILES)


class EvidenceUpload(BaseModel):
    """One digest the caller's tenant does not hold yet, and how to send it."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    sha256: str
    plan: UploadPlan


class EvidenceAnswer(BaseModel):
    """Only what is missing; an empty list means that nothing is to be sent."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    uploads: list[EvidenceUpload]
