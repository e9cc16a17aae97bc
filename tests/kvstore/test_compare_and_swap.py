"""What becomes of a change whose answer was lost."""

from __future__ import annotations

import pytest

from chunkwise.core.kvstore.compare_and_swap import MOST_LOST, compare_and_swap
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import GenerationMismatchError, LostAnswerError, UnsafeWriteError


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_lost_answer_is_an_error_unless_the_change_may_be_made_twice(idempotent: bool) -> None:
    calls = []

    def attempt() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise LostAnswerError("no answer")

    if idempotent:
        compare_and_swap(MemoryStore(), "a", attempt, idempotent=True)
        assert len(calls) == 2
    else:
        with pytest.raises(LostAnswerError, match="no answer"):
            compare_and_swap(MemoryStore(), "a", attempt)
        assert len(calls) == 1


@pytest.mark.parametrize("generations", ["new ones", "one"])
def test_attempts_end(
    generations: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first two repeat at once, then after pauses that grow; one line of the log tells of ten."""
    n_attempts, pauses = 0, []
    monkeypatch.setattr("time.sleep", pauses.append)

    def attempt() -> bytes:
        nonlocal n_attempts
        n_attempts += 1
        return b"g" if generations == "one" else b"g%d" % n_attempts

    error = UnsafeWriteError if generations == "one" else GenerationMismatchError
    with caplog.at_level("WARNING", "chunkwise.retries"), pytest.raises(error):
        compare_and_swap(MemoryStore(), "a", attempt)
    assert n_attempts == (8 if generations == "one" else MOST_LOST)
    assert len(pauses) == n_attempts - 3  # none before the second and third, nor after the last
    assert 0 < pauses[0] <= 0.016 and max(pauses) <= 0.02
    assert len(caplog.records) == (0 if generations == "one" else 1)
