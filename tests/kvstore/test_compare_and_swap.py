"""What becomes of a change whose answer was lost."""

from __future__ import annotations

import pytest

from chunkwise.core.kvstore.compare_and_swap import compare_and_swap
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import LostAnswerError


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
