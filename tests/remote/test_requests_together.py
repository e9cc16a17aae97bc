"""Requests are made together where the answer to one doesn't decide on the next, and each is made once.

A proxy counts them, and how many are under way at the same time.  Until as many have been as a test expects,
it lets each wait for 160 ms after the last that came, so that a busy machine has the time to send the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as cw
from chunkwise.cli.main import main

N_GROUPS, N_EACH = 3, 8
N_ARRAYS = N_GROUPS * N_EACH
N_NODES = N_ARRAYS + N_GROUPS + 1


class Count(NamedTuple):
    """What a job may ask for: requests at most, and at least so many of them at a time."""

    most: int
    together: int


@pytest.fixture(scope="module")
def bucket(moto: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a bucket with a tree of each format and an array in shards."""
    url = f"s3://{new_s3_bucket(moto)}"
    local = tmp_path_factory.mktemp("trees")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3", moto)
        for format in ("zarr3", "zarr2", "n5"):
            tree = cw.create_group(local / format, format=format, attributes={"title": "t"})
            for i in range(N_ARRAYS):
                name = f"g{i % N_GROUPS}/a{i}"
                tree.create_array(name, np.arange(4, dtype=np.uint8), attributes={"i": i})
            for name in ("a", "gone"):
                cw.copy_tree(local / format, f"{url}/{format}/{name}")
        data = np.arange(16 * 4 * 4, dtype=np.uint16).reshape(16, 4, 4)
        cw.create_array(f"{url}/shards", data, chunks=(1, 4, 4), shards=(2, 4, 4), codec="none")
        cw.create_array(f"{url}/rows", data, chunks=(1, 4, 4), codec="none")
    return url


@pytest.fixture
def count(bucket: str, between: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Check what a job asks for."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", between.url)

    def counted(job: Callable[[], Any], wanted: Count) -> None:
        between.set(delay=0.16, gather=wanted.together)
        job()
        log, at_a_time = between.log(), max(between.flight(), default=0)
        between.set()
        assert len(log) <= wanted.most, "\n".join(log)
        assert at_a_time >= wanted.together, "\n".join(log)

    return counted


def _walk(place: str) -> None:
    assert len(list(cw.open_group(place).walk())) == N_ARRAYS + N_GROUPS


# Zarr v2 asks for .zarray, then for .zgroup of what is none, and for attributes.
TREES: dict[str, tuple[Callable[[str], Any], Count]] = {
    "walk": (_walk, Count(2 * N_NODES, 8)),
    "members": (lambda place: dict(cw.open_group(place).items()), Count(6 * N_GROUPS, N_GROUPS)),
    "tree": (lambda place: main(["tree", place]), Count(2 * N_NODES + 8, 8)),
    "info": (lambda place: main(["info", place]), Count(2 * N_NODES + 20, 8)),
    "verify": (lambda place: main(["verify", place]), Count(6 * N_NODES, 8)),
}


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("job", TREES)
def test_trees(count: Callable[..., None], bucket: str, capsys: Any, format: str, job: str) -> None:
    act, wanted = TREES[job]
    count(lambda: act(f"{bucket}/{format}/a"), wanted)


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_deletion(count: Callable[..., None], bucket: str, capsys: Any, format: str) -> None:
    """Documents are read once, although chunks are told from files of others by them, too.

    Taking turns with a replacement takes a trial of the bucket (7 requests), once in a process, and 4 more.
    """
    n = N_NODES + N_GROUPS + (N_GROUPS if format == "zarr2" else 0)  # and listings, and .zarray of a group
    count(lambda: main(["rm", "-r", f"{bucket}/{format}/gone"]), Count(n + 29, 8))
    assert not cw.KvStore.open(f"{bucket}/{format}/gone/").result().list().result()


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_consolidation(count: Callable[..., None], bucket: str, capsys: Any, format: str) -> None:
    """Each document is read once; what changes meanwhile is seen by a listing."""
    place = f"{bucket}/{format}/a"
    n = N_NODES if format == "zarr3" else 2 * N_NODES + 3 * N_GROUPS  # .zarray, .zgroup, .zattrs
    count(lambda: main(["consolidate", place]), Count(n + 2 * N_GROUPS + 14, 8))
    count(lambda: main(["consolidate", "--check", place]), Count(n + 4 * N_GROUPS, 8))
    count(lambda: cw.open_group(place)["g1/a1"], Count(2, 1))
    assert main(["consolidate", "--remove", place]) == 0


@pytest.mark.each_once
@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_copies_of_trees(
    count: Callable[..., None], bucket: str, tmp_path: Any, capsys: Any, format: str, way: str
) -> None:
    """Small arrays are copied together: a request for each document and each chunk, and some at the ends."""
    local, there = str(tmp_path / "x"), f"{bucket}/{format}/a"
    if way == "up":
        assert main(["cp", "-r", there, local]) == 0
        source, target = local, f"{bucket}/{format}/up"
    else:
        source, target = there, local
    count(lambda: main(["cp", "-r", source, target]), Count(6 * N_NODES + 40, 12))
    assert main(["diff", there, target] if way == "up" else ["verify", target]) == 0


def test_copy_of_shards(count: Callable[..., None], bucket: str, capsys: Any) -> None:
    """A read and a write of each of 8 shards, which nothing looks into afterwards; the rest are documents."""
    count(lambda: main(["cp", f"{bucket}/shards", f"{bucket}/copy"]), Count(2 * 8 + 70, 8))


def _array(place: str, format: str) -> Any:
    return cw.create_array(f"{place}/new/array", shape=(8,), dtype="uint8", chunks=(4,), format=format)


CREATIONS: dict[str, tuple[Callable[[str, str], Any], dict[str, int]]] = {
    "array": (_array, {"zarr3": 9, "zarr2": 12, "n5": 20}),  # 3 of them for .zarray above, afterwards
    "group": (
        lambda place, format: cw.create_group(f"{place}/new/group", format=format),
        {"zarr3": 9, "zarr2": 13, "n5": 26},
    ),
}


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("what", CREATIONS)
def test_creation(count: Callable[..., None], bucket: str, moto: str, format: str, what: str) -> None:
    """One look at the place and all directories above, in a round; the document; a look at copies above.

    With the last look, one at the document of who may be replacing what was there.
    """
    make, most = CREATIONS[what]
    place = f"s3://{new_s3_bucket(moto)}"
    _array(f"{place}/other", format)  # whether writes may be conditional is found out once
    count(lambda: make(f"{place}/{format}", format), Count(most[format], 2))


def test_nothing_is_found_out_with_one_look(count: Callable[..., None], bucket: str, capsys: Any) -> None:
    count(lambda: main(["info", f"{bucket}/zarr3/a/typo"]), Count(12, 4))
    assert "there is no array or group" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_creation_in_a_group(count: Callable[..., None], moto: str, format: str) -> None:
    """In an open group, nothing above it is looked at before."""
    group = cw.create_group(f"s3://{new_s3_bucket(moto)}/top/group", format=format)
    group.create_array("first", [1])
    most = {"zarr3": 8, "zarr2": 13, "n5": 14}[format]  # likewise
    count(lambda: group.create_array("second", [1]), Count(most, 2))
    assert group["second"][0].read().result() == 1


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_detection(count: Callable[..., None], bucket: str, format: str) -> None:
    """All formats are asked for together, and the document that is found is not asked for again."""
    count(lambda: cw.open(f"{bucket}/{format}/a/g0/a0").result(), Count(7, 6))


def _batched(array: Any) -> None:
    with cw.Batch() as batch:
        futures = [array[i, 0, 0].read(batch=batch) for i in range(16)]
    assert [int(future.result()) for future in futures] == [i * 16 for i in range(16)]


def _by_futures(array: Any) -> None:
    futures = [array[i, 0, 0].read() for i in range(16)]
    assert [int(future.result()) for future in futures] == [i * 16 for i in range(16)]


def _samples(array: Any) -> None:
    assert (array[1::2, 0, 0].read().result() == np.arange(1, 16, 2) * 16).all()


READS: dict[str, tuple[Callable[[Any], Any], Count]] = {
    "an element of each of 8 shards": (_samples, Count(16, 8)),
    "a plane through 8 shards": (lambda a: a[:, 1].read().result(), Count(8, 8)),
    "samples by futures": (
        lambda a: [future.result() for future in [a[i].read() for i in range(0, 16, 3)]],
        Count(12, 4),
    ),
    "16 samples by futures, an index for two": (_by_futures, Count(24, 8)),
    "16 samples in a batch": (_batched, Count(8, 2)),
}


@pytest.mark.parametrize("job", READS)
def test_reads_of_shards(count: Callable[..., None], bucket: str, job: str) -> None:
    act, wanted = READS[job]
    array = cw.open({"driver": "zarr3", "kvstore": f"{bucket}/shards/"}).result()
    count(lambda: act(array), wanted)


def test_appending(count: Callable[..., None], bucket: str) -> None:
    """A row is the document, which is only written, whether a copy above holds it, and the chunk."""
    place = {"driver": "zarr3", "kvstore": f"{bucket}/rows/"}
    cw.open(place).result().resize(exclusive_max=[20, 4, 4]).result()  # the first tries the bucket
    array = cw.open(place).result()

    def append() -> None:
        n = array.shape[0]
        grown = array.resize(exclusive_max=[n + 1, 4, 4]).result()
        grown[n].write(np.ones((4, 4), np.uint16)).result()

    count(append, Count(3, 1))
