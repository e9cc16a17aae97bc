"""What copies need of an executor, as a suite of tests to inherit from.

Examples
--------
In a test module::

    class TestMyExecutor(ExecutorContract):
        code = "from mine import Pool; executor = Pool(2)"
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import chunkwise as cw
from chunkwise.errors import StorageError
from chunkwise.hierarchy.node import JOURNAL

__all__ = ["ExecutorContract"]

_SHAPE = (24, 40, 36)
_VALUES = np.random.default_rng(0).integers(0, 1 << 16, _SHAPE, "u2")
_MEMORY = 40_000  # so little that planes to columns takes two passes
_STEPS = ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "fcntl.flock")
_DRIVER = """
import sys
{code}
import chunkwise
{before}
try:
    chunkwise.copy({source!r}, {target!r}, executor=executor, chunks=(24, 4, 4), memory={memory}, sync=False,
                   resume=True)
finally:
    executor.shutdown()
"""
_DYING = "from chunkwise.testing.executor_contract import die_at_step; die_at_step({step}, {where!r})"
_LOSING = """
from chunkwise.testing.executor_contract import Around, Dying
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
        True if tasks are done in the process that submits them: what befalls a worker befalls that, too.
    ends_together : bool
        True if all processes end when a worker is killed, also the one that submits tasks.
    """

    code: ClassVar[str] = ""
    in_process: ClassVar[bool] = False
    ends_together: ClassVar[bool] = False

    def driver_code(self) -> str:
        """Return `code`; for executors of which more is known only when tests run."""
        return self.code

    @contextmanager
    def driver_code_in(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Yield code whose workers are started in an environment; by default by whoever runs the code."""
        yield self.driver_code()

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """Yield an executor with two workers."""
        names: dict[str, Any] = {}
        exec(self.driver_code(), names)
        executor: Executor = names["executor"]
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
    ) -> subprocess.CompletedProcess[str]:
        """Copy in another process, which runs the text `before` first."""
        text = _DRIVER.format(code=code, before=before, source=source, target=str(target), memory=_MEMORY)
        command = [sys.executable, "-c", text]
        around = {**os.environ, **(environment or {})}
        # What ends all processes of a driver that is lost may take its session for that.
        return subprocess.run(
            command, capture_output=True, text=True, timeout=200, env=around, start_new_session=True
        )

    def wrapped(
        self, source: str, target: Path, around: Callable[..., Any], n_calls: int = 1, **options: Any
    ) -> None:
        """Copy by way of a function that is called in the workers with each task."""
        with self.executor() as executor:
            self.copied(source, target, Around(executor, around, n_calls), **options)

    def test_a_copy(self, source: str, tmp_path: Path) -> None:
        """Two passes, verified."""
        with self.executor() as executor:
            self.copied(source, tmp_path / "b.zarr", executor)

    def test_tasks_that_are_done_twice(self, source: str, tmp_path: Path) -> None:
        """One after the other, and at the same time."""
        self.wrapped(source, tmp_path / "b.zarr", _twice)
        self.wrapped(source, tmp_path / "c.zarr", _call, n_calls=2)

    def test_results_in_another_order(self, source: str, tmp_path: Path) -> None:
        """What was submitted first is heard of last."""
        with self.executor() as executor:
            self.copied(source, tmp_path / "b.zarr", _Reversed(executor))

    def test_a_worker_that_is_slow(self, source: str, tmp_path: Path) -> None:
        """Some tasks take much longer than others."""
        self.wrapped(source, tmp_path / "b.zarr", _slowly)

    def test_a_worker_that_comes_late(self, source: str, tmp_path: Path) -> None:
        """Nothing happens for a while."""
        with self.executor() as executor:
            self.copied(source, tmp_path / "b.zarr", _Late(executor))

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
            with self.executor() as executor, pytest.raises(StorageError, match="File too large"):
                self.copied(source, target, Around(executor, _without_room))
        assert (tmp_path / "b.zarr" / JOURNAL).exists()
        assert not (tmp_path / "b.zarr/zarr.json").exists()
        with self.executor() as executor:
            self.copied(source, tmp_path / "b.zarr", executor, resume=True)

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
            with self.executor() as executor:
                self.copied(source, target, Around(executor, Dying(step, where)))
        except ValueError as e:
            assert "broken" in str(e)
            with self.executor() as executor:
                self.copied(source, target, executor, resume=True)
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

    def test_the_journal_says_what_is_done(self, source: str, tmp_path: Path) -> None:
        """An interrupted copy goes on where it was."""
        target = tmp_path / "b.zarr"
        seen: list[int] = []

        def stop(nbytes: int) -> None:
            seen.append(nbytes)
            if sum(seen) > _VALUES.nbytes // 2:
                raise KeyboardInterrupt

        with self.executor() as executor, pytest.raises(KeyboardInterrupt):
            self.copied(source, target, executor, progress=stop)
        assert json.loads((target / JOURNAL).read_text())["done"][0]
        with self.executor() as executor:
            report = cw.copy(source, target, executor=executor, chunks=(24, 4, 4), sync=False, resume=True)
        assert 0 < report.nbytes_copied < _VALUES.nbytes
        self.check(target)


class Around(Executor):
    """Submits calls of a function that calls the task; the last of several calls gives the result."""

    def __init__(self, executor: Executor, around: Callable[..., Any], n_calls: int = 1) -> None:
        self._executor, self._around, self._n_calls = executor, around, n_calls

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        others = [self._executor.submit(self._around, fn, *args) for _ in range(self._n_calls - 1)]
        future = self._executor.submit(self._around, fn, *args)
        for other in others:
            other.result()
        return future


class _Reversed(Executor):
    """Holds results back and gives the last ones first."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._held: list[tuple[Future[Any], Future[Any]]] = []
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()
        with self._lock:
            self._held.append((self._executor.submit(fn, *args, **kwargs), outer))
            if len(self._held) == 1:
                threading.Timer(0.1, self._give).start()
        return outer

    def _give(self) -> None:
        with self._lock:
            held, self._held = self._held, []
        for inner, outer in reversed(held):
            try:
                outer.set_result(inner.result())
            except BaseException as e:
                outer.set_exception(e)


class _Late(Executor):
    """Begins some time after the first task has come."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._open = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        if self._open.is_set():
            return self._executor.submit(fn, *args, **kwargs)
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()

        def start() -> None:
            self._open.set()
            try:
                outer.set_result(self._executor.submit(fn, *args, **kwargs).result())
            except BaseException as e:
                outer.set_exception(e)

        threading.Timer(0.5, start).start()
        return outer


def _call(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


def _twice(fn: Callable[..., Any], *args: Any) -> Any:
    fn(*args)
    return fn(*args)


def _slowly(fn: Callable[..., Any], *args: Any) -> Any:
    if args[-2] % 16 == 0:
        time.sleep(0.3)
    return fn(*args)


def _without_room(fn: Callable[..., Any], *args: Any) -> Any:
    import resource  # which Windows doesn't have

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        return fn(*args)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Dying:
    """Calls a task; the first worker that comes so far is killed at a step of its storage."""

    def __init__(self, step: int, where: str) -> None:
        self._step, self._where = step, where

    def __call__(self, fn: Callable[..., Any], *args: Any) -> Any:
        die_at_step(self._step, self._where)
        return fn(*args)


_counting: list[str] = []


def die_at_step(step: int, where: str) -> None:
    """Kill this process when it has opened, renamed, locked or removed files `step` times.

    Parameters
    ----------
    step : int
    where : str
        Path of a file that is made first; if it is there, some process has died already, and none does.
    """
    if where in _counting:
        return
    _counting.append(where)
    left = [step]

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _STEPS or left[0] <= 0 or "lib/python" in str(arguments[0]):
            return
        left[0] -= 1
        if left[0] == 0:
            with suppress(FileExistsError):
                os.close(os.open(where, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
