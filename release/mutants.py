"""Change one operator, number, condition or statement at a time, and list the changes that no test notices.

python release/mutants.py [--sample 30] [--seed 0] [--anew] [GROUP ...]

A group is a folder of the source with the tests that bear on it (``GROUPS``).  They run once with
coverage, which tells for each line the tests that enter it; this map is kept in build/mutants.  Then a sample
of mutants is made, each in a copy of the package.  The tests that enter its line run by files, those with the
quickest first, and then those that start processes, until one fails that passes without the change.  A mutant
that doesn't end is killed if the same tests end without it.  What isn't killed is kept in
build/mutants/GROUP.json, too.  release/equivalent.json has the mutants that change nothing a caller can see,
with the reason.

The tools of the index were looked at: mutmut's replaced functions are seen by tests of signatures, pickles
and calls, and neither it nor cosmic-ray chooses tests by line. Needs Linux or macOS, and `coverage`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"

# Source files, and the tests that bear on them.
GROUPS = {
    "engine": (
        ["core/engine/*.py"],
        [
            "tests/engine",
            "tests/api/test_array_info.py",
            "tests/api/test_batch.py",
            "tests/api/test_transaction.py",
            "tests/drivers/test_zarr3_fields.py",
            "tests/virtual/test_downsample.py",
        ],
    ),
    "plan": (["core/plan/*.py"], ["tests/plan", "tests/engine", "tests/virtual"]),
    "grid": (["core/grid.py"], ["tests/grid", "tests/plan", "tests/engine/test_read_write.py"]),
    "index_space": (
        ["core/index_space/*.py"],
        [
            "tests/index_space",
            "tests/parity/test_parity.py",
            "tests/bridges/test_numpy_keys.py",
            "tests/api/test_equality.py",
        ],
    ),
    "codec": (
        ["core/codec/*.py"],
        [
            "tests/codec",
            "tests/n5",
            "tests/precomputed/test_compressed_segmentation.py",
            "tests/precomputed/test_image_planes.py",
        ],
    ),
    "files": (
        ["core/kvstore/files/*.py", "core/kvstore/compare_and_swap.py", "core/kvstore/caches.py"],
        ["tests/kvstore", "tests/api/test_cache_pool.py", "tests/trees/test_symbolic_links.py"],
    ),
    "copying": (
        ["copying/journal.py", "copying/fence.py", "copying/planned_copy.py"],
        ["tests/copying"],
    ),
    "hdmf": (["hdmf/model/*.py"], ["tests/hdmf"]),
}
LONGEST = 20.0  # seconds of the tests that run first
MOST = 40  # tests that run first
MEMORY = 12 << 30  # bytes of addresses that the tests may use
VERDICTS = ("killed", "survives", "is entered by no test", "is not judged", "is equivalent")
EQUIVALENT = ROOT / "release" / "equivalent.json"


class Mutant(NamedTuple):
    """A change of one place in a file."""

    file: str
    line: int
    what: str
    text: str  # of the whole file


# -- making ----------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or,
    ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.Break: ast.Continue,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node can become, with a word for the change."""
    new: Any = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[only]) if type(only) in _OPERATORS:
            new.ops = [_OPERATORS[type(only)]()]
            yield f"{type(only).__name__} is {type(new.ops[0]).__name__}", new
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(new.op) in _OPERATORS:
            old = type(new.op).__name__
            new.op = _OPERATORS[type(new.op)]()
            yield f"{old} is {type(new.op).__name__}", new
        case ast.UnaryOp(op=ast.Not()):
            yield "not is gone", new.operand
        case ast.Constant(value=bool(value)):
            yield f"{value} is {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield f"{value} is {value + 1}", ast.Constant(value + 1)
        case ast.Break():
            yield "break is continue", ast.Continue()
        case ast.Expr(value=ast.Call()):
            yield f"{ast.unparse(node)} is not called", ast.Pass()
        case ast.With(items=[item]) if "lock" in ast.unparse(item).lower():
            yield f"with {ast.unparse(item)} is gone", ast.If(ast.Constant(True), new.body, [])
        case ast.If():
            new.test = ast.Constant(False)
            yield f"if {ast.unparse(node.test)} never", new  # type: ignore[attr-defined]
        case ast.IfExp():
            yield "if … else has its first value", new.body


_NOT_RUN = ("annotation", "returns", "decorator_list")


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of what functions of a file run, without defaults, texts and errors."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for parent in _parents(tree, in_function=False):
        for name, value in _run_fields(parent):
            held = value if isinstance(value, list) else [value]
            for at, child in enumerate(held):
                if not isinstance(child, ast.expr | ast.stmt):
                    continue
                for what, new in changes(child):
                    if isinstance(value, list):
                        value[at] = new
                    else:
                        setattr(parent, name, new)
                    text = ast.unparse(ast.fix_missing_locations(tree))
                    if isinstance(value, list):
                        value[at] = child
                    else:
                        setattr(parent, name, child)
                    yield Mutant(str(path.relative_to(SOURCE)), child.lineno, what, text)


def _parents(node: ast.AST, *, in_function: bool) -> Iterator[ast.AST]:
    """Yield each node in a function whose children may be changed."""
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if in_function:
        yield node
    for _, value in _run_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _parents(child, in_function=in_function)


def _run_fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node that may be changed."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.arguments):
        return
    match node:
        case ast.keyword(arg="strict"):  # lengths that are always equal
            return
        case ast.keyword(arg="copy", value=ast.Constant(value=False)):  # a copy has the same elements
            return
        case ast.Call(func=ast.Attribute(attr="reshape")):  # any negative size is the same
            yield "func", node.func
            return
    for name, value in ast.iter_fields(node):
        if name not in _NOT_RUN:
            yield name, value


# -- running ---------------------------------------------------------------------------------------------


class _Times:
    """A plugin that notes how long each test takes, and tells coverage which one runs."""

    def __init__(self, measured: Any) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        self._measured.switch_context(item.nodeid)
        start = time.monotonic()
        done = yield
        self.seconds[item.nodeid] = time.monotonic() - start
        return done


class _Chosen:
    """A plugin that runs some of the collected tests, by files, or all; it notes which one failed."""

    def __init__(self, tests: list[str], failed: Path) -> None:
        self._tests, self._failed = set(tests), failed
        # Tests of a file stay together, in their order: its fixtures may be made once.
        self._files = {test.partition("::")[0]: at for at, test in reversed([*enumerate(tests)])}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._tests:
            kept = [item for item in items if item.nodeid in self._tests]
            items[:] = sorted(kept, key=lambda item: self._files[item.nodeid.partition("::")[0]])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid)


def child(work: Callable[[], int], seconds: float) -> int | None:
    """Run `work` in a process of its own; return its exit status, or None when it takes too long.

    Most processor time is used up by a loop without end, however much else the machine does.
    """
    number = os.fork()
    if not number:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        status = 70
        with contextlib.suppress(BaseException):
            status = int(work())
        os._exit(status)
    give_up = time.monotonic() + 3 * seconds
    status = None
    while status is None and time.monotonic() < give_up:
        found, how = os.waitpid(number, os.WNOHANG)
        if found:
            status = os.waitstatus_to_exitcode(how)
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(number, signal.SIGKILL)
    if status is None:
        os.waitpid(number, 0)
    return status


_STARTS = re.compile(r"subprocess|child_process|children|multiprocessing|os\.fork")
_PYTEST = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:npe2", "-m", "not slow"]


def in_processes(paths: list[str]) -> list[str]:
    """Return the files of tests that start processes, whose lines coverage doesn't see."""
    files = [
        file
        for path in paths
        for file in ([Path(path)] if path.endswith(".py") else Path(path).rglob("*.py"))
    ]
    return sorted(
        str(file) for file in files if file.name.startswith("test_") and _STARTS.search(file.read_text())
    )


def map_of(path: str) -> tuple[Any, dict[str, float]]:
    """Return which tests of a file or folder enter each line, and how long each takes."""
    name = path.replace("/", ".")
    data, times = BUILD / f"{name}.coverage", BUILD / f"{name}.json"
    if not times.exists():
        left_out = [f"--ignore={file}" for file in in_processes([path])]

        def measure() -> int:
            measured = coverage.Coverage(
                data_file=str(data), source=[str(SOURCE / "chunkwise")], config_file=False
            )
            measured.start()
            plugin = _Times(measured)
            pytest.main([*_PYTEST, path, *left_out], plugins=[plugin])
            measured.stop()
            measured.save()
            times.write_text(json.dumps(plugin.seconds))
            return 0

        print(f"{path} with coverage", flush=True)
        child(measure, 3600)
    known = coverage.CoverageData(str(data))
    known.read()
    return known, json.loads(times.read_text())


class Judge:
    """Says what the tests of a group say about a mutant.

    A test that fails without a change, too, kills nothing: what failed runs again with the unchanged file,
    without its comments, as a mutant is.
    """

    def __init__(self, times: dict[str, float], processes: list[str]) -> None:
        self._times, self._processes = times, processes
        self._sound: dict[tuple[str, str], bool] = {}  # by file and test: whether it passes without a change

    def verdict(self, mutant: Mutant, entering: set[str]) -> str:
        """Return "killed", "survives", "is entered by no test" or "is not judged", and by what."""
        by_time = sorted((seconds, test) for test, seconds in self._times.items() if test in entering)
        first: list[str] = []
        for seconds, test in by_time[:MOST]:
            if first and sum(self._times[one] for one in first) + seconds > LONGEST:
                break
            first.append(test)
        rest = [test for _, test in by_time[len(first) :]]
        for tests in (first, rest, self._processes):
            while tests:
                status, failed = self._run(mutant.file, mutant.text, tests)
                if status in (0, 5):  # all pass; all are left out
                    break
                if self._is_sound(mutant.file, failed or tests):
                    by = "no end" if status in (None, -signal.SIGXCPU, -signal.SIGKILL) else failed
                    return f"killed by {by or f'status {status}'}"
                if not failed:
                    return "is not judged: its tests don't end without it"
                tests = [test for test in tests if test not in (failed, failed.partition("::")[0])]
        return "survives" if entering else "is entered by no test"

    def _is_sound(self, file: str, tests: str | list[str]) -> bool:
        """Return whether tests pass with the unchanged file."""
        key = (file, str(tests))
        if key not in self._sound:
            original = ast.unparse(ast.parse((SOURCE / file).read_text(encoding="utf-8")))
            status, _ = self._run(file, original, [tests] if isinstance(tests, str) else tests)
            self._sound[key] = status == 0
        return self._sound[key]

    def _run(self, file: str, text: str, tests: list[str]) -> tuple[int | None, str]:
        """Run tests until one fails, with a text in place of a file; return the status, and which failed."""
        place, failed = BUILD / "src", BUILD / "failed"
        target = place / file
        original = target.read_bytes()
        target.write_text(text, encoding="utf-8")
        failed.write_text("")

        def run() -> int:
            sys.path.insert(0, str(place))
            os.environ["PYTHONPATH"] = str(place)
            sys.dont_write_bytecode = True
            # Not all names of tests can be given as arguments.
            paths = sorted({test.partition("::")[0] for test in tests})
            plugin = _Chosen([test for test in tests if "::" in test], failed)
            return pytest.main([*_PYTEST, "-x", *paths], plugins=[plugin])

        try:
            seconds = 30 + 3 * sum(self._times.get(test, 30.0) for test in tests)
            return child(run, seconds), failed.read_text()
        finally:
            target.write_bytes(original)


def run_group(group: str, n: int, seed: int) -> dict[str, int]:
    """Print what becomes of a sample of mutants, and keep those that aren't killed; return the numbers."""
    files, folders = GROUPS[group]
    whys = {(e["file"], e["text"], e["what"]): e["why"] for e in json.loads(EQUIVALENT.read_text())}
    maps = [map_of(folder) for folder in folders]
    times = {test: seconds for _, found in maps for test, seconds in found.items()}
    judge = Judge(times, in_processes(folders))
    paths = [path for pattern in files for path in sorted((SOURCE / "chunkwise").glob(pattern))]
    found = [mutant for path in paths for mutant in mutants_of(path)]
    sample = random.Random(seed).sample(found, min(n, len(found)))
    left, numbers = [], dict.fromkeys(VERDICTS, 0)
    for at, mutant in enumerate(sample):
        file = str(SOURCE / mutant.file)
        entering = {test for known, _ in maps for test in known.contexts_by_lineno(file).get(mutant.line, [])}
        line = (SOURCE / mutant.file).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
        why = whys.get((mutant.file, line, mutant.what))
        told = f"is equivalent: {why}" if why else judge.verdict(mutant, entering & times.keys())
        print(
            f"{group} {at + 1}/{len(sample)} {mutant.file}:{mutant.line} {told}: {mutant.what}  |  {line}",
            flush=True,
        )
        (verdict,) = (verdict for verdict in VERDICTS if told.startswith(verdict))
        numbers[verdict] += 1
        if verdict not in ("killed", "is equivalent"):
            left.append(
                {**mutant._asdict(), "text": line, "told": told, "tests": len(entering & times.keys())}
            )
        (BUILD / f"{group}.json").write_text(json.dumps(left, indent=1))
    return numbers


def main() -> None:
    """Run all groups, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--sample", type=int, default=30, help="mutants of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--anew", action="store_true", help="make the maps anew")
    arguments = parser.parse_args()
    if arguments.anew:
        shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SOURCE, BUILD / "src", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    os.chdir(ROOT)
    rows = [
        (group, run_group(group, arguments.sample, arguments.seed)) for group in arguments.groups or GROUPS
    ]
    print("group       ", *VERDICTS, sep="  ")
    for group, numbers in rows:
        print(f"{group:12}", *(f"{numbers[verdict]:{len(verdict)}}" for verdict in VERDICTS), sep="  ")


if __name__ == "__main__":
    main()
