"""Pages of the reference: one for each public name, and a list of all."""

from __future__ import annotations

import inspect
import re
from typing import Any

from make import support
from make.examples import EXAMPLES
from make.methods import METHODS

import chunkwise
from chunkwise import errors
from chunkwise.core.dtypes.data_type import dtypes

_GROUPS = {
    "Arrays": "open TensorStore read create_array array store copy copy_tree plan_copy CopyPlan "
    "ArrayCopyReport migrate Migration verify diff NodeReport BadKey Difference to_dask from_dask",
    "Images and pages": "open_multiscale MultiscaleImage ImageCollection Plate Well serve asgi_app",
    "Virtual arrays": "stack concat overlay cast downsample virtual_chunked VirtualChunkedReadParameters "
    "VirtualChunkedWriteParameters downsample_pyramid Pyramid PyramidProgress DownsampleMethod",
    "Trees": "open_group create_group Group Attributes Link create_container CopyReport N5Blocks "
    "create_n5_blocks open_n5_blocks open_label_multisets open_n5_uri",
    "Specs": "Spec Schema ChunkLayout CodecSpec Unit Context OpenMode RecheckCacheOption",
    "Index space": "IndexDomain IndexTransform Dim DimExpression DimSelection d inf newaxis OutputIndexMap "
    "OutputIndexMaps OutputIndexMethod Indexable",
    "Storage and concurrency": "KvStore Transaction Batch Future Promise WriteFutures StorageStatistics",
    "Data types": "DataType dtype",
}
"""Public names by purpose; the others come last."""

_CONSTANTS = {
    "DTypeLike": "A data type, its name, a type of NumPy or Python, or the fields of a structured type.",
    "DimSelectionLike": "A dimension by number or label, a slice of them, or several of these.",
    "DownsampleMethod": "Type of the method that makes one element of a cell.",
    "FutureLike": "A future, something else that can be awaited, or the value itself.",
    "NumpyIndexTerm": "One term of an index, such as an integer, a slice or an index array.",
    "NumpyIndexingSpec": "An index: one term, or a tuple of them.",
    "RecheckCacheOption": 'A bound on the staleness of cached data: true, false, `"open"` or a time.',
    "T": "The type of the result of a `Future`.",
    "d": 'Starts a dimension expression: `d[0, "x"]` selects dimensions by number and label.',
    "inf": "The index that stands for an infinite bound.",
    "newaxis": "Term of an index that adds a dimension of size 1.",
}
"""Summaries of names that are neither classes nor functions."""


_FOREIGN = {
    "BlockingIOError": "raised by HDF5 and h5py, not by chunkwise: another process has the file open for "
    "writing, and locked it. Close it there, or set the environment variable `HDF5_USE_FILE_LOCKING=FALSE`; "
    "chunkwise reads HDF5 files without locks",
    "BrokenProcessPool": "raised by `concurrent.futures`: a worker was killed, often for lack of memory",
    "ImportError": "an optional package is missing; the text names the extra that installs it, such as "
    '`pip install "chunkwise[cli]"`',
    "KeyboardInterrupt": "Ctrl-C; what was waited for is given up, and "
    "[each chunk is old or new](consistency.md#ctrl-c-timeouts-and-dropped-futures)",
    "TypeError": "an argument of a wrong type, or values that would be rounded or cut; the text says "
    "what was expected",
    "UserWarning": "what isn't an error and should be known; the text says what to do",
}
"""Exceptions of Python that aren't those of `chunkwise.errors`, and what to do."""

_FOR_OWN = "For your own codecs, data types and stores"
_OWN = {
    "codec.protocol": "Codec protocol",
    "dtypes.extension": "data types",
    "codec_contract": "contract of codecs",
    "kvstore_contract": "contract of stores",
}
"""Pages for authors of codecs, data types and stores, with their names in the index."""


_MODULES = (
    "chunkwise.testing.codec_contract",
    "chunkwise.testing.kvstore_contract",
    "chunkwise.core.codec.protocol",
    "chunkwise.core.dtypes.extension",
)


def groups() -> dict[str, list[str]]:
    """Return the names of the pages by purpose."""
    found = {title: listed.split() for title, listed in _GROUPS.items()}
    known = {name for listed in found.values() for name in listed}
    found["Other names"] = sorted(set(chunkwise.__all__) - set(dtypes) - known)
    return found | {_FOR_OWN: list(_OWN)}


def pages() -> dict[str, str]:
    """Return the text of each page by its path."""
    names = [name for name in chunkwise.__all__ if name not in dtypes]
    found = {f"reference/{name}.md": _page(f"chunkwise.{name}") for name in names}
    for module in _MODULES:
        found[f"reference/{module.removeprefix('chunkwise.core.').removeprefix('chunkwise.testing.')}.md"] = (
            _page(module)
        )
    found["reference/index.md"] = _index()
    found["data-types.md"] = _data_types()
    return found


def error_page() -> str:
    """Return the page of the exceptions, with cause and remedy of each from its docstring."""
    lines = [
        "# Errors and their causes",
        "",
        "Each exception is also the built-in one that TensorStore raises for the same cause, so that",
        "`except ValueError` written for TensorStore keeps working. The text begins with the status, if",
        "there is one. The operation, the key and the cause follow:",
        '`NOT_FOUND: Error opening "n5" driver: ...`. Errors about an unknown name have a note with the',
        "names that are known. All exceptions are members of `chunkwise.errors`.",
        "",
        "<!-- drawing: errors -->",
        "",
    ]
    lines += ["## Find an error by its name", "", "| name | what it means here |", "|---|---|"]
    lines += [
        f"| `{name}` | {text} |" for name, text in sorted(_built_in().items(), key=lambda i: i[0].lower())
    ]
    for name, value in exceptions().items():
        cause, way_out = (" ".join(part.split()) for part in (inspect.getdoc(value) or "").split("\n\n"))
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
        status = f" Status: `{value.status}`." if value.status else ""
        lines += ["", f"## {name}", "", f"Derived from {bases}.{status}", ""]
        lines += [f"**Cause.** {cause}", "", f"**Way out.** {way_out}"]
    return "\n".join(lines) + "\n"


def exceptions() -> dict[str, Any]:
    """Return all exceptions and warnings of `chunkwise.errors` by name."""
    kinds = (errors.ChunkwiseError, errors.LossWarning)
    found = {name: value for name, value in vars(errors).items() if inspect.isclass(value)}
    return {n: v for n, v in found.items() if issubclass(v, kinds) and v is not errors.ChunkwiseError}


def _built_in() -> dict[str, str]:
    """Return what Python's own exceptions mean, by name: those that errors derive from, and `_FOREIGN`."""
    found: dict[str, list[str]] = {}
    for name, value in exceptions().items():
        for base in inspect.getmro(value):
            if base.__module__ == "builtins" and base not in (Exception, BaseException, object, Warning):
                found.setdefault(base.__name__, []).append(f"[{name}](#{name.lower()})")
    texts = {name: f"one of {', '.join(derived)}" for name, derived in found.items()}
    for name, text in _FOREIGN.items():
        texts[name] = f"{texts[name]}; {text}" if name in texts else text
    statuses: dict[str, list[str]] = {}
    for name, value in exceptions().items():
        if value.status:
            statuses.setdefault(value.status, []).append(f"[{name}](#{name.lower()})")
    return texts | {status: f"status of {', '.join(names)}" for status, names in statuses.items()}


def source(name: str) -> str:
    """Return the file in the repository in which what a page of the reference describes is defined."""
    if not hasattr(chunkwise, name):
        module = next(m for m in _MODULES if m.endswith(name))
        return f"src/{module.replace('.', '/')}.py"
    try:
        file = inspect.getsourcefile(inspect.unwrap(getattr(chunkwise, name)))
    except TypeError:  # an alias or a constant
        file = None
    return "src/chunkwise" + file.rpartition("/src/chunkwise")[2] if file else "src/chunkwise/__init__.py"


def _page(name: str) -> str:
    title = name.rsplit(".", 1)[1]
    text = f"---\ntitle: {title}\n---\n\n::: {name}\n"
    if title in EXAMPLES:
        text += f"\n## Example\n\n```python\n{EXAMPLES[title].strip()}\n```\n"
    return text + _of_methods(METHODS.get(title, ""))


def _of_methods(examples: str) -> str:
    """Return the examples of the methods of a class as Markdown."""
    if not examples:
        return ""
    parts = re.split(r"\n\n+", examples.strip())
    shown = (f"```python\n{part}\n```" if part.startswith(">>>") else part for part in parts)
    return "\n## Examples of methods\n\n" + "\n\n".join(shown) + "\n"


def _data_types() -> str:
    """Return the page of the data types, each below a heading of its own."""
    lines = [
        "# Data types",
        "",
        "Each is a member of `chunkwise`, and its name is taken wherever a type is expected.",
    ]
    for name, one in dtypes.items():
        memory = one.memory_dtype
        size = (
            "no fixed size"
            if memory.hasobject
            else f"{memory.itemsize} bytes"
            if memory.itemsize > 1
            else "1 byte"
        )
        formats = [title for title, driver in support.DRIVERS.items() if support.takes(driver, name)]
        lines += [
            "",
            f"## {name}",
            "",
            f"{size}; in NumPy `{memory}`. Stored in {', '.join(formats) or 'no format'}.",
        ]
    return "\n".join(lines) + "\n"


def _index() -> str:
    lines = ["# Public names", "", "All of them are members of the module `chunkwise`.", ""]
    for title, listed in groups().items():
        lines += [f"## {title}", ""]
        if title == _FOR_OWN:
            lines.append(", ".join(f"[{words}]({name}.md)" for name, words in _OWN.items()) + ".")
            continue
        lines += ["| name | |", "|---|---|"]
        for name in listed:
            summary = _CONSTANTS.get(name) or _summary(getattr(chunkwise, name))
            lines.append(f"| [`{name}`]({name}.md) | {summary} |")
        lines.append("")
        if title == "Data types":
            lines += [
                "and one name for each data type: "
                + ", ".join(f"[`{name}`](../data-types.md#{name.lower()})" for name in dtypes)
                + ".",
                "",
            ]
    return "\n".join(lines) + "\n"


def _summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").split("\n", 1)[0].replace("|", "\\|")
