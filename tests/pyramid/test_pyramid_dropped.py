"""A pyramid whose future nothing asks: its failure, and its end with the program, are reported."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import chunkwise as cw

PROGRAM = """
import sys, time
import numpy as np
import chunkwise as cw

image = np.zeros((300, 300), "u1")
made = cw.downsample_pyramid(image, sys.argv[1], axes="yx", progress=lambda _: time.sleep(9))
if sys.argv[2] == "dropped":
    del made
"""


@pytest.mark.parametrize("kept", ["kept", "dropped"])
def test_a_program_that_ends_first_says_so(kept, tmp_path):
    path = tmp_path / "a.zarr"
    done = subprocess.run([sys.executable, "-c", PROGRAM, path, kept], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == ""
    assert "nothing called result() of the future made at <string>:7" in done.stderr
    assert "the program ended before the work was done" in done.stderr and "resume=True" in done.stderr
    with pytest.raises(cw.errors.InvalidArgumentError, match=r"an image is being written there.*resume=True"):
        cw.open_multiscale(path)
    cw.downsample_pyramid(np.zeros((300, 300), "u1"), path, axes="yx", resume=True).result()
    assert cw.open_multiscale(path).levels[0].shape == (300, 300)


def test_a_child_says_nothing_of_the_work_of_its_parent(tmp_path):
    made = cw.downsample_pyramid(np.zeros((300, 300), "u1"), tmp_path / "a.zarr", axes="yx")
    program = "import chunkwise"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).stderr == b""
    if hasattr(os, "fork"):
        from chunkwise.core.engine.unasked import _under_way

        pid = os.fork()
        if not pid:
            os._exit(len(_under_way))
        assert os.waitpid(pid, 0)[1] == 0
    assert made.result().names


def test_a_failure_that_nothing_asks_for_is_logged(tmp_path, caplog):
    def fail(_):
        raise OSError("the disk is full")

    with caplog.at_level(logging.ERROR, "chunkwise"):
        cw.downsample_pyramid(np.zeros((300, 300), "u1"), tmp_path / "a.zarr", axes="yx", progress=fail)
        end = time.monotonic() + 60
        while not caplog.records and time.monotonic() < end:
            gc.collect()
            time.sleep(0.01)
    assert "the disk is full" in caplog.text and __file__ in caplog.text
