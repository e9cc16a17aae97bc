"""What a copy in another format lacks, as a warning."""

from __future__ import annotations

__all__ = ["LossWarning"]


class LossWarning(UserWarning):
    """A copy lacks something of its source, or has it in another form, since its format can't hold it."""
