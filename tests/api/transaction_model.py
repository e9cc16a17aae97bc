"""Random programs over several handles of one array, inside and outside a transaction, against a model.

The model knows which array is stored, its shape and its elements, and what the transaction has pending.
Shapes are whole chunks, so that a shrink keeps nothing beyond the new edge.
"""

import random
from datetime import date

import numpy as np

import chunkwise
from chunkwise import Context, KvStore, Transaction

CHUNK = 4
DRIVERS = ("zarr", "zarr3", "n5", "zarr1")
STORES = ("memory", "file", "zip", "ocdbt")
DTYPES = ("int16", "float64", "uint8")


class Stored:
    """What a store holds: the number of the array, its type and its elements; nothing after a deletion."""

    def __init__(self, number, dtype, size):
        self.number, self.dtype, self.data = number, dtype, np.zeros(size, dtype)
        self.beyond = 0  # end of what handles wrote that had not seen a shrink

    def copy(self):
        out = Stored(self.number, self.dtype, 0)
        out.data, out.beyond = self.data.copy(), self.beyond
        return out

    def resize(self, size):
        old, self.data = self.data, np.zeros(size, self.dtype)
        self.data[: len(old)] = old[:size]

    def write(self, start, stop, value):
        self.beyond = max(self.beyond, stop)
        stop = min(stop, len(self.data))  # what was resized away meanwhile is dropped
        self.data[start : max(start, stop)] = value


class Program:
    """One random program; `place` returns the JSON of a kvstore."""

    def __init__(self, seed, driver, place, n_contexts):
        self.random = random.Random(seed)
        self.driver, self.place = driver, place
        self.contexts = [Context() for _ in range(n_contexts)]
        if place["driver"] == "memory":
            self.contexts = [self.contexts[0]] * n_contexts
        self.n_arrays = 0
        self.version = 0  # of the document
        self.stored = None
        self.log = []
        self.replace(self.contexts[0], None)
        self.outside = [self.open(self.contexts[0])]
        self.begin()

    # -- the library ---------------------------------------------------------------------------

    def open(self, context, transaction=None, **options):
        spec = {"driver": self.driver, "kvstore": self.place}
        return chunkwise.open(spec, context=context, transaction=transaction, **options).result()

    def replace(self, context, transaction):
        dtype = self.random.choice(DTYPES)
        size = CHUNK * self.random.randint(1, 4)
        handle = self.open(
            context, transaction, create=True, delete_existing=True, dtype=dtype, shape=[size],
            chunk_layout=chunkwise.ChunkLayout(chunk_shape=[CHUNK]),
        )  # fmt: skip
        self.n_arrays += 1
        new = Stored(self.n_arrays, dtype, size)
        if transaction is None:
            self.stored = new
            self.version += 1
        else:
            self.pending, self.new, self.since = [], new, None
        return handle

    def begin(self):
        self.transaction = Transaction()
        self.inside = [self.random.choice(self.outside).with_transaction(self.transaction)]
        # pending changes, with the type of the array; the array that the transaction has created; the version
        # of the document that it has resized
        self.pending, self.new, self.since = [], None, None

    def view(self):
        """Return the array as the transaction sees it."""
        base = self.stored if self.new is None else self.new
        return None if base is None else self.changed(base)

    def changed(self, base):
        """Return an array with what is pending, as far as that was meant for it."""
        out = base.copy()
        for dtype, change, *details in self.pending:
            if dtype == base.dtype:
                getattr(out, change)(*details)
        return out

    @property
    def is_stale(self):
        """True if somebody else has changed the document that the transaction has resized."""
        return self.new is None and self.since not in (None, self.version)

    @property
    def is_mixed(self):
        """True if there are pending changes of an array that is no longer there."""
        base = self.stored if self.new is None else self.new
        return base is None or any(dtype != base.dtype for dtype, *_ in self.pending)

    # -- operations ----------------------------------------------------------------------------

    def step(self):
        name = self.random.choice(
            ["write"] * 5 + ["write_inside"] * 8 + ["read_inside"] * 3 + ["resize", "resize_inside"] * 2
            + ["replace", "replace_inside", "delete", "attributes", "open", "open_inside", "commit", "abort"]
        )  # fmt: skip
        self.log.append(name)
        getattr(self, "do_" + name)()

    def attempt(self, call, known, *, inside):
        """Call; a refusal is right if the handle is of another array than is there, or there is none."""
        try:
            call()
        except ValueError as e:
            self.log.append(f"  {e}"[:100])
            doomed = inside and (self.is_stale or self.is_mixed)
            assert (
                known is None
                or doomed
                or any(text in str(e) for text in ("FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND"))
            ), (e, self.log)
            return False
        return True

    def box(self, size):
        start = self.random.randrange(0, size)
        if self.random.random() < 0.5:  # whole chunks
            start -= start % CHUNK
            return start, min(size, start + CHUNK * self.random.randint(1, 2))
        return start, self.random.randint(start + 1, size)

    def write_to(self, handle, view, start, stop):
        value = self.random.randint(1, 100)
        handle[start:stop].write(np.array(value, handle.dtype.numpy_dtype)).result()
        return value

    def do_write(self):
        handle = self.random.choice(self.outside)
        size = handle.shape[0]
        start, stop = self.box(size)
        value = None
        view = self.view()
        if (
            self.stored is None
            or view is None
            or stop
            > min([details[0] for _, change, *details in self.pending if change == "resize"], default=stop)
        ):
            return  # where the transaction has deleted chunks

        def call():
            nonlocal value
            value = self.write_to(handle, self.stored, start, stop)

        if self.attempt(call, self.stored, inside=False):
            assert self.stored is not None and handle.dtype.name == self.stored.dtype, self.log
            self.stored.write(start, stop, value)
            if self.place["driver"] == "zip":  # all keys of an archive change together
                self.version += 1

    def do_write_inside(self):
        handle = self.random.choice(self.inside)
        size = handle.shape[0]
        start, stop = self.box(size)
        value = None

        def call():
            nonlocal value
            value = self.write_to(handle, self.view(), start, stop)

        if self.attempt(call, self.view(), inside=True):
            if self.new is not None:
                assert handle.dtype.name == self.new.dtype, self.log
            self.pending.append((handle.dtype.name, "write", start, stop, value))

    def do_read_inside(self):
        handle = self.random.choice(self.inside)
        view = self.view()
        try:
            data = handle.resolve().result().read().result()
        except ValueError as e:
            self.log.append(f"  {e}"[:100])
            return
        if (
            not self.is_mixed
            and not self.is_stale
            and handle.dtype.name == view.dtype
            and data.size == view.data.size
        ):
            np.testing.assert_array_equal(data, view.data, err_msg=repr(self.log))

    def grows_over_what_was_written(self, array, size):
        """Return True if what another has made smaller would grow: whether writes then come back is open."""
        written = [details[1] for _, change, *details in self.pending if change == "write"]
        return size > len(array.data) < max(array.beyond, *written, 0)

    def do_resize(self):
        handle = self.random.choice(self.outside)
        size = CHUNK * self.random.randint(1, 5)
        if self.stored is not None and self.grows_over_what_was_written(self.stored, size):
            return
        if self.attempt(lambda: handle.resize(exclusive_max=[size]).result(), self.stored, inside=False):
            assert self.stored is not None and handle.dtype.name == self.stored.dtype, self.log
            if size != len(self.stored.data):
                self.version += 1
            self.stored.resize(size)

    def do_resize_inside(self):
        handle = self.random.choice(self.inside)
        size = CHUNK * self.random.randint(1, 5)
        view = self.view()
        if view is not None and self.grows_over_what_was_written(view, size):
            return
        if self.attempt(lambda: handle.resize(exclusive_max=[size]).result(), view, inside=True):
            assert self.is_stale or (view is not None and handle.dtype.name == view.dtype), self.log
            if view is None or size == len(view.data):
                return
            if self.since is None:
                self.since = self.version
            self.pending.append((handle.dtype.name, "resize", size))

    def do_replace(self):
        if self.random.random() < 0.5:
            self.outside.append(self.replace(self.random.choice(self.contexts), None))

    def do_replace_inside(self):
        if self.random.random() < 0.5:
            self.inside.append(self.replace(self.random.choice(self.contexts), self.transaction))

    def do_delete(self):
        if self.random.random() < 0.3:
            place = KvStore.open(self.place, context=self.contexts[0]).result()
            place.delete_range(KvStore.KeyRange()).result()
            self.stored = None
            self.version += 1

    def do_attributes(self):
        handle = self.random.choice(self.outside)

        def call():
            handle.attrs["a"] = self.random.random()

        if self.driver in ("zarr3", "n5") and self.stored is not None:
            self.attempt(call, self.stored, inside=False)
            self.version += 1

    def do_open(self):
        if self.stored is not None:
            self.outside.append(self.open(self.random.choice(self.contexts)))

    def do_open_inside(self):
        if self.view() is not None:
            self.inside.append(self.open(self.random.choice(self.contexts), self.transaction))

    def do_abort(self):
        self.transaction.abort()
        self.check()
        self.begin()

    def do_commit(self):
        try:
            self.transaction.commit_sync()
        except ValueError as e:
            self.log.append(f"  {e}"[:100])
            assert "ABORTED" in str(e) or "FAILED_PRECONDITION" in str(e), (e, self.log)
            assert self.is_stale or self.is_mixed, (e, self.log)
        else:
            if self.pending or self.new is not None:
                assert not self.is_mixed, self.log
                self.stored = self.changed(self.stored if self.new is None else self.new)
            if self.new is not None or self.since is not None:
                self.version += 1
        self.check()
        self.begin()

    def check(self):
        """Compare what is stored with the model, by a new handle."""
        context = self.contexts[0] if self.place["driver"] == "memory" else Context()
        try:
            found = self.open(context)
        except ValueError as e:
            assert self.stored is None, (e, self.log)
            return
        assert self.stored is not None, self.log
        assert found.dtype.name == self.stored.dtype, self.log
        np.testing.assert_array_equal(found.read().result(), self.stored.data, err_msg="\n".join(self.log))


def place_of(store, root):
    return {
        "memory": {"driver": "memory", "path": "a/"},
        "file": {"driver": "file", "path": f"{root}/a/"},
        "zip": {"driver": "zip", "base": f"file://{root}/a.zip", "path": "a/"},
        "ocdbt": {"driver": "ocdbt", "base": f"file://{root}/a.ocdbt/", "path": "a/"},
    }[store]


def run(seed, driver, place, n_steps=25):
    print(f"seed {seed}")  # pytest shows it if the program fails
    program = Program(seed, driver, place, n_contexts=2)
    for _ in range(n_steps):
        program.step()
    program.do_commit()


def seeds_of_today(n, family):
    """Return `n` seeds that change from day to day; families have different ones."""
    first = (date.today().toordinal() * 1000 + family) * 1000
    return range(first, first + n)
