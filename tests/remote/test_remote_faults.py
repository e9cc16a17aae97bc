"""Faults on the network end in a right result or in an error that names the cause."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from child_process import Children

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.objects.connection import learned
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.objects.read import Pages
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import MISSING_GENERATION
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots
from chunkwise.core.kvstore.web.http import HttpStore

QUICK = Limits(Slots(), Retries(3, 0.02, 0.1))
VALUE = bytes(range(256)) * 400


def xml(code: str, more: str = "") -> str:
    return f"<Error><Code>{code}</Code><Message>m</Message>{more}</Error>"


@pytest.fixture
def store(s3: ObjectStore, between: Any) -> ObjectStore:
    """A bucket behind the proxy, with one value."""
    s3.write("k", VALUE)
    assert isinstance(s3.bucket, S3Bucket)
    return ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)


@pytest.mark.each_once
@pytest.mark.parametrize("action", ["reset", "reset_after", "truncate", "slow", "500", "503", "429", "502"])
@pytest.mark.parametrize("part", [(0, None), (100, 50_000), (-70_000, None)])
def test_passing_failures_are_not_seen(
    store: ObjectStore, between: Any, action: str, part: tuple[int, int | None]
) -> None:
    """A read that fails twice is made again and gives the value."""
    between.set({"method": "GET", "path": "/k", "action": action, "times": 1 if action == "slow" else 2})
    found = store.open_reader()("k", *part)
    assert found is not None and bytes(found) == VALUE[slice(*part)]
    assert len(between.log()) == (1 if action == "slow" else 3)


LASTING: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"action": "reset"}, errors.UnavailableError, "check the endpoint and the network"),
    ({"action": "500"}, errors.UnavailableError, "HTTP status 500.*the server failed"),
    (
        {"action": "503", "body": xml("SlowDown")},
        errors.ThrottledError,
        "SlowDown.*lower the request concurr",
    ),
    ({"action": "403", "body": xml("AccessDenied")}, errors.PermissionDeniedError, "check the permissions"),
    ({"action": "403", "body": xml("ExpiredToken")}, errors.CredentialsError, "expired; get new credentials"),
    (
        {"action": "403", "body": xml("SignatureDoesNotMatch")},
        errors.CredentialsError,
        "secret does not belong",
    ),
    ({"action": "400", "body": xml("ExpiredToken")}, errors.CredentialsError, "expired; get new credentials"),
    ({"action": "404", "body": xml("NoSuchBucket")}, errors.BucketNotFoundError, "name of the bucket"),
    (
        {"action": "301", "body": xml("PermanentRedirect", "<Endpoint>x</Endpoint>")},
        errors.WrongEndpointError,
        "another region has the bucket",
    ),
    (
        {"action": "400", "body": xml("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>")},
        errors.WrongEndpointError,
        'the bucket is in "eu-west-3"',
    ),
]


@pytest.mark.parametrize(("fault", "kind", "text"), LASTING, ids=lambda v: str(v)[:60])
def test_lasting_failures_name_the_cause(
    store: ObjectStore, between: Any, fault: dict[str, Any], kind: type[Exception], text: str
) -> None:
    """A read that fails for good is an error of its own type, with the URL; never a missing value."""
    between.set({**fault, "times": 10**6})
    with pytest.raises(kind, match=text) as e:
        store.open_reader()("k")
    assert type(e.value) is kind
    assert store.bucket.url("k") in str(e.value)
    assert isinstance(e.value, OSError)


def test_only_a_definite_answer_is_missing(store: ObjectStore, between: Any) -> None:
    """A 404 without a reason is about the key only if the bucket can be listed."""
    between.set()
    assert store.open_reader()("none") is None
    bare = {"method": "GET", "path": "/bare", "action": "404", "times": 10**6}
    between.set(bare)
    assert store.open_reader()("bare") is None
    assert isinstance(store.bucket, S3Bucket)
    other = ObjectStore(replace(store.bucket, bucket="no-such-bucket"), QUICK)
    between.set(bare)
    with pytest.raises(errors.BucketNotFoundError):
        other.open_reader()("bare")
    with pytest.raises(errors.BucketNotFoundError):
        other.read("k")
    with pytest.raises(errors.BucketNotFoundError):
        list(other.list())
    with pytest.raises(errors.BucketNotFoundError):
        other.write("k", b"")


def test_nobody_there() -> None:
    """A port that nobody listens on, and a host that has no address, are errors after the retries."""
    for endpoint in ("http://127.0.0.1:1", "http://nowhere.invalid"):
        store = ObjectStore(S3Bucket("bucket", endpoint=endpoint), Limits(Slots(), Retries(1, 0.01, 0.01)))
        with pytest.raises(errors.UnavailableError, match="check the endpoint and the network"):
            store.read("k")
    web = HttpStore("http://127.0.0.1:1", (), Limits(Slots(), Retries(1, 0.01, 0.01)))
    with pytest.raises(errors.UnavailableError, match="after 2 attempts"):
        web.read("k")


def test_wrong_e_tag(store: ObjectStore, between: Any) -> None:
    """A condition on a generation that the server never had does not hold, and nothing is written."""
    between.set({"method": "GET", "path": "/k", "action": "etag"})
    wrong = store.read("k").generation
    assert wrong == b'\0"wrong"'
    assert store.write("k", b"new", if_equal=wrong) is None
    assert store.read("k").value == VALUE


def test_lost_answer_of_a_conditional_write(store: ObjectStore, between: Any) -> None:
    """If the answer to a write is lost, what is stored says whether it was done; nothing is doubled."""
    generation = store.read("k").generation
    store.conditional_writes("k")
    between.set({"method": "PUT", "path": "/k", "action": "reset_after"})
    done = store.write("k", b"new", if_equal=generation)
    assert store.read("k").value == b"new"
    assert done == store.read("k").generation


def over_obstore(bucket: S3Bucket, endpoint: str) -> ObjectStore:
    """The same bucket, opened with obstore, which makes requests again itself."""
    retries = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
    backoff = {
        "init_backoff": timedelta(milliseconds=5),
        "max_backoff": timedelta(milliseconds=20),
        "base": 2,
    }
    made = obstore.store.S3Store(
        bucket.bucket,
        endpoint=endpoint,
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={**retries, "backoff": backoff},
        virtual_hosted_style_request=False,
    )
    return ObjectStore(ForeignBucket(made), QUICK)


@pytest.mark.each_once
@pytest.mark.parametrize("action", ["reset", "reset_after", "500"])
@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("create", [True, False])
def test_obstore_tells_whose_write_was_carried_out(
    store: ObjectStore, s3: ObjectStore, between: Any, action: str, times: int, create: bool
) -> None:
    """Its stores keep marks, so another's equal value is never taken for ours, nor ours for another's."""
    assert isinstance(store.bucket, S3Bucket)
    foreign = over_obstore(store.bucket, between.url)
    key = "new" if create else "k"
    known = foreign.read(key).generation
    assert foreign.conditional_writes(key).keeps_marks
    between.set({"method": "PUT", "path": f"/{key}", "action": action, "times": times})
    done = foreign.write(key, b"5", if_equal=known)
    assert done == foreign.read(key).generation
    assert s3.read(key).value == b"5"
    between.set({"method": "PUT", "path": "/k", "action": action, "times": times})
    known = foreign.read("k").generation
    s3.write("k", b"6")
    with suppress(errors.LostAnswerError):
        assert foreign.write("k", b"6", if_equal=known) is None


@pytest.mark.parametrize("create", [True, False])
def test_without_marks_an_equal_value_is_not_taken_for_ours(
    store: ObjectStore, s3: ObjectStore, between: Any, create: bool
) -> None:
    """A store that keeps none can't tell: an error is better than a lost update."""
    key = "new" if create else "k"
    known = store.read(key).generation
    facts = store.conditional_writes(key)
    learned(store.bucket).conditional = facts._replace(keeps_marks=False)
    between.set({"method": "PUT", "path": f"/{key}", "action": "reset", "times": 1})
    s3.write(key, b"6")
    with pytest.raises(errors.LostAnswerError, match="keeps no marks"):
        store.write(key, b"6", if_equal=known)


@pytest.mark.each_once
@pytest.mark.parametrize("action", ["500", "503", "502", "reset", "UnknownError"])
@pytest.mark.parametrize("create", [True, False])
def test_another_writes_the_same_value_meanwhile(
    store: ObjectStore, s3: ObjectStore, between: Any, action: str, create: bool
) -> None:
    """A write that a server did not carry out is never taken for done because another's looks like it."""
    key = "new" if create else "k"
    known = store.read(key).generation
    store.conditional_writes(key)
    body = {"action": "500", "body": xml(action)} if action == "UnknownError" else {"action": action}
    between.set({"method": "PUT", "path": f"/{key}", "times": 1, **body})
    s3.write(key, b"6")
    if create or action == "UnknownError" or action == "503":  # Ceph's answer to who was too late
        assert store.write(key, b"6", if_equal=known) is None
    else:
        with pytest.raises(errors.LostAnswerError):
            store.write(key, b"6", if_equal=known)


def test_threads_count_on_a_server_that_fails(store: ObjectStore, between: Any) -> None:
    """Each read-modify-write that succeeded takes part in the result, whatever the server answers."""
    store.write("n", b"0")
    store.conditional_writes("n")
    between.set(
        *(
            {"method": "PUT", "path": "/n", "action": action, "times": 6}
            for action in ("500", "reset_after", "reset")
        )
    )
    done = []

    def add(_: int) -> None:
        for _ in range(10):
            found = store.read("n")
            with suppress(errors.LostAnswerError):
                new = b"%d" % (int(bytes(found.value or b"")) + 1)
                if store.write("n", new, if_equal=found.generation) is not None:
                    done.append(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    between.set()
    assert int(bytes(store.read("n").value or b"")) >= len(done) > 10


def test_servers_that_ignore_conditions(store: ObjectStore, between: Any) -> None:
    """They are found out; parts of chunks can't be changed then, whole ones can, and a promise helps."""
    assert isinstance(store.bucket, S3Bucket)
    between.set(ignore_conditions=True)
    kvstore = {"driver": "s3", "bucket": store.bucket.bucket, "endpoint": between.url, "path": "a/"}
    array = ts.open(
        {"driver": "zarr3", "kvstore": kvstore},
        create=True,
        dtype=ts.int32,
        shape=[8, 8],
        chunk_layout=ts.ChunkLayout(chunk_shape=[4, 4]),
    ).result()
    array[:4, :4].write(1).result()
    with pytest.raises(errors.UnsafeWriteError, match=r"single_writer.*align them to shape \(4, 4\)"):
        array[:2, :2].write(2).result()
    with pytest.raises(errors.UnsafeWriteError):
        array[4:6, :2].write(2).result()
    assert array.read().result().sum() == 16
    alone = ts.open({"driver": "zarr3", "kvstore": {**kvstore, "single_writer": True}}).result()
    alone[:2, :2].write(2).result()
    alone[4:6, :2].write(2).result()
    assert array.read().result().sum() == 28


def test_conditions_that_a_server_is_not_asked_to_keep(store: ObjectStore, between: Any) -> None:
    """They are tried out for nobody who says what the server does."""
    assert isinstance(store.bucket, S3Bucket)
    kvstore = {"driver": "s3", "bucket": store.bucket.bucket, "endpoint": between.url, "path": "a/"}
    spec = {"driver": "zarr3", "kvstore": {**kvstore, "use_conditional_write": False}}
    layout = ts.ChunkLayout(chunk_shape=[4])
    array = ts.open(spec, create=True, dtype=ts.int32, shape=[8], chunk_layout=layout).result()
    array[:4].write(1).result()
    with pytest.raises(errors.UnsafeWriteError, match="single_writer"):
        array[:2].write(2).result()
    assert not [k for k in ts.KvStore.open(kvstore).result().list().result() if b"probe" in k]
    alone = {**spec, "kvstore": {**kvstore, "use_conditional_write": False, "single_writer": True}}
    ts.open(alone).result()[:2].write(2).result()
    assert array.read().result().tolist() == [2, 2, 1, 1, 0, 0, 0, 0]


def test_conditions_that_a_server_has_to_keep(store: ObjectStore, between: Any) -> None:
    """A promise that nobody else writes is not taken in place of the server's."""
    assert isinstance(store.bucket, S3Bucket)
    between.set(ignore_conditions=True)
    members = {"use_conditional_write": True, "single_writer": True}
    kvstore = {
        "driver": "s3",
        "bucket": store.bucket.bucket,
        "endpoint": between.url,
        "path": "a/",
        **members,
    }
    with pytest.raises(errors.UnsafeWriteError):
        ts.open({"driver": "zarr3", "kvstore": kvstore}, create=True, dtype=ts.int32, shape=[8]).result()


def test_servers_that_want_e_tags_bare(s3: ObjectStore, between: Any) -> None:
    """A server that knows its own ETags only without quotation marks is written to all the same."""
    assert isinstance(s3.bucket, S3Bucket)
    between.set(bare_e_tags=True)
    store = ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)
    first = store.write("k", b"1", if_equal=MISSING_GENERATION)
    assert store.conditional_writes("k")[:3] == (True, True, False)
    second = store.write("k", b"2", if_equal=first)
    assert second is not None
    assert store.write("k", b"3", if_equal=first) is None
    assert store.read("k")[:2] == (b"2", second)


def test_anonymous_access_is_found(store: ObjectStore, between: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where credentials are refused, but nobody's are asked for, reading goes on without; once decided."""
    assert isinstance(store.bucket, S3Bucket)
    between.set(refuse_signed=True)
    assert store.read("k").value == VALUE
    n = len(between.log())
    assert n == 2
    store.read("k")
    assert len(between.log()) == n + 1
    between.set({"action": "403", "body": xml("AccessDenied"), "times": 10**6})
    other = ObjectStore(replace(store.bucket, requester_pays=True), QUICK)
    with pytest.raises(errors.PermissionDeniedError, match=r"with credentials: .* anonymously: "):
        other.read("k")


@pytest.fixture
def signed(s3: ObjectStore, between: Any) -> ObjectStore:
    """A store whose server compares signatures, which moto doesn't."""
    assert isinstance(s3.bucket, S3Bucket)
    between.set(secret=os.environ["AWS_SECRET_ACCESS_KEY"])
    return ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)


@pytest.mark.parametrize("server", ["signed", pytest.param("rgw", marks=pytest.mark.slow)])
def test_credentials_are_mended(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is about what is wrong with them; the request after it has those that there are then."""
    store: ObjectStore = request.getfixturevalue(server)
    right = os.environ["AWS_SECRET_ACCESS_KEY"]
    operations: list[Callable[[], Any]] = [
        lambda: store.write("k", VALUE),
        lambda: store.read("k"),
        lambda: list(store.list()),
    ]
    for operation in operations:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        learned(store.bucket).forget_access()
        for _ in range(2):
            with pytest.raises(
                errors.CredentialsError, match=r"does not belong .* anonymously: .*AccessDenied"
            ):
                operation()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", right)
        operation()
    assert store.read("k").value == VALUE


def test_a_listing_that_breaks_off() -> None:
    """It begins anew if asked another way; a page that can't be had later is an error, never the end."""

    class Library:
        def list(self, store: str, **_: Any) -> Iterator[list[str]]:
            if store == "open":
                yield ["a"]
            raise PermissionError("denied")

    library, pages = Library(), Pages("")
    with pytest.raises(PermissionError, match="denied"):
        pages(library, "closed")
    assert pages(library, "open") == ["a"]
    for _ in range(2):
        with pytest.raises(PermissionError, match="denied"):
            pages(library, "open")


def test_region_is_found(s3_bucket: S3Bucket, s3: ObjectStore, between: Any) -> None:
    """A server that tells the region of a bucket is asked again for it."""
    s3.write("k", VALUE)
    wrong = {"action": "400", "body": xml("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>")}
    between.set(wrong)
    store = ObjectStore(replace(s3_bucket, endpoint=between.url), QUICK)
    assert store.read("k").value == VALUE
    assert len(between.log()) == 2
    assert store._requests._connection.facts.access.region == "eu-west-3"


def test_faults_under_an_array(store: ObjectStore, between: Any) -> None:
    """Reading an array while every third request fails gives the array."""
    assert isinstance(store.bucket, S3Bucket)
    data = np.arange(64 * 32, dtype="i4").reshape(64, 32)
    kvstore = {
        "driver": "s3",
        "bucket": store.bucket.bucket,
        "endpoint": between.url,
        "path": "a/",
        "s3_request_retries": {"max_retries": 8, "initial_delay": "5ms", "max_delay": "20ms"},
    }
    between.set()
    array = ts.open(
        {"driver": "zarr3", "kvstore": kvstore},
        create=True,
        dtype=ts.int32,
        shape=data.shape,
        chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]),
    ).result()
    actions = ["reset", "500", "503", "truncate", "reset_after"]
    faults = [
        {"method": m, "path": "/a/c", "action": a, "times": 2} for a in actions[:3] for m in ("PUT", "GET")
    ]
    between.set(*faults)
    array[...].write(data).result()
    between.set(*[{"method": "GET", "path": "/a/c", "action": a, "times": 2} for a in actions])
    np.testing.assert_array_equal(array.read().result(), data)
    between.set({"method": "GET", "path": "/a/c/3/1", "action": "403", "times": 10**6})
    with pytest.raises(errors.PermissionDeniedError, match=r"Error reading .*a/c/3/1"):
        array.read().result()


@pytest.mark.parametrize("action", ["reset", "reset_after", "truncate", "500", "503", "slow"])
def test_http_failures_that_pass(
    tmp_path: Path, run_server: Callable[..., str], proxy: Callable[[str], Any], action: str
) -> None:
    (tmp_path / "k").write_bytes(VALUE)
    between = proxy(run_server("http_server.py", str(tmp_path)))
    between.set({"action": action, "times": 1 if action == "slow" else 2})
    web = HttpStore(between.url, (), QUICK)
    assert web.read("k").value == VALUE
    between.set({"action": action, "times": 10**6})
    if action == "slow":
        return
    with pytest.raises(errors.UnavailableError if action != "503" else errors.StorageError, match="/k"):
        web.read("k")


WRITER = """
    import sys
    import chunkwise as ts
    number, spec, n_each = int(sys.argv[1]), eval(sys.argv[2]), int(sys.argv[3])
    array = ts.open(spec).result()
    for i in range(n_each):
        array[(4 * i + number) % 400].write(100 * number + i + 1).result()
    kv = ts.KvStore.open(spec["kvstore"]).result()
    for i in range(10):
        while True:
            old = kv.read("counter").result()
            count = int(old.value or b"0") + 1
            done = kv.write("counter", str(count), if_equal=old.stamp.generation).result()
            if done.generation:
                break
"""


@pytest.mark.parametrize(
    ("name", "n_each"),
    [
        ("s3", 25),
        ("azure", 25),
        *(pytest.param(n, 100, marks=pytest.mark.slow) for n in ("s3", "azure", "rgw")),
    ],
)
def test_processes_lose_nothing(
    request: pytest.FixtureRequest, name: str, n_each: int, tmp_path: Path, children: Children
) -> None:
    """Four processes write elements that share chunks, and count in one key; all is there."""
    bucket = request.getfixturevalue(name).bucket
    if name != "azure":
        kvstore = {"driver": "s3", "bucket": bucket.bucket, "endpoint": bucket.endpoint, "path": "a/"}
    else:
        kvstore = {"driver": "azure", "container": bucket.container, "account_name": bucket.account}
        kvstore |= {"endpoint": bucket.endpoint, "path": "a/"}
    spec = {"driver": "zarr3", "kvstore": kvstore}
    array = ts.open(
        spec, create=True, dtype=ts.int32, shape=[400], chunk_layout=ts.ChunkLayout(chunk_shape=[200])
    ).result()
    script = tmp_path / "writer.py"
    script.write_text(textwrap.dedent(WRITER))
    writers = [
        children.start(
            [sys.executable, str(script), str(n), repr(spec), str(n_each)], stderr=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    for writer in writers:
        _, said = writer.communicate(timeout=200)
        assert writer.returncode == 0, said
    expected = np.zeros(400, "i4")
    for number in range(4):
        for i in range(n_each):
            expected[(4 * i + number) % 400] = 100 * number + i + 1
    np.testing.assert_array_equal(array.read().result(), expected)
    assert ts.KvStore.open(kvstore).result()["counter"] == b"40"
