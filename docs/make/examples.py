"""Examples of public names whose docstrings have none: aliases, constants, and what others make."""

import inspect

import chunkwise

_MADE_BY = {
    "ArrayCopyReport": "copy",
    "BadKey": "verify",
    "CopyPlan": "plan_copy",
    "CopyReport": "copy_tree",
    "Difference": "diff",
    "Migration": "migrate",
    "MultiscaleImage": "open_multiscale",
    "NodeReport": "verify",
    "Pyramid": "downsample_pyramid",
    "PyramidProgress": "downsample_pyramid",
}
"""The function whose example shows what it returns, by the name of that."""


def _example_of(function: str) -> str:
    return inspect.getdoc(getattr(chunkwise, function)).partition("\nExamples\n--------\n")[2]


_PLATE = """
>>> import tempfile
>>> import numpy as np
>>> import chunkwise
>>> path = tempfile.mkdtemp() + "/screen.zarr"
>>> names = {"rows": [{"name": "A"}], "columns": [{"name": "1"}]}
>>> wells = [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}]
>>> ome = {"version": "0.5", "plate": names | {"wells": wells}}
>>> plate = chunkwise.create_group(path, attributes={"ome": ome})
>>> well = {"version": "0.5", "well": {"images": [{"path": "0"}]}}
>>> _ = plate.create_group("A/1", attributes={"ome": well})
>>> scan = chunkwise.array(np.zeros((64, 64), "u1"))
>>> _ = chunkwise.downsample_pyramid(scan, path + "/A/1/0", axes=["y", "x"], levels=1).result()
>>> plate = chunkwise.open_multiscale(path)
>>> plate.wells["A/1"].fields["0"].levels[-1].shape
(32, 32)
"""

_INDEXING = """
>>> import chunkwise
>>> array = chunkwise.array([[1, 2, 3], [4, 5, 6]])
>>> array[0, ::2].read().result(), array[chunkwise.newaxis, 1].shape
(array([1, 3]), (1, 3))
>>> array[[True, False], 1:].read().result()
array([[2, 3]])
"""

EXAMPLES = {
    "DTypeLike": """
>>> import numpy as np
>>> import chunkwise
>>> {chunkwise.dtype(like) for like in ("uint16", np.uint16, np.dtype("u2"), chunkwise.uint16)}
{dtype("uint16")}
""",
    "DimSelectionLike": """
>>> import chunkwise
>>> domain = chunkwise.IndexDomain(labels=["z", "y", "x"], shape=[2, 4, 6])
>>> domain[chunkwise.d["x", 0].transpose[0]].labels
('x', 'z', 'y')
""",
    "DownsampleMethod": """
>>> import chunkwise
>>> chunkwise.downsample(chunkwise.array([1, 3, 5, 7]), [2], "mean").read().result()
array([2, 6])
""",
    "FutureLike": """
>>> import chunkwise
>>> chunkwise.Future(5).result()  # a value, an awaitable or a future
5
""",
    "NumpyIndexTerm": _INDEXING,
    "NumpyIndexingSpec": _INDEXING,
    "newaxis": _INDEXING,
    "RecheckCacheOption": """
>>> import chunkwise
>>> spec = {"driver": "zarr3", "kvstore": "memory://a/", "recheck_cached_data": "open"}
>>> chunkwise.Spec(spec).to_json()["recheck_cached_data"]
'open'
""",
    "T": """
>>> import chunkwise
>>> future: chunkwise.Future[int] = chunkwise.Future(5)
>>> future.result() + 1
6
""",
    "d": """
>>> import chunkwise
>>> array = chunkwise.array([[1, 2, 3], [4, 5, 6]])
>>> array[chunkwise.d[0, 1].label["y", "x"]][chunkwise.d["x"][::2]].read().result()
array([[1, 3],
       [4, 6]])
""",
    "inf": """
>>> import chunkwise
>>> chunkwise.IndexDomain(inclusive_min=[0], exclusive_max=[chunkwise.inf + 1])
{ [0, +inf) }
""",
    "Indexable": """
>>> import chunkwise
>>> isinstance(chunkwise.array([1, 2, 3]), chunkwise.Indexable)
True
""",
    "ImageCollection": _PLATE,
    "Plate": _PLATE,
    "Well": _PLATE,
    **{name: _example_of(function) for name, function in _MADE_BY.items()},
}
