"""Examples of the methods of public classes: texts above groups of examples, which the tests run in order."""

from __future__ import annotations

_FUTURE = """
`done` doesn't wait, `result` and `exception` do, for some seconds if you like; callbacks run when it is done.

>>> import chunkwise
>>> promise, future = chunkwise.Promise.new()
>>> future.done()
False
>>> future.add_done_callback(lambda done: print("done:", done.result()))
>>> promise.set_result(3)
done: 3
>>> future.done(), future.result(timeout=1), future.exception(), future.cancelled()
(True, 3, None, False)

A future that failed raises where its result is asked for; one that was cancelled too.

>>> promise, future = chunkwise.Promise.new()
>>> promise.set_exception(ValueError("no"))
>>> future.exception()
ValueError('no')
>>> promise, future = chunkwise.Promise.new()
>>> future.cancel(), future.cancelled()
(True, True)

`ready` and `failed` are done; `deferred` begins its work when the result is asked for.

>>> Future = chunkwise.Future
>>> Future.ready(3).result(), Future.failed(ValueError("no")).exception()
(3, ValueError('no'))
>>> Future.deferred(lambda promise: promise.set_result(4)).result()
4

`force` begins work that would begin with `result`; `add_done_callback` can be taken back.

>>> promise, future = chunkwise.Promise.new()
>>> future.force()
>>> future.add_done_callback(print)
>>> future.remove_done_callback(print)
1
"""

_DOMAINS = """
`hull` is the smallest that contains both, `intersect` what both have.

>>> import chunkwise
>>> first = chunkwise.IndexDomain(labels=["y", "x"], inclusive_min=[0, 0], shape=[4, 6])
>>> second = chunkwise.IndexDomain(labels=["y", "x"], inclusive_min=[2, 3], shape=[4, 6])
>>> first.hull(second)
{ "y": [0, 6), "x": [0, 9) }
>>> first.intersect(second)
{ "y": [2, 4), "x": [3, 6) }
"""

METHODS = {
    "TensorStore": """
`read` and `write` return futures; several can be under way at once. `astype` is a view of another type.

>>> import numpy as np
>>> import chunkwise
>>> spec = {"driver": "zarr3", "kvstore": "memory://methods/"}
>>> array = chunkwise.open(spec, create=True, dtype="uint16", shape=[4, 6], chunk_layout=None).result()
>>> array[1:3].write(np.arange(12, dtype="uint16").reshape(2, 6)).result()
>>> array[1, ::2].read().result()
array([0, 2, 4], dtype=uint16)
>>> array.astype("float32")[2, 4:].read().result()
array([10., 11.], dtype=float32)

`transpose` and indexing make views, and read nothing; `explain` tells what a read will do, `info` what is
known.

>>> array.transpose([1, 0]).shape
(6, 4)
>>> array[1].explain().requests.n_requests
1
>>> array.info()["dtype"]
'uint16'

`resize` changes what is stored; `resolve` looks for a new size; `nbytes_stored` and `storage_statistics`
look at what lies there.

>>> array = array.resize(exclusive_max=[8, 6]).result()
>>> array.resolve().result().shape
(8, 6)
>>> array.nbytes_stored() > 0
True
>>> array.storage_statistics(query_not_stored=True, query_fully_stored=True).result().not_stored
False

`with_transaction` gives a view whose writes appear together at the commit, and `spec` the JSON that opens
the array again.

>>> transaction = chunkwise.Transaction()
>>> array.with_transaction(transaction)[0, 0].write(9).result()
>>> int(array[0, 0].read().result())
0
>>> transaction.commit_sync()
>>> int(array[0, 0].read().result()), array.spec().to_json()["driver"]
(9, 'zarr3')

`append` makes an axis longer and writes behind what is there; `view` is a widget for notebooks.

>>> array.append(np.ones((2, 6), "uint16"))
(10, 6)
>>> widget = array.view()
""",
    "Group": """
Members are made by path; groups between are made too. `require_…` opens what is there, `get` gives a default.

>>> import numpy as np
>>> import chunkwise
>>> root = chunkwise.open_group("memory://group-methods/", "w")
>>> raw = root.create_array("em/raw", np.arange(6), dimension_names=["x"])
>>> _ = root.create_group("light")
>>> root.require_group("light").attrs["dye"] = "GFP"
>>> _ = root.require_array("em/raw", shape=(6,), dtype="int64")
>>> _ = root.create_dataset("em/mask", data=np.zeros(3, "bool"))
>>> root.require_dataset("em/mask", shape=(3,), dtype="bool").dtype.name
'bool'
>>> root.get("em/none", "nothing there")
'nothing there'

`keys`, `values`, `items`, `groups` and `arrays` look at one level, `walk`, `visit` and `visititems` at
everything below.

>>> root.keys(), [name for name, _ in root.groups()], len(list(root.values())), len(list(root.items()))
(['em', 'light'], ['em', 'light'], 2, 2)
>>> [name for name, _ in root["em"].arrays()]
['mask', 'raw']
>>> [path for path, _ in root.walk()]
['em', 'em/mask', 'em/raw', 'light']
>>> root.visit(print)
em
em/mask
em/raw
light
>>> root.visititems(lambda path, member: path if path.endswith("raw") else None)
'em/raw'

`copy` and `move` take arrays and whole groups; links are named and not followed.

>>> _ = root.copy("em/raw", "light/raw")
>>> root.move("light/raw", "light/first")
>>> root.create_link("best", "light/first")
>>> root.links()["best"].path, root.get_link("best").path
('/light/first', '/light/first')
>>> root.consolidate()
[]
>>> print(root.tree())
/              zarr3 group
├── best       -> /light/first
├── em         zarr3 group
│   ├── mask   zarr3 array  bool  (3)  chunks 3  zstd:3
│   └── raw    zarr3 array  int64  (6)  chunks 6  zstd:3
└── light      zarr3 group
    └── first  zarr3 array  int64  (6)  chunks 6  zstd:3

`array` and `group` open what type checkers know as one.

>>> root.array("em/raw").shape, root.group("em").path
((6,), 'em')
""",
    "Attributes": """
Attributes are a mapping that is stored at once; `asdict` and `values` are copies, and a path leads into
objects.

>>> import chunkwise
>>> attrs = chunkwise.open_group("memory://attribute-methods/", "w").attrs
>>> attrs.put({"subject": {"id": "m7"}, "n": 3})
>>> attrs.asdict(), list(attrs.keys()), attrs.get("none", 0)
({'subject': {'id': 'm7'}, 'n': 3}, ['subject', 'n'], 0)
>>> attrs.set_path("subject/age", 12)
>>> attrs.get_path("subject/age")
12
>>> attrs.remove_path("subject/age")
>>> attrs.update(n=4, more=True)
>>> attrs.pop("more"), attrs.setdefault("n", 9), list(attrs.items())
(True, 4, [('n', 4), ('subject', {'id': 'm7'})])
>>> attrs.refresh()
Attributes({'n': 4, 'subject': {'id': 'm7'}})
>>> list(attrs.values())
[4, {'id': 'm7'}]
>>> attrs.clear()
>>> len(attrs)
0

`change` applies a function to what is stored, which no other writer changes meanwhile; `popitem`
takes one out.

>>> attrs.change(lambda known: {**known, "n": 5})
>>> attrs.popitem()
('n', 5)
""",
    "KvStore": """
Keys and values are bytes. `read` tells the generation of a value, on condition of which `write` changes it.

>>> import chunkwise
>>> store = chunkwise.KvStore.open("memory://kvstore-methods/").result()
>>> stamp = store.write("a/1", b"first").result()
>>> found = store.read("a/1").result()
>>> found.value, found.stamp.generation == stamp.generation
(b'first', True)
>>> store.write("a/1", b"second", if_equal=stamp.generation).result().generation != b""
True
>>> store.write("a/2", b"other").result() is not None, store.list().result()
(True, [b'a/1', b'a/2'])
>>> store.delete_range(chunkwise.KvStore.KeyRange("a/2", "a/3")).result()
>>> store.list().result()
[b'a/1']

`spec` opens the same store again; `copy` gives a handle of its own.

>>> store.spec().to_json(), store.copy().url
({'driver': 'memory', 'path': 'kvstore-methods/'}, 'memory://kvstore-methods/')

`with_transaction` gives the same store with changes that appear at the commit. In OCDBT
`experimental_copy_range_to` gives keys the values of others, and copies no bytes.

>>> transaction = chunkwise.Transaction()
>>> store.with_transaction(transaction).write("a/3", b"third").result() is not None
True
>>> transaction.commit_sync()
>>> store["a/3"]
b'third'
>>> database = chunkwise.KvStore.open("memory://kvstore-database/|ocdbt:").result()
>>> database["from/a"] = b"first"
>>> (database / "from/").experimental_copy_range_to(database / "to/").result()
>>> sorted(database.list().result())
[b'from/a', b'to/a']
""",
    "Transaction": """
Others see the writes of a transaction after the commit, or never after `abort`.

>>> import chunkwise
>>> store = chunkwise.KvStore.open("memory://transaction-methods/").result()
>>> transaction = chunkwise.Transaction()
>>> _ = store.with_transaction(transaction).write("a", b"1").result()
>>> store.list().result()
[]
>>> transaction.commit_async().result()
>>> store.list().result()
[b'a']
>>> transaction = chunkwise.Transaction()
>>> _ = store.with_transaction(transaction).write("b", b"2").result()
>>> transaction.abort()
>>> store.list().result()
[b'a']
>>> transaction = chunkwise.Transaction()
>>> _ = store.with_transaction(transaction).write("c", b"3").result()
>>> transaction.commit_sync()
>>> store.list().result()
[b'a', b'c']
""",
    "Batch": """
Reads of a batch begin together, with as few requests as the store allows, when it is submitted.

>>> import numpy as np
>>> import chunkwise
>>> array = chunkwise.array(np.arange(10))
>>> batch = chunkwise.Batch()
>>> parts = [array[i : i + 2].read(batch=batch) for i in (0, 6)]
>>> batch.submit()
>>> [part.result().tolist() for part in parts]
[[0, 1], [6, 7]]

`defer` has other work begin with the batch.

>>> batch = chunkwise.Batch()
>>> later = batch.defer(lambda: array[:2].read())
>>> batch.submit()
>>> later.result().tolist()
[0, 1]
""",
    "Spec": """
`update` changes a copy or the spec itself, `transpose` and indexing the view that it opens, `to_json` gives
its text.

>>> import chunkwise
>>> spec = chunkwise.Spec({"driver": "zarr3", "kvstore": "memory://spec-methods/", "dtype": "uint8"})
>>> other = spec.copy()
>>> other.update(shape=[4, 6], create=True)
>>> other.to_json()["create"], other.shape, spec.rank
(True, (4, 6), None)
>>> other.transpose([1, 0]).shape
(6, 4)
""",
    "Schema": """
`update` adds constraints, which must agree with those that are there; `to_json` and `copy` as of a spec.

>>> import chunkwise
>>> schema = chunkwise.Schema(dtype="uint8", shape=[4, 6])
>>> more = schema.copy()
>>> more.update(fill_value=7)
>>> more.to_json()["fill_value"], schema.fill_value
(7, None)
>>> more.transpose([1, 0]).domain
{ [0, 6), [0, 4) }

`merged` satisfies both, `with_domain`, `with_one` and `without_fill_value` change or keep a member,
`is_met_by` and `converted_fill_value` ask.

>>> both = schema.merged(chunkwise.Schema(fill_value=9))
>>> int(both.converted_fill_value(chunkwise.uint8)), both.is_met_by(chunkwise.uint8, 2)
(9, False)
>>> both.without_fill_value().fill_value is None, both.with_one("fill_value").to_json()
(True, {'dtype': 'uint8', 'fill_value': 9, 'rank': 2})
>>> schema.with_domain(chunkwise.IndexDomain(shape=[2, 3])).shape
(2, 3)

`transformed` is the schema of a view, and `inverse_transformed` that of the array from the view's.

>>> swap = chunkwise.IndexTransform(schema.domain).transpose([1, 0])
>>> schema.transformed(swap).shape, schema.transformed(swap).inverse_transformed(swap).shape
((6, 4), (4, 6))
""",
    "ChunkLayout": """
`to_json` gives the constraints, and `update` adds some.

>>> import chunkwise
>>> layout = chunkwise.ChunkLayout(chunk_shape=[10, 20])
>>> layout.update(inner_order=[1, 0])
>>> layout.to_json()["inner_order"]
[1, 0]

`merged` has the constraints of both, `copy` is independent, `become` takes all of another, `set_rank` fixes
the rank, `finalized` settles what follows.

>>> both = layout.merged(chunkwise.ChunkLayout(grid_origin=[0, 0]))
>>> both.grid_origin, both.copy() == both
((0, 0), True)
>>> other = chunkwise.ChunkLayout()
>>> other.set_rank(2)
>>> other.become(both)
>>> other.finalized().read_chunk.shape
(10, 20)
""",
    "CodecSpec": """
>>> import chunkwise
>>> codec = chunkwise.CodecSpec({"driver": "zarr3"})
>>> other = chunkwise.CodecSpec({"driver": "zarr3", "codecs": [{"name": "gzip"}]})
>>> codec.merge(other).to_json()["codecs"][0]["name"]
'gzip'
""",
    "IndexDomain": _DOMAINS
    + """
`transpose` reorders dimensions, by number or label.

>>> first.transpose(["x", "y"]).labels, first.to_json()["exclusive_max"]
(('x', 'y'), [4, 6])
""",
    "Dim": """
`hull` is the smallest interval that contains both, `intersect` what both have.

>>> import chunkwise
>>> first = chunkwise.Dim(inclusive_min=0, exclusive_max=5)
>>> second = chunkwise.Dim(inclusive_min=3, exclusive_max=9)
>>> first.hull(second), first.intersect(second)
(Dim(inclusive_min=0, exclusive_max=9), Dim(inclusive_min=3, exclusive_max=5))
""",
    "IndexTransform": """
`compose` applies one after the other, `inverse` goes back, `identity` changes nothing.

>>> import chunkwise
>>> shift = chunkwise.IndexTransform(3)[chunkwise.d[0].translate_by[5]]
>>> shift.compose(shift.inverse()) == chunkwise.IndexTransform.identity(shift.domain)
True
>>> shift.transpose([2, 0, 1]).domain.rank, shift.to_json()["input_rank"]
(3, 3)
""",
    "Future": _FUTURE,
    "Promise": _FUTURE
    + "\n`set_cancelled` ends it without a result.\n\n>>> promise, future = chunkwise.Promise.new()\n"
    ">>> promise.set_cancelled()\n>>> future.cancelled()\nTrue\n",
    "Unit": """
>>> import chunkwise
>>> chunkwise.Unit("3.5 nm").to_json()
[3.5, 'nm']
""",
    "DataType": """
>>> import chunkwise
>>> chunkwise.DataType("uint16").to_json(), int(chunkwise.uint16.zero())
('uint16', 0)

`of_extension` makes one of a description that another package has; see [Plug-ins](../plugins.md).

>>> from types import SimpleNamespace
>>> import numpy as np
>>> tenths = SimpleNamespace(name="example.tenths", memory_dtype=np.dtype("u1"), to_json=dict)
>>> chunkwise.DataType.of_extension(tenths).name
'example.tenths'
""",
    "OpenMode": """
>>> import chunkwise
>>> chunkwise.OpenMode(create=True, open=True).to_json()
{'open': True, 'create': True}

`to_flags` names all flags, `merged` and `updated` add those of another, `resolved` is what is done.

>>> mode = chunkwise.OpenMode(create=True)
>>> [name for name, flag in mode.to_flags().items() if flag]
['create']
>>> mode.merged(chunkwise.OpenMode(open=True)), mode.updated(chunkwise.OpenMode(open=True))
(OpenMode(open=True, create=True), OpenMode(open=True))
>>> chunkwise.OpenMode().resolved()
OpenMode(open=True)
""",
    "WriteFutures": """
The methods are those of the future `commit`; `copy` is done as soon as the source may be changed.

>>> import numpy as np
>>> import chunkwise
>>> array = chunkwise.array(np.zeros(4))
>>> written = array[:2].write(np.ones(2))
>>> written.force()
>>> written.result(timeout=5)
>>> written.done(), written.cancel(), written.cancelled(), written.exception()
(True, False, False, None)
>>> written.add_done_callback(lambda commit: print("stored"))
stored
>>> written.remove_done_callback(print)
0

`of` makes a pair of two futures, `failed` one of a write that failed before it began.

>>> chunkwise.WriteFutures.of(written.copy, written.commit).done()
True
>>> chunkwise.WriteFutures.failed(ValueError("no")).exception()
ValueError('no')
""",
    "CopyPlan": """
`to_json` and `from_json` keep a plan in a file.

>>> import numpy as np
>>> import chunkwise
>>> source = chunkwise.array(np.zeros((8, 8)))
>>> plan = chunkwise.plan_copy(source, "memory://copy-plan-methods/", chunks=[4, 8])
>>> chunkwise.CopyPlan.from_json(plan.to_json()) == plan
True
""",
    "MultiscaleImage": """
`level_for` finds the level for a size of voxels, `available` leaves out levels that can't be opened; `view`
is a widget for notebooks.

>>> import tempfile
>>> import numpy as np
>>> import chunkwise
>>> path = tempfile.mkdtemp() + "/image.zarr"
>>> scan = chunkwise.array(np.zeros((64, 96), "uint16"))
>>> _ = chunkwise.downsample_pyramid(scan, path, units=["0.5 um"] * 2, levels=2).result()
>>> image = chunkwise.open_multiscale(path)
>>> image.level_for("1 um"), len(image.available().levels)
(1, 3)
>>> widget = image.view()
""",
    "ImageCollection": """
It is a mapping: `keys`, `values`, `items` and `get` are those of one, and open an image where they return it.

>>> import tempfile
>>> import numpy as np
>>> import chunkwise
>>> group = chunkwise.create_group(tempfile.mkdtemp() + "/series.zarr")
>>> group.attrs["ome"] = {"version": "0.5", "bioformats2raw.layout": 3}
>>> scan = chunkwise.array(np.zeros((64, 96), "uint16"))
>>> _ = chunkwise.downsample_pyramid(scan, group.location.text + "/0", levels=1).result()
>>> images = chunkwise.open_multiscale(group)
>>> list(images.keys()), [name for name, _ in images.items()]
(['0'], ['0'])
>>> [len(image.levels) for image in images.values()]
[2]
>>> images.get("1") is None
True
""",
    "N5Blocks": """
`region` is the shape of a block, `read` gives the values of many, `block` and `put_block` take it as it is
stored; `update` changes one that others may change too.

>>> import tempfile
>>> import chunkwise
>>> place = tempfile.mkdtemp() + "/container.n5/ids"
>>> ids = chunkwise.create_n5_blocks(place, dimensions=[7, 8], block_size=[4, 4], data_type="uint64")
>>> ids[0, 1] = [3, 5]
>>> ids.region((1, 1))
(3, 4)
>>> [int(n) for n in ids.update((0, 1), lambda known: [*known, 8])]
[3, 5, 8]
>>> ids.put_block((1, 1), ids.block((0, 1)))
>>> ids.read().shape
(2, 2)
""",
    "OutputIndexMaps": """
It is a sequence: `index` and `count` are those of one.

>>> import chunkwise
>>> maps = chunkwise.IndexTransform(3).output
>>> maps.index(maps[1]), maps.count(maps[1])
(1, 1)
""",
}
METHODS["dtype"] = METHODS["DataType"]
"""Texts and examples by class."""


def covers(name: str, method: str) -> bool:
    """Return whether the examples of a class call a method."""
    return f".{method}(" in METHODS.get(name, "")
