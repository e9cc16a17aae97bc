"""Modules that ``import chunkwise`` and first uses load: none that they don't need."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chunkwise

# Of other distributions and the standard library: what few programs need, or what takes long to load.
FOREIGN = [
    "asyncio",
    "boto3",
    "concurrent.futures",
    "csv",
    "dask",
    "difflib",
    "email",
    "fsspec",
    "h5py",
    "hdmf",
    "http",
    "imagecodecs",
    "importlib.metadata",
    "obstore",
    "PIL",
    "pynwb",
    "rich",
    "socket",
    "ssl",
    "tempfile",
    "urllib3",
    "xarray",
    "zipfile",
]

OWN = [
    "chunkwise.core.arrays.cast",
    "chunkwise.core.arrays.downsample",
    "chunkwise.core.arrays.stack",
    "chunkwise.core.arrays.virtual_chunked",
    "chunkwise.cli",
    "chunkwise.dask",
    "chunkwise.groups",
    "chunkwise.hdmf",
    "chunkwise.core.kvstore.web.http",
    "chunkwise.core.kvstore.objects.object_store",
    "chunkwise.n5",
    "chunkwise.images.pyramid",
    "chunkwise.testing",
    "chunkwise.copying",
    "chunkwise.xarray",
]

# Compressors that the array of the test doesn't have.
COMPRESSORS = ["deflate", "fastcrc", "google_crc32c", "isal", "lz4", "numcodecs", "xxhash", "zstandard"]


def loaded_by(program: str, *arguments: str) -> set[str]:
    """Return the names of the modules that a new process has after `program`, beyond those NumPy loads."""
    tail = "import sys; print(*sys.modules)"
    run = [sys.executable, "-c"]
    before = subprocess.check_output([*run, f"import numpy, numpy.typing\n{tail}"], text=True)
    after = subprocess.check_output([*run, f"{program}\n{tail}", *arguments], text=True)
    return set(after.split()) - set(before.split())


@pytest.fixture
def path(tmp_path: Path) -> str:
    store = chunkwise.create_array(
        tmp_path / "a.zarr", np.arange(12, dtype="u2"), codec="none", format="zarr3"
    )
    assert store.codec is not None and store.codec.to_json()["codecs"][-1]["name"] == "bytes"
    return str(tmp_path / "a.zarr")


def test_import_loads_little() -> None:
    loaded = loaded_by("import chunkwise")
    assert "chunkwise.core.api.tensorstore" in loaded
    assert not loaded.intersection(FOREIGN + OWN + COMPRESSORS)


def test_a_local_read_loads_little(path: str) -> None:
    program = (
        "import sys, chunkwise\n"
        "spec = {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': sys.argv[1]}}\n"
        "assert chunkwise.open(spec, read=True).result()[3:5].read().result().tolist() == [3, 4]\n"
    )
    loaded = loaded_by(program, path)
    assert "chunkwise.core.driver.zarr3.format" in loaded
    assert not loaded.intersection(FOREIGN + OWN + COMPRESSORS)
    assert not loaded & {"chunkwise.core.driver.zarr2.format", "chunkwise.core.driver.n5.format"}


MOST_MODULES = {
    "import chunkwise": 140,
    "first read": 220,
    "first write": 220,
    "cp --help": 325,
    "pyramid --help": 360,
}
"""Bounds on the number of chunkwise's modules; about 0.3 ms of processor time each."""

HEAVY = ["hashlib", "html", "ipaddress", "logging", "pathlib", "shutil", "statistics", "urllib.parse", "uuid"]
"""Modules of the standard library that an open, a read and a write of a local array do without."""

FIRSTS = {
    "import chunkwise": "import chunkwise",
    "first read": "import sys, chunkwise\n"
    "chunkwise.open({'driver': 'zarr3', 'kvstore': 'file://' + sys.argv[1]}).result()[3:5].read().result()",
    "first write": "import sys, chunkwise\n"
    "spec = {'driver': 'zarr3', 'kvstore': 'file://' + sys.argv[1] + '.new'}\n"
    "new = chunkwise.open(spec, create=True, dtype='uint16', shape=[8]).result()\n"
    "new.write(range(8)).result()",
    "cp --help": "import contextlib, io\nfrom chunkwise.cli.main import main\n"
    "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
    "    main(['cp', '--help'])",
}
FIRSTS["pyramid --help"] = FIRSTS["cp --help"].replace("'cp'", "'pyramid'")


@pytest.mark.parametrize("first", FIRSTS)
def test_first_uses_load_few_modules(first: str, path: str) -> None:
    loaded = loaded_by(FIRSTS[first], path)
    own = {name for name in loaded if name.partition(".")[0] == "chunkwise"}
    assert 50 < len(own) <= MOST_MODULES[first]
    assert not loaded.intersection(["ssl", "xml"] if "help" in first else HEAVY)


def test_type_checkers_and_programs_find_the_names_in_the_same_modules() -> None:
    """Names that are loaded late are in a table, and once more in imports that only type checkers follow."""
    tree = ast.parse(Path(str(chunkwise.__file__)).read_text())
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "_TYPE_CHECKING"]
    imports = [n for n in block.body if isinstance(n, ast.ImportFrom)]
    static = {(f"{n.module}", name.name) for n in imports for name in n.names}
    (table,) = [
        n.value.args[1]
        for n in tree.body
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Call)
        and ast.unparse(n.value.func) == "_Later"
    ]
    late = {(module, name) for module, names in ast.literal_eval(table).items() for name in names}
    assert static == late | {("chunkwise", "xarray")}


def test_a_class_that_is_loaded_late_says_where_users_find_it() -> None:
    program = (
        "import chunkwise\n"
        "group = chunkwise.open_group('memory://g', 'w')\n"
        "print(*{type(x).__module__ for x in (group, group.attrs)})\n"
    )
    out = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert out.split() == ["chunkwise"]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'chunkwise' has no attribute 'opne'"):
        chunkwise.opne  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'opne'"):
        from chunkwise import opne  # type: ignore[attr-defined]  # noqa: F401


FIRST_USES = """
import signal, sys
import numpy as np
import chunkwise as ts

layout = ts.ChunkLayout(chunk_shape=[4])
spec = {"driver": sys.argv[2], "kvstore": sys.argv[1]}
array = ts.open(spec, create=True, dtype="int32", shape=[8], chunk_layout=layout).result()
loaded = set(sys.modules)


def handle(number, frame):
    array[0:2].write(1).result()
    array.write(np.arange(8, dtype="i4")).result()
    array[np.array([3, 0])].read().result()
    array.resize(exclusive_max=[4]).result()
    array.vindex[[True, False, True, False]].read().result()
    array.oindex[[2, 1]].write([2, 1]).result()
    array[0:2].write(array[2:4].translate_to[0]).result()
    array[2:4].write([2, 3]).result()
    array[0:2].write([0, 1]).result()
    array.storage_statistics(query_not_stored=True).result()
    new = [name for name in sys.modules if name not in loaded and name.startswith("chunkwise")]
    print(array.read().result().tolist(), new)


signal.signal(signal.SIGUSR1, handle)
signal.raise_signal(signal.SIGUSR1)
"""


@pytest.mark.parametrize(
    ("driver", "place"),
    [("zarr3", ""), ("zarr", ""), ("n5", ""), ("zarr3", "x.zip|zip:"), ("zarr3", "db/|ocdbt:")],
)
def test_first_uses_of_an_open_array_import_nothing(driver: str, place: str, tmp_path: Path) -> None:
    """A signal handler may be where the program itself was importing: what it uses is loaded on opening."""
    run = [sys.executable, "-c", FIRST_USES, f"file://{tmp_path}/{place}", driver]
    assert subprocess.check_output(run, text=True) == "[0, 1, 2, 3] []\n"
