"""``Journal``: the progress of an unfinished copy, in a small document in its destination.

It is written before the first chunk, now and then during the copy, and deleted at the very end.  Blocks
are taken in order, so a number and a few exceptions say which ones are done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from chunkwise.errors import AlreadyExistsError, FailedPreconditionError
from chunkwise.fork import new_lock
from chunkwise.hierarchy.document import read_document
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import JOURNAL
from chunkwise.kvstore.protocol import MISSING_GENERATION

__all__ = ["Journal"]

_SECONDS = 1.0


class Journal:
    """The blocks of a copy that are done; for several threads."""

    def __init__(
        self,
        location: Location,
        task: Mapping[str, Any],
        n_blocks: int,
        *,
        command: str = "chunkwise cp --resume",
    ) -> None:
        self._command = command
        self._kv = location.kv
        self._key = location.path + JOURNAL
        self._task = json.loads(json.dumps(task))
        self._n_blocks = n_blocks
        self._lock = new_lock()
        self._first = 0
        self._beyond: set[int] = set()
        self._saved = 0.0

    def begin(self) -> None:
        """Write the journal of a new copy; raise AlreadyExistsError if there is one."""
        if self._kv.write(self._key, self._text(), if_equal=MISSING_GENERATION) is None:
            raise AlreadyExistsError(
                "a copy to this destination was begun and not finished: --resume goes on with it, "
                "--overwrite starts again"
            )

    def resume(self) -> None:
        """Read the journal of an unfinished copy; raise FailedPreconditionError if it is of another one."""
        document = read_document(self._kv, self._key)
        if not isinstance(document, dict):
            raise FailedPreconditionError(f"{self._kv.describe(self._key)} is not the journal of a copy")
        for name, value in self._task.items():
            if document.get("task", {}).get(name) != value:
                raise FailedPreconditionError(
                    f"the unfinished copy can't be resumed: its {name} is another one; "
                    "use the same source and options, or --overwrite to start again"
                )
        self._first = int(document["done"])
        self._beyond = {int(number) for number in document["also"]}

    def is_done(self, block: int) -> bool:
        """Return True if a block has been copied."""
        return block < self._first or block in self._beyond

    def mark(self, block: int) -> None:
        """Note that a block has been copied; written to the store after at most a second."""
        with self._lock:
            self._beyond.add(block)
            while self._first in self._beyond:
                self._beyond.remove(self._first)
                self._first += 1
            if time.monotonic() - self._saved >= _SECONDS:
                self._save()

    def save(self) -> None:
        """Write what is known."""
        with self._lock:
            self._save()

    def restart(self) -> None:
        """Note that no block is done: what was copied is not to be trusted."""
        with self._lock:
            self._first = 0
            self._beyond.clear()
            self._save()

    def delete(self) -> None:
        """Delete the journal: the copy is whole."""
        self._kv.delete(self._key)

    def _save(self) -> None:
        self._kv.write(self._key, self._text())
        self._saved = time.monotonic()

    def _text(self) -> bytes:
        state = {
            "about": f"an unfinished copy by chunkwise; `{self._command}` goes on with it",
            "task": self._task,
            "blocks": self._n_blocks,
            "done": self._first,
            "also": sorted(self._beyond),
        }
        return json.dumps(state, indent=2).encode()
