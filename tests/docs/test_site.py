"""The examples of two pages, the drawings, and the pages of the reference."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize(("page", "n_asserts"), [("coming-from", 40), ("zarr", 4)])
def test_examples(page, n_asserts, tmp_path):
    """All examples run, one after the other, as they stand."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL))
    assert code.count("assert") >= n_asserts
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "library", ["tensorstore", "zarr-python", "z5py", "h5py", "hdmf-zarr", "tifffile", "xarray"]
)
def test_neighbours(library):
    """The page for those who come from elsewhere has a table and an example for each neighbour."""
    sections = re.split(r"^## ", (DOCS / "coming-from.md").read_text(), flags=re.MULTILINE)
    (section,) = (text for text in sections if text.split("\n", 1)[0].lower() == library)
    table = re.findall(r"^\| .* \| .* \|$", section.split("```", 1)[0], flags=re.MULTILINE)
    assert len(table) >= 6
    module = {"zarr-python": "zarr", "hdmf-zarr": "hdmf_zarr"}.get(library, library)
    assert re.search(rf"^(import|from) {module}\b", section, flags=re.MULTILINE)


def test_drawings():
    """Each drawing that a page asks for is made, as XML."""
    code = (
        "import re, sys, xml.dom.minidom\n"
        "from pathlib import Path\n"
        "from make import drawings\n"
        "for page in Path('docs').glob('*.md'):\n"
        "    for name in re.findall(r'<!-- drawing: (\\w+) -->', page.read_text()):\n"
        "        xml.dom.minidom.parseString(drawings.draw(name))\n"
        "        print(name)\n"
    )
    environment_path = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", environment_path + code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {"chunks", "shards", "pyramid", "stack", "volume", "speed", "layers"} <= set(done.stdout.split())


def test_reference():
    """Each public name has a page and an entry in the list; docstrings have no roles of Sphinx."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r})\n"
        "import chunkwise\n"
        "from chunkwise.core.dtypes.data_type import dtypes\n"
        "from make import members, reference\n"
        "pages = reference.pages()\n"
        "for name in set(chunkwise.__all__) - set(dtypes):\n"
        "    assert f'reference/{name}.md' in pages, name\n"
        "    assert f'[`{name}`]' in pages['reference/index.md'], name\n"
        "table = members.page()\n"
        "for name, member in (('s3', 'aws_region'), ('n5', 'blockSize'), ('blosc', 'clevel')):\n"
        "    assert f'| `{name}` | `{member}` |' in table, name\n"
        "rows = ['`zarr` | `zarr_format` | `2`', '`cache` | `directory` | string | `\"\"`']\n"
        "rows += ['`zarr3_sharding_indexed` | `index_location` | string | `\"end\"`']\n"
        "rows += ['`fill_missing_data_reads` | boolean | `true`', '`v2` | `separator` | string']\n"
        "rows += ['`aws_credentials` | `profile` | string', '`numcodecs.delta` | `dtype`']\n"
        "for row in rows:\n"
        "    assert f'| {row} |' in table, row\n"
        "assert not any(private in table for private in ('| tuple |', 'None', '_LIMIT', 'expect'))\n"
        "from chunkwise import errors\n"
        "page = reference.error_page()\n"
        "kinds = [errors.ChunkwiseError]\n"
        "for kind in kinds:\n"
        "    kinds += [one for one in kind.__subclasses__() if one.__module__ == 'chunkwise.errors']\n"
        "assert len(kinds) >= 30\n"
        "for kind in kinds[1:]:\n"
        "    assert f'\\n## {kind.__name__}\\n' in page, kind\n"
        "    assert not kind.status or f'\\n| `{kind.status}` |' in page, kind\n"
        "    for base in kind.__mro__:\n"
        "        own = base.__module__ != 'builtins' or base in (Exception, BaseException, object)\n"
        "        assert own or f'\\n| `{base.__name__}` |' in page, base\n"
        "assert '| `BlockingIOError` |' in page\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    roles = re.compile(r":(class|func|meth|mod|attr|exc|obj|data):`")
    assert [p for p in (ROOT / "src").rglob("*.py") if roles.search(p.read_text())] == []


def test_methods_are_documented(tmp_path):
    """Each has an example, in its docstring or beside it, and all run; docstrings name all parameters."""
    code = (
        f"import sys; sys.path.insert(0, {str(DOCS)!r})\n"
        "import doctest, inspect, re, chunkwise\n"
        "from chunkwise.core.dtypes.data_type import dtypes\n"
        "from make.methods import METHODS, covers\n"
        "runner, parse = doctest.DocTestRunner(), doctest.DocTestParser().get_doctest\n"
        "for name, text in METHODS.items():\n"
        "    runner.run(parse(text, {}, name, name, 0))\n"
        "assert not runner.summarize(verbose=False).failed\n"
        "def function(value, name):\n"
        "    found = inspect.getattr_static(value, name)\n"
        "    return getattr(found, '__func__', found)\n"
        "def unnamed(made):\n"
        "    section = (inspect.getdoc(made) or '').partition('Parameters\\n----------\\n')[2]\n"
        "    heads = re.findall(r'^[^ \\n].*', section, flags=re.MULTILINE)\n"
        "    named = {name for head in heads for name in re.findall(r'\\w+', head.partition(' :')[0])}\n"
        "    return set(inspect.signature(made).parameters) - {'self', 'cls'} - named\n"
        "for name in sorted(set(chunkwise.__all__) - set(dtypes)):\n"
        "    value = getattr(chunkwise, name)\n"
        "    methods = dir(value) if inspect.isclass(value) else ()\n"
        "    for method in (method for method in methods if not method.startswith('_')):\n"
        "        made = function(value, method)\n"
        "        if not inspect.isfunction(made):\n"
        "            continue\n"
        "        if '>>>' not in (inspect.getdoc(made) or '') and not covers(name, method):\n"
        "            print(f'{name}.{method} has no example')\n"
        "        if made.__module__.startswith('chunkwise') and unnamed(made):\n"
        "            print(f'{name}.{method} says nothing of', *sorted(unnamed(made)))\n"
        "    if inspect.isfunction(value) and unnamed(value):\n"
        "        print(f'{name} says nothing of', *sorted(unnamed(value)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == ""


def test_examples_of_names(tmp_path):
    """Each public name has an example, in its docstring or beside it, and all run."""
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'docs')!r}, {str(ROOT / 'tests')!r}]\n"
        "import doctest, inspect, chunkwise\n"
        "from chunkwise.core.dtypes.data_type import dtypes\n"
        "from make.examples import EXAMPLES\n"
        "runner, finder = doctest.DocTestRunner(), doctest.DocTestFinder()\n"
        "parse = doctest.DocTestParser().get_doctest\n"
        "n, done = 0, set()\n"
        "for name in sorted(set(chunkwise.__all__) - set(dtypes)):\n"
        "    value = getattr(chunkwise, name)\n"
        "    if name in EXAMPLES:\n"
        "        found = [parse(EXAMPLES[name], {}, name, name, 0)]\n"
        "    else:\n"
        "        found = finder.find(value, name, module=False, globs={})\n"
        "        found = [test for test in found if test.name == name or test.docstring not in done]\n"
        "    assert any(test.examples for test in found), name\n"
        "    for test in found:\n"
        "        done.add(test.docstring)\n"
        "        n += runner.run(test).attempted\n"
        "assert n > 200\n"
        "sys.exit(runner.summarize(verbose=False).failed)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
