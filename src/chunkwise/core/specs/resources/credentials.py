"""``aws_credentials``, ``azure_credentials``, ``gcs_user_project``: identities, and the project that pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from chunkwise.core.base.binding import JSON, Members, expect_one_of, expect_string
from chunkwise.core.specs.resources.kind import Member, ObjectResource
from chunkwise.errors import SpecError, prefixed

__all__ = ["AwsCredentials", "AzureCredentials", "GcsUserProject"]

_AZURE_TYPES = ("default", "anonymous", "environment", "managed_identity", "cli")


@dataclass(frozen=True)
class AwsCredentials:
    """Source of the keys for S3: ``{"type": "profile", "profile": "science"}``."""

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
        """Read a JSON object with `type` and the members of that type."""
        members = Members(value)
        with prefixed("Failed to parse AWS credentials spec"):
            tag = members.take("type", expect_string)
            if tag not in cls.options_of:
                raise SpecError(
                    f"Failed to parse tag name, expected one of: {', '.join(cls.options_of)}, "
                    f"but received: {tag}"
                )
            found = {name: members.take(name, expect_string, None) for name in cls.options_of[tag]}
        members.finish()
        return cls(tag, tuple((k, v) for k, v in found.items() if v is not None))

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON object, `type` always included."""
        return dict(sorted({"type": self.type, **dict(self.options)}.items()))

    def create(self) -> AwsCredentials:
        """Return the configuration, which itself is the resource."""
        return self


class AzureCredentials(ObjectResource):
    """Source of the credentials for Azure: ``{"type": "cli"}``; an extension."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "type": Member(partial(expect_one_of, choices=_AZURE_TYPES)),
    }

    type: str = "default"


class GcsUserProject(ObjectResource):
    """The project that pays for requests to GCS: ``{"project_id": "mine"}``."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {"project_id": Member(expect_string, shown=False)}

    project_id: str | None = None
