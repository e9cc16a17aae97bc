"""``aws_credentials``, ``gcs_user_project``, ``experimental_gcs_grpc_credentials``: who asks, who pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from chunkwise.binding import JSON, Members, expect_one_of, expect_string, parse_array
from chunkwise.errors import InvalidArgumentError, SpecError, prefix
from chunkwise.spec.resources.kind import Member, ObjectResource

__all__ = ["AwsCredentials", "AzureCredentials", "GcsGrpcCredentials", "GcsUserProject"]

_AZURE_TYPES = ("default", "anonymous", "environment", "managed_identity", "cli")


@dataclass(frozen=True)
class AwsCredentials:
    """Where the keys for S3 come from: ``{"type": "profile", "profile": "science"}``."""

    inline: ClassVar[bool] = True
    options_of: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "default": ("profile",),
        "anonymous": (),
        "environment": (),
        "imds": (),
        "profile": ("profile", "config_file", "credentials_file"),
        "ecs": ("endpoint", "auth_token_file"),
    }

    type: str = "default"
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, value: JSON) -> AwsCredentials:
        """Read a JSON object with `type` and the members that go with it."""
        members = Members(value)
        try:
            tag = members.take("type", expect_string)
            if tag not in cls.options_of:
                raise SpecError(
                    f"Failed to parse tag name, expected one of: {', '.join(cls.options_of)}, "
                    f"but received: {tag}"
                )
            found = {name: members.take(name, expect_string, None) for name in cls.options_of[tag]}
        except InvalidArgumentError as e:
            raise prefix(e, "Failed to parse AWS credentials spec") from None
        members.finish()
        return cls(tag, tuple((k, v) for k, v in found.items() if v is not None))

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON object, `type` always included."""
        return dict(sorted({"type": self.type, **dict(self.options)}.items()))

    def create(self) -> AwsCredentials:
        """Return the configuration itself, which is all that the resource is."""
        return self


@dataclass(frozen=True)
class AzureCredentials(ObjectResource):
    """Where the credentials for Azure come from: ``{"type": "cli"}``; an extension."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "type": Member(partial(expect_one_of, choices=_AZURE_TYPES)),
    }

    type: str = "default"


@dataclass(frozen=True)
class GcsUserProject(ObjectResource):
    """The project that pays for requests to GCS: ``{"project_id": "mine"}``."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {"project_id": Member(expect_string, shown=False)}

    project_id: str | None = None


def _strings(value: JSON) -> list[str]:
    return parse_array(value, expect_string)


@dataclass(frozen=True)
class GcsGrpcCredentials:
    """Who asks GCS over gRPC: ``{"type": "insecure"}``; without a type, whoever the machine is."""

    inline: ClassVar[bool] = True
    # For each type its members: how they are read, and None after that for those that may be left out.
    options_of: ClassVar[Mapping[str, Mapping[str, tuple[Any, ...]]]] = {
        "": {},
        "insecure": {},
        "google_default": {},
        "access_token": {"access_token": (expect_string,)},
        "service_account": {"path": (expect_string, None)},
        "external_account": {"path": (expect_string, None), "scopes": (_strings, None)},
        "impersonate_service_account": {
            "target_service_account": (expect_string,),
            "delegates": (_strings, None),
            "scopes": (_strings, None),
            "base": (lambda value: GcsGrpcCredentials.parse(value).to_json(), None),
        },
    }

    type: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, value: JSON) -> GcsGrpcCredentials:
        """Read a JSON object with `type` and the members that go with it."""
        members = Members(value)
        tag = members.take("type", expect_string, "")
        if tag not in cls.options_of:
            raise SpecError(f'Invalid credentials: "{tag}"')
        found = {name: members.take(name, *how) for name, how in cls.options_of[tag].items()}
        members.finish()
        if "base" in found and found["base"] is None:
            raise SpecError("ImpersonateServiceAccount must have a base credential")
        return cls(tag, tuple((k, v) for k, v in found.items() if v is not None))

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON object."""
        return dict(sorted({"type": self.type, **dict(self.options)}.items())) if self.type else {}

    def create(self) -> GcsGrpcCredentials:
        """Return the configuration itself, which is all that the resource is."""
        return self
