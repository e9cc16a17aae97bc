"""Requirements of copies on an executor, as a suite of tests to inherit from.

Examples
--------
In a test module::

    class TestMyExecutor(ExecutorContract):
        code = "from mine import Pool; executor = Pool(2)"
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import chunkwise as cw
from chunkwise.errors import AbortedError, StorageError
from chunkwise.extension.trees import JOURNAL
from chunkwise.testing.executor_faults import (
    Around,
    Dying,
    Kept,
    Late,
    Reversed,
    Stopping,
    StoppingOne,
    call,
    slowly,
    twice,
    without_room,
)

__all__ = ["ExecutorContract"]

_SHAPE = (24, 40, 36)
_VALUES = np.random.default_rng(0).integers(0, 1 << 16, _SHAPE, "u2")
_MEMORY = 40_000  # so little that planes to columns takes two passes
_DRIVER = """
import sys
{code}
import chunkwise
{before}
try:
    chunkwise.{call}({source!r}, {target!r}, executor=executor, memory={memory}, sync=False, resume=True,
                     **{options!r})
finally:
    executor.shutdown()
"""
_DYING = "from chunkwise.testing.executor_faults import die_at_step; die_at_step({step}, {where!r})"
_LOSING = """
from chunkwise.testing.executor_faults import Around, Dying
executor = Around(executor, Dying({step}, {where!r}))
"""
_FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))"
_CLOCK = """
import time
right = time.time
time.time = lambda: right() + {seconds}
"""


class ExecutorContract:
    """The suite; a subclass says how the executor is made.

    Attributes
    ----------
    code : str
        Python that assigns the executor to the name ``executor``; it is run in this process and in others.
    in_process : bool
        True if tasks are done in the process that submits them, which then shares the fate of a worker.
    ends_together : bool
        True if all processes end when a worker is killed, also the one that submits tasks.
    """

    code: ClassVar[str] = ""
    in_process: ClassVar[bool] = False
    ends_together: ClassVar[bool] = False

    def driver_code(self) -> str:
        """Return `code`; for executors that are known better only when tests run."""
        return self.code

    @contextmanager
    def driver_code_in(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Yield code whose workers are started in an environment; by default by whoever runs the code."""
        yield self.driver_code()

    def _other_worker(self) -> Executor:
        """Return an executor with a worker that is stopped without others waiting for it."""
        if self.in_process:
            return ThreadPoolExecutor(1)
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    _shared: ClassVar[Executor | None] = None

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _end_shared(cls) -> Iterator[None]:
        yield
        if cls._shared is not None:
            cls._shared.shutdown(wait=False)
            cls._shared = None

    def _new_executor(self) -> Executor:
        names: dict[str, Any] = {}
        exec(self.driver_code(), names)
        executor: Executor = names["executor"]
        return executor

    def executor(self) -> Executor:
        """Return an executor with two workers, which the tests of the class share."""
        cls = type(self)
        if cls._shared is None:
            cls._shared = self._new_executor()
        return cls._shared

    @contextmanager
    def doomed_executor(self) -> Iterator[Executor]:
        """Yield an executor of this test's own, whose workers are not to be trusted afterwards."""
        executor = self._new_executor()
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)

    def read(self, path: Path) -> npt.NDArray[Any]:
        """Return the elements of an array of Zarr v3; a subclass may ask other software."""
        return cw.open(str(path)).result().read().result()

    @pytest.fixture
    def source(self, tmp_path: Path) -> str:
        """An array in planes."""
        path = str(tmp_path / "planes.zarr")
        cw.create_array(path, _VALUES, chunks=(1, 40, 36), codec="zstd:1")
        return path

    def copied(self, source: str, target: Path, executor: Executor | None, **options: Any) -> None:
        """Copy to columns in two passes, and compare."""
        options = {"chunks": (24, 4, 4), "memory": _MEMORY, "sync": False, "verify": True, **options}
        report = cw.copy(source, target, executor=executor, **options)
        assert len(report.plan.passes) == 2
        self.check(target)

    def check(self, target: Path) -> None:
        """Assert that the copy is whole, and that nothing else is left."""
        assert np.array_equal(self.read(target), _VALUES)
        assert not list(target.glob(".chunkwise*"))

    def drive(
        self,
        code: str,
        source: str,
        target: Path,
        *,
        before: str = "",
        environment: Mapping[str, str] | None = None,
        tree: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Copy an array, or a `tree`, in another process, which runs the text `before` first."""
        call, options = ("copy_tree", {}) if tree else ("copy", {"chunks": (24, 4, 4)})
        names = {"code": code, "before": before, "source": source, "target": str(target), "memory": _MEMORY}
        text = _DRIVER.format(**names, call=call, options=options)
        command = [sys.executable, "-c", text]
        around = {**os.environ, **(environment or {})}
        # A program that ends all processes of a lost driver may end those of its session.
        return subprocess.run(
            command, capture_output=True, text=True, timeout=200, env=around, start_new_session=True
        )

    def wrapped(
        self, source: str, target: Path, around: Callable[..., Any], n_calls: int = 1, **options: Any
    ) -> None:
        """Copy by way of a function that is called in the workers with each task."""
        self.copied(source, target, Around(self.executor(), around, n_calls), **options)

    def test_a_copy(self, source: str, tmp_path: Path) -> None:
        """Two passes, verified."""
        self.copied(source, tmp_path / "b.zarr", self.executor())

    def test_tasks_that_are_done_twice(self, source: str, tmp_path: Path) -> None:
        """One after the other, and at the same time."""
        self.wrapped(source, tmp_path / "b.zarr", twice)
        self.wrapped(source, tmp_path / "c.zarr", call, n_calls=2)

    def test_tasks_that_are_done_again(self, source: str, tmp_path: Path) -> None:
        """After each step, and when the copy is an array that another process has changed."""
        target = tmp_path / "b.zarr"
        kept = Kept(self.executor())
        self.copied(source, target, kept)
        array = cw.open(str(target)).result()
        array[:, 1:7] = 1
        for order in (1, -1):
            kept.again(order)
        assert not list(target.glob(".chunkwise*"))
        assert np.array_equal(self.read(target)[:, 7:], _VALUES[:, 7:])
        assert (self.read(target)[:, 1:7] == 1).all()

    @pytest.mark.parametrize(
        ("step", "name", "n"),
        [
            (0, "planes.zarr/c/", 2),
            (1, ".chunkwise-intermediate", 5),
            (1, "b.zarr/c/", 1),
            (1, "b.zarr/c/", 4),
        ],
    )
    def test_a_worker_that_is_stopped_across_the_end(
        self, source: str, tmp_path: Path, step: int, name: str, n: int
    ) -> None:
        """A late worker changes nothing, and leaves nothing."""
        target = tmp_path / "b.zarr"
        stopping = Stopping(name, n, str(tmp_path / "stopped"), by_signal=not self.in_process)
        with self._other_worker() as other:
            stopped = StoppingOne(self.executor(), step, other, stopping)
            self.copied(source, target, stopped)
            cw.open(str(target)).result()[:12] = 1
            stopping.go()
            assert stopped.late is not None and isinstance(stopped.late.exception(60), AbortedError)
        assert Path(tmp_path / "stopped").exists() and not list(target.glob(".chunkwise*"))
        assert (self.read(target)[:12] == 1).all()
        assert np.array_equal(self.read(target)[12:], _VALUES[12:])

    def test_results_in_another_order(self, source: str, tmp_path: Path) -> None:
        """The first submitted is heard of last."""
        self.copied(source, tmp_path / "b.zarr", Reversed(self.executor()))

    def test_a_worker_that_is_slow(self, source: str, tmp_path: Path) -> None:
        """Some tasks take much longer than others."""
        self.wrapped(source, tmp_path / "b.zarr", slowly)

    def test_a_worker_that_comes_late(self, source: str, tmp_path: Path) -> None:
        """Nothing happens for a while."""
        self.copied(source, tmp_path / "b.zarr", Late(self.executor()))

    @pytest.mark.parametrize("years", [3, -3])
    def test_a_worker_whose_clock_is_wrong(self, source: str, tmp_path: Path, years: int) -> None:
        """Its time is years away, from its start on."""
        folder, target = tmp_path / "clock", tmp_path / "b.zarr"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_CLOCK.format(seconds=years * 31_557_600))
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        environment = {"PYTHONPATH": path}
        with self.driver_code_in(environment) as code:
            done = self.drive(code, source, target, environment=environment)
        assert done.returncode == 0, done.stderr
        self.check(target)

    def test_a_disk_that_is_full(self, source: str, tmp_path: Path) -> None:
        """The copy ends with an error, and is resumed when there is room again."""
        target = tmp_path / "b.zarr"
        if self.in_process:
            done = self.drive(self.driver_code(), source, target, before=_FULL)
            assert done.returncode == 1 and "File too large" in done.stderr, done.stderr
        else:
            with self.doomed_executor() as executor, pytest.raises(StorageError, match="File too large"):
                self.copied(source, target, Around(executor, without_room))
        assert (tmp_path / "b.zarr" / JOURNAL).exists()
        assert not (tmp_path / "b.zarr/zarr.json").exists()
        self.copied(source, tmp_path / "b.zarr", self.executor(), resume=True)

    @pytest.mark.parametrize("step", [2, 30, 150])
    def test_a_worker_killed_at_a_step(self, source: str, tmp_path: Path, step: int) -> None:
        """Its tasks are done by others, or the copy is resumed if the executor is broken."""
        if self.in_process:
            self.test_a_driver_killed_at_a_step(source, tmp_path, step)
            return
        target, where = tmp_path / "b.zarr", str(tmp_path / "dead")
        if self.ends_together:
            done = self.drive(
                self.driver_code(), source, target, before=_LOSING.format(step=step, where=where)
            )
            assert bool(done.returncode) == Path(where).exists(), done.stderr
            self.copied(source, target, None, resume=True)
            return
        try:
            with self.doomed_executor() as executor:
                self.copied(source, target, Around(executor, Dying(step, where)))
        except ValueError as e:
            assert "broken" in str(e)
            self.copied(source, target, self.executor(), resume=True)
        assert Path(where).exists() or step > 30

    @pytest.mark.parametrize("step", [10, 40, 120])
    def test_a_driver_killed_at_a_step(self, source: str, tmp_path: Path, step: int) -> None:
        """The copy is no array until it is resumed, by threads of this process."""
        target, where = tmp_path / "b.zarr", str(tmp_path / "dead")
        done = self.drive(self.driver_code(), source, target, before=_DYING.format(step=step, where=where))
        killed = Path(where).exists()
        assert killed == (done.returncode == -signal.SIGKILL), done.stderr
        if killed and not (target / "zarr.json").exists():
            with pytest.raises(ValueError, match=r"NOT_FOUND|FAILED_PRECONDITION"):
                cw.open(str(target)).result()
        self.copied(source, target, None, resume=True)

    @pytest.fixture
    def tree(self, source: str, tmp_path: Path) -> str:
        """A larger array in planes, and small ones in groups."""
        group = cw.create_group(tmp_path / "tree.zarr", attributes={"a": 1})
        group.copy(cw.open(source).result(), "planes")
        for i in range(12):
            group.create_array(f"g{i % 3}/a{i}", np.arange(9) + i, chunks=(4,), attributes={"i": i})
        return str(tmp_path / "tree.zarr")

    def tree_copied(self, tree: str, target: Path, executor: Executor | None, **options: Any) -> None:
        """Copy the tree and compare."""
        cw.copy_tree(tree, target, executor=executor, memory=_MEMORY, sync=False, **options)
        assert not list(cw.diff(tree, target, layout=True)) and not list(target.rglob(".chunkwise*"))

    def test_a_tree(self, tree: str, tmp_path: Path) -> None:
        """With all that can befall its tasks at the same time, verified."""
        several = Reversed(Around(self.executor(), twice))
        self.tree_copied(tree, tmp_path / "b.zarr", several, verify=True, keep_fingerprint=True)
        found = [report.fingerprint for report in cw.verify(tmp_path / "b.zarr") if report.kind == "array"]
        assert found == [True] * 13

    @pytest.mark.parametrize("step", [3, 90])
    def test_a_worker_killed_in_a_tree(self, tree: str, tmp_path: Path, step: int) -> None:
        """Its arrays are copied by others, or the copy is resumed if the executor is broken."""
        if self.in_process:
            self.test_a_driver_killed_in_a_tree(tree, tmp_path, step)
            return
        target, where = tmp_path / "b.zarr", str(tmp_path / "dead")
        try:
            with self.doomed_executor() as executor:
                self.tree_copied(tree, target, Around(executor, Dying(step, where)))
        except ValueError as e:
            assert "broken" in str(e)
            self.tree_copied(tree, target, self.executor(), resume=True)
        assert Path(where).exists() or step > 30

    @pytest.mark.parametrize("step", [15, 80])
    def test_a_driver_killed_in_a_tree(self, tree: str, tmp_path: Path, step: int) -> None:
        """The copy is no group until it is resumed, by threads of this process."""
        target, where = tmp_path / "b.zarr", str(tmp_path / "dead")
        before = _DYING.format(step=step, where=where)
        done = self.drive(self.driver_code(), tree, target, before=before, tree=True)
        killed = Path(where).exists()
        assert killed == (done.returncode == -signal.SIGKILL), done.stderr
        if killed and not (target / "zarr.json").exists():
            with pytest.raises(ValueError, match=r"NOT_FOUND|unfinished"):
                cw.open_group(str(target))
        self.tree_copied(tree, target, None, resume=True)

    def test_the_journal_says_what_is_done(self, source: str, tmp_path: Path) -> None:
        """An interrupted copy goes on where it was."""
        target = tmp_path / "b.zarr"
        seen: list[int] = []

        def stop(nbytes: int) -> None:
            seen.append(nbytes)
            if sum(seen) > _VALUES.nbytes // 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.copied(source, target, self.executor(), progress=stop)
        assert json.loads((target / JOURNAL).read_text())["done"][-1]
        options: dict[str, Any] = {"executor": self.executor(), "chunks": (24, 4, 4), "sync": False}
        report = cw.copy(source, target, **options, resume=True)
        assert 0 < report.nbytes_copied < _VALUES.nbytes
        self.check(target)
