"""One helper process that takes part in every job."""

import time

import pytest

from chunkwise.execute.helper import helpers


def start_one_helper(monkeypatch):
    """Wait for a helper of this test's own; the caller ends it with ``helpers._close()``."""
    monkeypatch.setattr(helpers, "_WORTH_STARTING", 0)
    monkeypatch.setattr(helpers, "_WORTH_ASKING", 0)
    monkeypatch.setattr(helpers, "_most", lambda: 1)
    for registry in helpers._KNOWN:  # other tests register their own
        monkeypatch.setattr(registry, "changed", False)
    helpers._close()  # one that an earlier test has left may be about to end, having had nothing to do
    for _ in range(600):
        if helpers.ready_helpers(1, 1):
            return
        time.sleep(0.05)
    pytest.fail("the helper did not start within half a minute")
