"""Several handles of one array, inside and outside a transaction: none writes over another array's data."""

import numpy as np
import pytest
import tensorstore
from tests.api.transaction_model import DRIVERS, STORES, place_of, run, seeds_of_today

import chunkwise
from chunkwise import Context, KvStore, Transaction


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("store", STORES)
def test_programs(driver, store, tmp_path):
    for seed in seeds_of_today(3, 0):
        run(seed, driver, place_of(store, tmp_path / str(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("store", STORES)
def test_many_programs(driver, store, tmp_path):
    for seed in seeds_of_today(100, 1):
        run(seed, driver, place_of(store, tmp_path / str(seed)))


def create(ts, place, context=None, transaction=None, dtype="float64", **options):
    return ts.open(
        place, create=True, dtype=dtype, shape=[8], context=context, transaction=transaction,
        chunk_layout=ts.ChunkLayout(chunk_shape=[4]), **options,
    ).result()  # fmt: skip


LIBRARIES = pytest.mark.parametrize("ts", [chunkwise, tensorstore], ids=["chunkwise", "tensorstore"])


@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
@pytest.mark.parametrize("store", ["memory", "file"])
@LIBRARIES
class TestAsTensorStore:
    def test_a_replaced_array_is_not_written(self, ts, driver, store, tmp_path):
        spec, context = {"driver": driver, "kvstore": place_of(store, tmp_path)}, ts.Context()
        array = create(ts, spec, context, dtype="int16")
        for start, stop in ((0, 4), (1, 3)):
            transaction = ts.Transaction()
            inside = array.with_transaction(transaction)
            new = create(ts, spec, context, delete_existing=True)
            with pytest.raises(
                ValueError, match=r"FAILED_PRECONDITION: .*incompatible with existing metadata"
            ):
                inside[start:stop].write(3).result()
            transaction.commit_sync()
            assert new.read().result().tolist() == [0] * 8
            array = create(ts, spec, context, delete_existing=True, dtype="int16")

    def test_an_array_replaced_in_the_transaction(self, ts, driver, store, tmp_path):
        spec, context = {"driver": driver, "kvstore": place_of(store, tmp_path)}, ts.Context()
        array = create(ts, spec, context, dtype="int16")
        transaction = ts.Transaction()
        inside = array.with_transaction(transaction)
        inside[0:4] = 3
        new = create(ts, spec, context, transaction, delete_existing=True)
        for use in (lambda: inside[0:4].write(3).result(), lambda: inside.read().result()):
            with pytest.raises(
                ValueError, match=r"FAILED_PRECONDITION: .*incompatible with existing metadata"
            ):
                use()
        new[4:6] = 5
        array[0:4] = 1
        transaction.commit_sync()
        with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
            array[0:4].write(1).result()
        assert ts.open(spec, context=context).result()[...].read().result().tolist() == [
            0,
            0,
            0,
            0,
            5,
            5,
            0,
            0,
        ]

    def test_one_view_of_the_shape(self, ts, driver, store, tmp_path):
        spec, context = {"driver": driver, "kvstore": place_of(store, tmp_path)}, ts.Context()
        array = create(ts, spec, context)
        transaction = ts.Transaction()
        one, other = array.with_transaction(transaction), array.with_transaction(transaction)
        assert one.resize(exclusive_max=[12]).result().shape == (12,)
        assert other.resolve().result().shape == (12,)
        other[8:12] = 3
        assert one[8:12].read().result().tolist() == [3] * 4
        assert array.resolve().result().shape == (8,)
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            array[8:12].write(3).result()
        transaction.commit_sync()
        assert array.resolve().result().shape == (12,)
        array.resize(exclusive_max=[16]).result()
        again = array.with_transaction(ts.Transaction())
        array.resize(exclusive_max=[20]).result()
        assert again.resolve().result().shape == (20,)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("change", ["replace", "delete", "shrink", "grow", "attributes"])
@pytest.mark.parametrize("part", [slice(4, 8), slice(5, 7)], ids=["whole", "part"])
def test_what_happened_before_the_commit(driver, store, change, part, tmp_path):
    """Through another context, after the writes; TensorStore writes garbage, and chunks that no array has."""
    place = place_of(store, tmp_path)
    spec, context = {"driver": driver, "kvstore": place}, Context()
    array = create(chunkwise, spec, context, dtype="int16")
    transaction = Transaction()
    array.with_transaction(transaction)[part] = 3
    other = context if store == "memory" else Context()
    again = chunkwise.open(spec, context=other).result()
    if change == "replace":
        create(chunkwise, spec, other, delete_existing=True)
    elif change == "delete":
        KvStore.open(place, context=other).result().delete_range(KvStore.KeyRange()).result()
    elif change == "attributes":
        again.attrs["a"] = 1
    else:
        again.resize(exclusive_max=[4 if change == "shrink" else 12]).result()
    if change in ("replace", "delete"):
        with pytest.raises(ValueError, match="FAILED_PRECONDITION: Error writing"):
            transaction.commit_sync()
        keys = KvStore.open(place, context=other).result().list().result()
        assert not any(key.endswith((b"0", b"1")) for key in keys)
        return
    transaction.commit_sync()
    found = chunkwise.open(spec, context=other).result().resize(exclusive_max=[8]).result()
    expected = [0] * 8
    if change != "shrink":
        expected[part] = [3] * (part.stop - part.start)
    assert found.read().result().tolist() == expected


@pytest.mark.parametrize("change", ["resize", "create"])
def test_a_document_that_others_have_changed_is_first(change, tmp_path):
    """Files are changed one by one: nothing is, if the document of the transaction is refused."""
    spec = {"driver": "zarr3", "kvstore": place_of("file", tmp_path)}
    transaction = Transaction()
    if change == "resize":
        inside = create(chunkwise, spec).with_transaction(transaction)
        inside.resize(exclusive_max=[4]).result()
        inside[0:4] = 3
    else:
        inside = create(chunkwise, spec, transaction=transaction)
        inside[...] = 3
    new = create(chunkwise, spec, dtype="int16", delete_existing=change == "resize")
    new[...] = np.full(8, 5, "int16")
    with pytest.raises(ValueError, match=r"ABORTED: Error writing .*zarr\.json"):
        transaction.commit_sync()
    assert new.read().result().tolist() == [5] * 8


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("store", STORES)
def test_a_resized_array_that_was_replaced_before_the_commit(driver, store, tmp_path):
    """Its chunks have another type by now: none is decoded before the document is compared."""
    place = place_of(store, tmp_path)
    spec, context = {"driver": driver, "kvstore": place}, Context()
    transaction = Transaction()
    inside = create(chunkwise, spec, context).with_transaction(transaction)
    inside[1:3] = 3
    inside.resize(exclusive_max=[12]).result()
    new = create(chunkwise, spec, context, dtype="int16", delete_existing=True)
    new[...] = np.arange(8, dtype="int16")
    for use in (lambda: inside.read().result(), lambda: inside[0:4].write(3).result()):
        with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
            use()
    with pytest.raises(ValueError, match=r"ABORTED: Error writing .*Generation mismatch"):
        transaction.commit_sync()
    found = chunkwise.open(spec, context=context).result()
    assert found.read().result().tolist() == list(range(8))


def test_a_resize_that_changes_nothing_is_no_change(tmp_path):
    spec, context = {"driver": "zarr3", "kvstore": place_of("file", tmp_path)}, Context()
    transaction = Transaction()
    create(chunkwise, spec, context).with_transaction(transaction).resize(exclusive_max=[8]).result()
    create(chunkwise, spec, context, dtype="int16", delete_existing=True)
    transaction.commit_sync()


VIRTUAL = {
    "cast": lambda ts, array: ts.cast(array, ts.float64),
    "stack": lambda ts, array: ts.overlay([array]),
    "view": lambda ts, array: array[::2],
    "lazy stack": lambda ts, array: ts.overlay([array.spec(retain_context=True)]),
}


@pytest.mark.parametrize("kind", VIRTUAL)
@pytest.mark.parametrize("when", ["before", "after"])
def test_virtual_arrays(kind, when, tmp_path):
    spec, context = {"driver": "zarr3", "kvstore": place_of("file", tmp_path)}, Context()
    array = create(chunkwise, spec, context, dtype="int16")
    transaction = Transaction()
    inside = VIRTUAL[kind](chunkwise, array).with_transaction(transaction)
    if when == "after":
        inside[0:2] = 3
        create(chunkwise, spec, Context(), delete_existing=True)
        with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
            transaction.commit_sync()
    else:
        create(chunkwise, spec, context, delete_existing=True)
        with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
            inside[0:2].write(3).result()
        transaction.commit_sync()
    assert chunkwise.open(spec).result().read().result().tolist() == [0] * 8


@pytest.mark.parametrize("sharded", [False, True])
def test_precomputed_volumes(sharded, tmp_path):
    scale = {"size": [8, 8, 8], "encoding": "raw", "chunk_size": [4, 4, 4], "resolution": [1, 1, 1]}
    if sharded:
        scale["sharding"] = {
            "@type": "neuroglancer_uint64_sharded_v1",
            "preshift_bits": 0,
            "minishard_bits": 0,
            "shard_bits": 0,
            "hash": "identity",
        }
    spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{tmp_path}/v/", "scale_metadata": scale}
    image = {"type": "image", "num_channels": 1}
    context = Context()

    def new(dtype, **options):
        multiscale = {**image, "data_type": dtype}
        return chunkwise.open(
            {**spec, "multiscale_metadata": multiscale}, create=True, delete_existing=True, **options
        ).result()

    array = new("uint8", context=context)
    transaction = Transaction()
    inside = array.with_transaction(transaction)
    inside[0:4] = 3
    found = new("float32", context=context)
    for handle in (inside, array):
        with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
            handle[0:4].write(3).result()
    with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
        transaction.commit_sync()
    assert not found.read().result().any()


def test_a_handle_opened_in_a_transaction_shares_its_metadata_after_it(tmp_path):
    spec, context = {"driver": "zarr3", "kvstore": place_of("file", tmp_path)}, Context()
    transaction = Transaction()
    inside = create(chunkwise, spec, context, transaction)
    inside[0:2] = 3
    transaction.commit_sync()
    array = inside.with_transaction(None)
    assert array[0:2].read().result().tolist() == [3, 3]
    chunkwise.open(spec, context=context).result().resize(exclusive_max=[12]).result()
    assert array.resolve().result().shape == (12,)
    new = create(chunkwise, spec, context, dtype="int16", delete_existing=True)
    with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
        array[0:4].write(3).result()
    assert not new.read().result().any()


def test_a_cache_pool_does_not_keep_what_a_commit_has_changed(tmp_path):
    spec = {"driver": "zarr3", "kvstore": place_of("file", tmp_path), "recheck_cached_metadata": False}
    context = Context({"cache_pool": {"total_bytes_limit": 10**6}})
    create(chunkwise, spec, context)
    with Transaction() as transaction:
        inside = chunkwise.open(spec, context=context, transaction=transaction).result()
        inside.resize(exclusive_max=[12]).result()
    del inside
    array = chunkwise.open(spec, context=context).result()
    assert array.shape == (12,)
    array.resize(exclusive_max=[16]).result()
    del array
    assert chunkwise.open(spec, context=context).result().shape == (16,)
