"""Futures behave as TensorStore's do, from threads, from asyncio and across a fork."""

import asyncio
import contextlib
import gc
import pickle
import signal
import subprocess
import sys
import threading
import time
import types
import weakref

import pytest
import tensorstore
from child_process import forked_exit_code

from chunkwise.core.engine.batch import Batch
from chunkwise.core.engine.derived_futures import Countdown, WriteFutures, gather, map_future
from chunkwise.core.engine.future import BrokenPromiseError, Future, Promise
from chunkwise.errors import FailedPreconditionError

pairs = pytest.mark.parametrize(
    ("promise_class", "future_class"),
    [(Promise, Future), (tensorstore.Promise, tensorstore.Future)],
    ids=["chunkwise", "tensorstore"],
)


@pairs
class TestAsTensorStore:
    def test_value(self, promise_class, future_class):
        promise, future = promise_class.new()
        assert not future.done()
        assert not future.cancelled()
        promise.set_result(3)
        promise.set_exception(ValueError("late"))
        assert future.done()
        assert future.result() == 3
        assert future.exception() is None
        assert future.cancel() is False

    def test_failure(self, promise_class, future_class):
        promise, future = promise_class.new()
        error = KeyError("x")
        promise.set_exception(error)
        assert future.exception() is error
        with pytest.raises(KeyError):
            future.result()

    def test_cancel(self, promise_class, future_class):
        promise, future = promise_class.new()
        assert future.cancel() is True
        assert future.cancel() is False
        assert future.done() and future.cancelled()
        promise.set_result(3)
        for wait in (future.result, future.exception):
            with pytest.raises(asyncio.CancelledError):
                wait()

    def test_dropped_promise(self, promise_class, future_class):
        promise, future = promise_class.new()
        del promise
        assert str(future.exception()) == "UNKNOWN: "
        assert isinstance(future.exception(), ValueError)

    @pytest.mark.parametrize(
        "limit",
        [
            {"timeout": 0},
            {"timeout": -1},
            {"timeout": 0.01},
            {"timeout": float("nan")},
            {"deadline": 0},
            {"deadline": 0.5},
            {"deadline": float("nan")},
            {"timeout": 1000, "deadline": float("nan")},
        ],
    )
    def test_timeout(self, promise_class, future_class, limit):
        _promise, future = promise_class.new()
        with pytest.raises(TimeoutError):
            future.result(**limit)
        with pytest.raises(TimeoutError):
            future.exception(**limit)

    def test_a_done_future_has_its_result_after_the_limit_too(self, promise_class, future_class):
        assert future_class(3).result(timeout=-1, deadline=0) == 3

    @pytest.mark.parametrize("wrong", ["1", [], 10**400], ids=["text", "list", "beyond float64"])
    @pytest.mark.parametrize("member", ["timeout", "deadline"])
    def test_a_limit_that_is_no_number_is_refused_of_any_future(
        self, promise_class, future_class, member, wrong
    ):
        _promise, pending = promise_class.new()
        for future in (pending, future_class(3)):
            for wait in (future.result, future.exception):
                with pytest.raises(TypeError):
                    wait(**{member: wrong})

    def test_callbacks(self, promise_class, future_class):
        promise, future = promise_class.new()
        calls = []

        def callback(done):
            calls.append((done is future, done.done()))

        future.add_done_callback(callback)
        future.add_done_callback(callback)
        assert future.remove_done_callback(callback) == 2
        future.add_done_callback(callback)
        assert calls == []
        promise.set_result(1)
        assert calls == [(True, True)]
        future.add_done_callback(callback)
        assert calls == [(True, True)] * 2
        assert future.remove_done_callback(callback) == 0

    def test_constructor(self, promise_class, future_class):
        future = future_class(3)
        assert future.result() == 3
        assert future_class(future) is future
        assert weakref.ref(future)() is future
        assert future_class[int] == types.GenericAlias(future_class, (int,))
        assert promise_class.new()[1].__class__ is future_class

        async def five():
            return 5

        coroutine = five()
        with pytest.raises(ValueError, match="no event loop specified and thread does not have a default"):
            future_class(coroutine)
        coroutine.close()
        with pytest.raises(TypeError):
            promise_class()

    def test_coroutines(self, promise_class, future_class):
        async def five():
            await asyncio.sleep(0)
            return 5

        async def fail():
            raise KeyError(3)

        stopped = []

        async def sleep():
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                stopped.append(True)
                raise

        async def main():
            assert await future_class(five()) == 5
            with pytest.raises(KeyError):
                await future_class(fail())
            sleeping = future_class(sleep())
            await asyncio.sleep(0.01)
            assert sleeping.cancel()
            await asyncio.sleep(0.01)
            assert stopped == [True]
            loop = asyncio.get_running_loop()
            other = await asyncio.to_thread(lambda: future_class(five(), loop=loop).result(10))
            assert other == 5

        asyncio.run(main())

    def test_await(self, promise_class, future_class):
        async def main():
            promise, future = promise_class.new()
            threading.Timer(0.01, promise.set_result, [7]).start()
            assert await future == 7
            assert await asyncio.gather(future_class(1), future_class(2)) == [1, 2]

            promise, future = promise_class.new()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(future, 0.01)
            assert future.cancelled()
            with pytest.raises(asyncio.CancelledError):
                await future

        asyncio.run(main())


def test_error_of_a_later_callback_is_printed(capsys):
    promise, future = Promise.new()
    called = []

    def fail(_):
        raise RuntimeError("boo")

    future.add_done_callback(fail)
    future.add_done_callback(called.append)
    promise.set_result(1)
    assert "RuntimeError: boo" in capsys.readouterr().err
    assert called == [future]
    with pytest.raises(RuntimeError):
        future.add_done_callback(fail)


def test_completion_after_the_loop_is_closed():
    promise, future = Promise.new()

    async def wait():
        return await future

    loop = asyncio.new_event_loop()
    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    promise.set_result(1)
    assert future.result() == 1
    task._log_destroy_pending = False
    del task
    with contextlib.suppress(RuntimeError):
        gc.collect()


def test_not_an_exception():
    promise, future = Promise.new()
    with pytest.raises(TypeError, match="Expected an exception, but received: 'x'"):
        promise.set_exception("x")
    assert not future.done()


def test_many_threads_one_winner_each_waiter_once():
    for _ in range(200):
        promise, future = Promise.new()
        seen = []
        start = threading.Barrier(4)

        def complete(value, promise=promise, start=start):
            start.wait()
            promise.set_result(value)

        def watch(future=future, seen=seen, start=start):
            start.wait()
            future.add_done_callback(lambda f: seen.append(f.result()))

        def wait(future=future, seen=seen, start=start):
            start.wait()
            seen.append(future.result(10))

        threads = [
            threading.Thread(target=complete, args=[1]),
            threading.Thread(target=complete, args=[2]),
            threading.Thread(target=watch),
            threading.Thread(target=wait),
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert seen in ([1, 1], [2, 2])


def test_interrupt_ends_a_wait(children):
    code = (
        "from chunkwise.core.engine.future import Promise\n"
        "p, f = Promise.new()\n"
        "print('waiting', flush=True)\n"
        "try:\n    f.result()\nexcept KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    child = children.python(code, text=True)
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "interrupted\n"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork():
    promise, pending = Promise.new()
    started = []
    deferred = Future.deferred(lambda p: (started.append(1), p.set_result(5)))
    done = Future.ready(4)

    def work():
        assert done.result() == 4
        assert deferred.result() == 5
        try:
            pending.result(10)
        except FailedPreconditionError:
            return 0
        return 1

    assert forked_exit_code(work) == 0
    promise.set_result(1)
    assert pending.result() == 1


def test_nothing_is_left_to_the_garbage_collector():
    class Value:
        pass

    def failing():
        value = Value()
        error = ValueError("x")
        error.value = value
        future = Future.failed(error)
        return weakref.ref(value), weakref.ref(future), future.result

    gc.disable()
    try:
        *refs, result = failing()
        with contextlib.suppress(ValueError):
            result()
        del result
        promise, future = Promise.new()
        with contextlib.suppress(TimeoutError):
            future.result(timeout=0)
        mapped = map_future(str, future)
        late = Future.deferred(lambda p: None)
        refs += map(weakref.ref, (future, mapped, late, promise))
        del promise, future, mapped, late
        assert [r() for r in refs] == [None] * 6
    finally:
        gc.enable()


def test_deferred_work_starts_once_when_asked_for():
    started = []

    def start(promise):
        started.append(1)
        promise.set_result(3)

    future = Future.deferred(start)
    assert not future.done() and started == []
    future.force()
    future.force()
    assert future.result() == 3
    assert started == [1]
    mapped = map_future(str, Future.deferred(start))
    assert started == [1]
    assert mapped.result() == "3"

    async def main():
        return await Future.deferred(start)

    assert asyncio.run(main()) == 3
    assert started == [1, 1, 1]


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: Future(3), "Future"),
        (lambda: WriteFutures.of(Future.ready(None), Future.ready(None)), "WriteFutures"),
        (Batch, "Batch"),
    ],
)
def test_pickle_is_refused(made, name):
    with pytest.raises(TypeError, match=f"cannot pickle '{name}' object"):
        pickle.dumps(made())


def test_a_future_says_whether_its_work_has_begun():
    _promise, future = Promise.new()
    states = [Future.deferred(lambda promise: None), future, Future(3), Future.failed(ValueError())]
    words = ["not begun", "pending", "done: 3", "failed: ValueError"]
    assert [repr(one).partition(" at ")[2].partition(" ")[2] for one in states] == [w + ">" for w in words]
    states[0].force()
    future.cancel()
    assert repr(states[0]).endswith(" failed: BrokenPromiseError>")  # nothing was promised
    assert repr(future).endswith(" cancelled>")


def test_importing_starts_no_thread_and_no_asyncio():
    code = (
        "import sys, threading\n"
        "import chunkwise.core.engine.derived_futures, chunkwise.core.engine.derived_futures\n"
        "assert threading.active_count() == 1\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class TestMap:
    def test_value_failure_and_nesting(self):
        assert map_future(str, Future(3)).result() == "3"
        assert map_future(lambda x: Future(x + 1), Future(3)).result() == 4
        with pytest.raises(ZeroDivisionError):
            map_future(lambda x: 1 / x, Future(0)).result()
        promise, future = Promise.new()
        mapped = map_future(lambda x: 1 / x, future)
        nested = map_future(lambda x: Future(x + 1), future)
        promise.set_result(4)
        assert (mapped.result(), nested.result()) == (0.25, 5)

    def test_cancelling(self):
        _promise, future = Promise.new()
        mapped = map_future(str, future)
        assert mapped.cancel()
        assert future.cancelled()
        _promise, future = Promise.new()
        mapped = map_future(str, future)
        future.cancel()
        assert mapped.cancelled()


class TestGather:
    def test_values(self):
        assert gather([]).result() == []
        assert gather([Future(1), Future(2)]).result() == [1, 2]
        promise, future = Promise.new()
        both = gather([future, Future.deferred(lambda p: p.set_result(6))])
        promise.set_result(5)
        assert both.result(10) == [5, 6]

    def test_first_failure(self):
        promise, future = Promise.new()
        both = gather([future, Future.failed(KeyError("a"))])
        assert not both.done()
        promise.set_exception(ValueError("b"))
        assert isinstance(both.exception(), KeyError)
        promise, future = Promise.new()
        both = gather([future])
        both.cancel()
        assert future.cancelled()


class TestCountdown:
    def test_none_to_wait_for(self):
        promise, future = Promise.new()
        Countdown(0, promise, lambda: 3)
        assert future.result() == 3

    def test_first_error_after_the_last_part(self):
        promise, future = Promise.new()
        countdown = Countdown(3, promise, lambda: 3)
        countdown.part_done()
        assert not countdown.stopped
        countdown.part_done(KeyError("first"))
        assert countdown.stopped and not future.done()
        countdown.part_done(ValueError("second"))
        assert isinstance(future.exception(), KeyError)

    def test_cancelling_stops(self):
        promise, future = Promise.new()
        countdown = Countdown(1, promise, lambda: 3)
        future.cancel()
        assert countdown.stopped
        countdown.part_done()
        assert future.cancelled()

    def test_result_that_fails(self):
        promise, future = Promise.new()
        Countdown(0, promise, lambda: 1 // 0)
        assert isinstance(future.exception(), ZeroDivisionError)


def test_write_futures_stand_for_their_commit():
    promise, commit = Promise.new()
    write = WriteFutures.of(Future.ready(None), commit)
    seen = []
    write.add_done_callback(seen.append)
    assert write.remove_done_callback(print) == 0
    assert write.copy.done() and not write.done() and not write.cancelled()
    with pytest.raises(TimeoutError):
        write.result(timeout=0)
    promise.set_exception(BrokenPromiseError())
    assert seen == [commit]
    assert isinstance(write.exception(), BrokenPromiseError)
    assert write.cancel() is False

    async def main():
        await write

    with pytest.raises(BrokenPromiseError):
        asyncio.run(main())
    with pytest.raises(TypeError):
        WriteFutures()
