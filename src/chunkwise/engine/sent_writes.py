"""Writing whole chunks to a store that takes them while the next ones are encoded.

The threads of a job only encode then, one for each processor: threads that wait for a server, one for each
request, would be in their way.  What the store could not do is done again at the end, which finds out why.
"""

from __future__ import annotations

from typing import Any

from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.failure import failed
from chunkwise.kvstore.protocol import Buffer, Sender, Sending, offers
from chunkwise.plan.axis import PlanAxis

__all__ = ["SentWrites", "open_sent_writes"]

# So many chunks for each thread keep a server busy that is far away.
_LEAST_PER_WORKER = 8
# A chunk's memory is kept until it is stored, and many are under way.
_LARGEST = 1 << 24
# Of chunks that are not compressed: to copy more once again takes longer than threads that wait.
_LARGEST_RAW = 1 << 20


class SentWrites:
    """The writer of all threads of a job.

    Parameters
    ----------
    array : StoredArray
    kv : store
        Where its keys are.
    sender : Sender
        Of `kv`.
    """

    def __init__(self, array: StoredArray, kv: Any, sender: Sender) -> None:
        self._array = array
        self._kv = kv
        self._sender = sender

    def write(self, key: str, value: Buffer) -> None:
        """Begin to replace the value of `key`."""
        if not self._sender.write(key, value):
            self._kv.write(key, value)

    def delete(self, key: str) -> None:
        """Begin to delete `key`."""
        if not self._sender.delete(key):
            self._kv.delete(key)

    def flush(self) -> None:
        """Wait for nothing: that is done at the end of the job."""

    def settle(self) -> None:
        """Wait until nothing is under way."""
        self._sender.wait()

    def finish(self) -> None:
        """Do what the store could not do."""
        for key, value in self._sender.take_refused():
            try:
                if value is None:
                    self._kv.delete(key)
                else:
                    self._kv.write(key, value)
            except Exception as e:
                raise failed(e, "writing", self._kv, self._array, key) from e.__cause__


def open_sent_writes(
    array: StoredArray, kv: Any, axes: tuple[PlanAxis, ...], n_chunks: int, n_workers: int
) -> SentWrites | None:
    """Return the writer of a job with `n_workers` threads, None if each is to wait for its own writes.

    Chunks that are changed in part are read first, so that many threads have to wait for that.
    """
    if (
        not offers(kv, Sending)
        or n_chunks < _LEAST_PER_WORKER * n_workers
        or array.chain.item.nbytes > (_LARGEST if array.chain.encoded_nbytes is None else _LARGEST_RAW)
        or array.part is not None
        or not all(all(axis.whole) for axis in axes)
    ):
        return None
    sender = kv.open_sender()
    return None if sender is None else SentWrites(array, kv, sender)
