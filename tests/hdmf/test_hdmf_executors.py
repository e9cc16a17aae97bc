"""Conversions whose large datasets are copied by executors: resumed, verified, bounded."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pynwb import NWBHDF5IO, H5DataIO, NWBFile, TimeSeries

from chunkwise import KvStore, open_group
from chunkwise.cli.main import main
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import (
    AlreadyExistsError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from chunkwise.hdmf import LossWarning, convert, read_nwb

SHAPE = (2048, 512)
R = np.random.default_rng(0)
DATA: dict[str, np.ndarray[Any, Any]] = {
    "signal": R.integers(0, 4096, SHAPE, "i2"),
    "contiguous": R.random(SHAPE).astype("f4"),
    "truth": R.random(SHAPE) < 0.5,
    "small": np.arange(100.0),
}
LARGE = sum(values.nbytes for values in DATA.values() if values.nbytes >= 1 << 20)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """pynwb warns of its own deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def write(path: Path, data: dict[str, Any]) -> None:
    nwb = NWBFile(
        session_description="a session",
        identifier="s-1",
        session_start_time=datetime(2024, 3, 1, tzinfo=UTC),
    )
    for name, values in data.items():
        nwb.add_acquisition(TimeSeries(name=name, data=values, unit="V", rate=1000.0))
    with NWBHDF5IO(str(path), "w") as io:
        io.write(nwb)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executors") / "a.nwb"
    packed = H5DataIO(DATA["signal"], chunks=(256, 512), compression="gzip", shuffle=True)
    write(path, {**DATA, "signal": packed})
    return path


def check(path: Path) -> None:
    nwb = read_nwb(path)
    for name, values in DATA.items():
        found = nwb.acquisition[name].data[...]
        assert found.dtype == values.dtype and np.array_equal(found, values), name
    assert nwb.identifier == "s-1"
    nwb.get_read_io().close()
    assert not list(path.rglob(".chunkwise-copy*")) and not (path / ".chunkwise-unfinished").exists()
    assert not list(path.rglob(".chunkwise-intermediate"))


class Counted(ThreadPoolExecutor):
    """Counts what it is given."""

    n = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.n += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("there", ["zarr3", "zarr2", "n5"])
def test_from_hdf5_and_back_to_zarr(source: Path, tmp_path: Path, there: Any) -> None:
    with Counted(2) as executor:
        convert(source, tmp_path / "b", format=there, executor=executor, verify=True)
        assert executor.n
        check(tmp_path / "b")
        executor.n = 0
        convert(tmp_path / "b", tmp_path / "c", format="zarr3", executor=executor, verify=True)
        assert executor.n
    check(tmp_path / "c")


def test_workers_copy_what_is_large_and_stored_as_it_is_used(source: Path, tmp_path: Path) -> None:
    told: list[int] = []
    convert(source, tmp_path / "b", verify=True, progress=told.append)
    assert sum(told) == DATA["small"].nbytes + 2 * LARGE
    told.clear()
    convert(source, tmp_path / "c", format="n5", verify=True, progress=told.append)
    # N5 has no truth: its numbers are written with the rest.
    assert sum(told) == DATA["small"].nbytes + 2 * LARGE - DATA["truth"].nbytes


def processes() -> Executor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


def dask() -> Executor:
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0")
    executor: Executor = Client(cluster, set_as_default=False).get_executor()
    executor.shutdown = lambda *a, **k: (executor._client.close(), cluster.close())  # type: ignore
    return executor


@pytest.mark.parametrize("start", [processes, dask])
def test_in_other_processes(source: Path, tmp_path: Path, start: Any) -> None:
    executor = start()
    try:
        convert(source, tmp_path / "b", executor=executor, memory="20MB", verify=True)
        check(tmp_path / "b")
        if start is processes:
            with pytest.raises(FailedPreconditionError, match="is in the memory of process"):
                convert(source, KvStore.open("memory://").result(), executor=executor)
    finally:
        executor.shutdown()


class Stop(Exception):
    pass


def interrupted(source: Path, target: Path, **options: Any) -> int:
    """Convert as far as some blocks; return their bytes."""
    told: list[int] = []

    def stop(nbytes: int) -> None:
        told.append(nbytes)
        if sum(told) > 1 << 20:
            raise Stop

    with pytest.raises(Stop):
        convert(source, target, memory="10MB", progress=stop, **options)
    assert (target / JOURNAL).exists()
    with pytest.raises(NotFoundError, match="interrupted"):
        read_nwb(target)
    return sum(told)


def test_it_is_resumed_by_others(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    interrupted(source, target, format="zarr2")
    with pytest.raises(AlreadyExistsError):
        convert(source, target, format="zarr2")
    for options in ({}, {"format": "zarr2", "codec": "gzip"}, {"format": "zarr2", "memory": "12MB"}):
        with pytest.raises(FailedPreconditionError, match="can't be resumed"):
            convert(source, target, resume=True, **options)  # type: ignore[arg-type]
    told: list[int] = []
    with ThreadPoolExecutor(2) as executor:
        convert(source, target, format="zarr2", executor=executor, resume=True, progress=told.append)
    assert sum(told) < sum(values.nbytes for values in DATA.values())
    check(target)
    with pytest.raises(AlreadyExistsError):
        convert(source, target, format="zarr2", resume=True)


def test_the_file_may_not_change_before_it_is_resumed(source: Path, tmp_path: Path) -> None:
    changed, target = tmp_path / "a.nwb", tmp_path / "b"
    changed.write_bytes(source.read_bytes())
    with ThreadPoolExecutor(
        2
    ) as executor:  # whose tasks have ended when it has; a late one takes back its chunk
        interrupted(changed, target, executor=executor)
    write(changed, {**DATA, "signal": DATA["signal"] + 1})
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    with pytest.raises(FailedPreconditionError, match="source is another one"):
        convert(changed, target, resume=True)
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == before
    changed.write_bytes(source.read_bytes())
    convert(changed, target, overwrite=True, verify=True)
    check(target)


def test_an_element_that_differs_is_found_and_copied_again(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    chunk = target / "acquisition/signal/data/c/3/0"
    damaged: list[int] = []

    def damage(nbytes: int) -> None:
        if not damaged and len(list(chunk.parent.parent.glob("*/0"))) == 8:  # it is copied, but not compared
            damaged.append(nbytes)
            chunk.write_bytes((chunk.parent.parent / "2/0").read_bytes())

    with pytest.raises(DataCorruptionError, match=r"dataset /acquisition/signal/data.*768"):
        convert(source, target, verify=True, progress=damage)
    convert(source, target, verify=True, resume=True)
    check(target)


def contents(target: Path, *, after: float = 0.0) -> dict[Path, bytes]:
    time.sleep(after)
    return {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}


def test_one_that_an_earlier_version_has_begun_is_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    interrupted(source, target)
    journal = json.loads((target / JOURNAL).read_text())
    journal["task"]["plans"] = journal["task"].pop("datasets")
    (target / JOURNAL).write_text(json.dumps(journal))
    before = contents(target)
    while (now := contents(target, after=0.5)) != before:  # tasks that had begun are ending
        before = now
    with pytest.raises(FailedPreconditionError, match="earlier version of chunkwise has begun it"):
        convert(source, target, resume=True)
    assert contents(target) == before


def test_small_datasets_are_verified_too(source: Path, tmp_path: Path) -> None:
    chunk = tmp_path / "b/acquisition/small/data/c/0"
    with pytest.raises(DataCorruptionError, match=r"/acquisition/small/data: values .99 of 100 differ"):
        convert(source, tmp_path / "b", verify=True, progress=lambda nbytes: chunk.unlink(missing_ok=True))
    convert(source, tmp_path / "b", verify=True, resume=True)
    check(tmp_path / "b")


def test_specifications_are_added_to_a_verified_copy(tmp_path: Path) -> None:
    write(tmp_path / "a.nwb", {"small": DATA["small"]})
    convert(tmp_path / "a.nwb", tmp_path / "b")
    group = open_group(tmp_path / "b", "r+")
    del group[group.attrs[".specloc"]], group.attrs[".specloc"]
    group.consolidate()
    with warnings.catch_warnings():
        warnings.simplefilter("error", LossWarning)
        convert(tmp_path / "b", tmp_path / "c", verify=True)
    assert ".specloc" in open_group(tmp_path / "c").attrs


def test_verified_without_its_broken_links(tmp_path: Path) -> None:
    write(tmp_path / "a.nwb", {"small": DATA["small"]})
    with h5py.File(tmp_path / "a.nwb", "a") as f:
        f["acquisition/broken"] = h5py.SoftLink("/nowhere")
    with pytest.warns(
        LossWarning, match="the copy differs from its source: acquisition/broken: structure|link"
    ):
        convert(tmp_path / "a.nwb", tmp_path / "b", verify=True, drop_broken_links=True)


_KILLED = """
from chunkwise.testing.executor_faults import die_at_step
from chunkwise.hdmf import convert
die_at_step({step}, {where!r})
convert({source!r}, {target!r}, memory="10MB")
"""


@pytest.mark.parametrize(("step", "begun"), [(240, False), (540, True)])
def test_the_process_is_killed(source: Path, tmp_path: Path, step: int, begun: bool) -> None:
    target, where = tmp_path / "b", tmp_path / "dead"
    code = _KILLED.format(step=step, where=str(where), source=str(source), target=str(target))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == -9 and where.exists(), done.stderr
    with pytest.raises(NotFoundError):
        read_nwb(target)
    assert (target / JOURNAL).exists() == begun
    if not begun:  # another process may be writing a file there
        with pytest.raises(AlreadyExistsError):
            convert(source, target, resume=True)
    convert(source, target, resume=begun, overwrite=not begun, verify=True)
    check(target)


def test_hdf5_is_written_by_one_process(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="by one process"):
        convert(source, tmp_path / "b.nwb", verify=True)


def test_the_command(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    command = ["nwb", "convert", str(source), str(target), "--format", "n5", "--quiet"]
    assert main([*command, "--on", "threads:2", "--memory", "20MB", "--verify"]) == 0
    check(target)
    assert main([*command, "--resume"]) == 1
    assert main([*command, "--on", "nobody"]) == 1
