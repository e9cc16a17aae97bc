"""Eight processes that change attributes of one group and one array at the same time lose nothing."""

from __future__ import annotations

import sys

from examples import ALL

import chunkwise as cw

PROGRAM = """
import sys
import chunkwise as cw
path, who, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
group = cw.open_group(path, "r+", context=cw.Context({"file_io_sync": False}))
array = group["a"]
for i in range(n):
    group.attrs.update({f"{who}-{i}": i})
    group.attrs.change(lambda stored: {**stored, "count": stored.get("count", 0) + 1})
    array.attrs[f"{who}-{i}"] = i
"""


def test_processes_lose_nothing(tmp_path, format, children):
    group = cw.create_group(tmp_path / "x", format=format)
    group.create_array("a", data=[1])
    if format != "n5":
        group.consolidate()
    n, n_processes = 4, 8 if ALL else 4
    started = [
        children.start([sys.executable, "-c", PROGRAM, str(tmp_path / "x"), f"p{i}", str(n)])
        for i in range(n_processes)
    ]
    assert [process.wait(100) for process in started] == [0] * n_processes
    expected = {f"p{who}-{i}": i for who in range(n_processes) for i in range(n)}
    for mode in ("r", "r+"):
        again = cw.open_group(tmp_path / "x", mode)
        assert dict(again.attrs) == {**expected, "count": n_processes * n}
        assert dict(again["a"].attrs) == expected, "in consolidated metadata too"
