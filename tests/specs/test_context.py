"""Contexts find, share and print resources as TensorStore's do."""

import copy
import gc
import pickle
import re
import threading
import weakref

import pytest
import tensorstore
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.base.catalogue import CONTEXT_RESOURCES
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.resource_kind import format_duration, parse_duration


def said(context_class, expression, **names):
    """Return the text of what an expression gives or raises, without addresses and names of modules."""
    try:
        value = eval(expression, {"Context": context_class, "pickle": pickle, **names})
        return re.sub(r"<\w+(\.\w+)*\.(\w+) object at \w+>", r"<\2>", repr(value))
    except TypeError:
        return "TypeError"
    except ValueError as e:
        return f"ValueError: {str(e).split(' [source')[0]}"


def same(expression):
    ours = said(Context, expression)
    assert ours == said(tensorstore.Context, expression)
    return ours


# Kinds that TensorStore doesn't have.
EXTENSIONS = ("azure_credentials", "azure_request_concurrency", "azure_request_retries", "request_coalescing")


@pytest.mark.parametrize("kind", [kind for kind in CONTEXT_RESOURCES if kind not in EXTENSIONS])
@pytest.mark.parametrize(
    "expression",
    [
        "Context()['{}']",
        "Context()['{}'].to_json(include_defaults=True)",
        "Context({{'{}': {{'foo': 1}}}})",
        "Context({{'{}': 5}})",
        "Context({{'{}': []}})",
        "Context({{'{}': 'foo'}})",
        "Context.Spec({{'{}': None}})",
        "Context({{'{0}#a': None}})['{0}#a']",
        "Context()['{}#a']",
    ],
)
def test_every_kind(kind, expression):
    same(expression.format(kind))


CONFIGURATIONS = {
    "cache_pool": [
        {"total_bytes_limit": v} for v in ("5", -1, 1.5, 5.0, 5, 0, 2**64 - 1, None, True, [], {})
    ],
    "data_copy_concurrency": [{"limit": v} for v in (0, 1, "x", "shared", 2, 2**63, 2.0, None, True)],
    "http_request_concurrency": [{"limit": v} for v in (0, 7, "shared")],
    "file_io_sync": [True, False, 1, "true", {}],
    "file_io_mode": [{"mode": v} for v in ("default", "memmap", "direct", "mmap", None, 1)],
    "file_io_locking": [
        *({"mode": v} for v in ("os", "lockfile", "none", "non_atomic", "x", None)),
        {"mode": "none", "acquire_timeout": "5s"},
        {"acquire_timeout": 5},
    ],
    "file_io_retries": [
        {"max_retries": 0},
        {"max_retries": -1},
        {"max_retries": 0, "initial_delay": "0s", "max_delay": "2m"},
        {"initial_delay": "64s"},
        {"initial_delay": 1},
    ],
    "s3_request_retries": [{"max_retries": 0}, {"max_retries": 32, "max_delay": "32s"}],
    "experimental_s3_rate_limiter": [
        {"read_rate": 1},
        {"read_rate": "x"},
        {"read_rate": 1.5, "write_rate": 2, "doubling_time": "4m"},
        {"doubling_time": "0s"},
    ],
    "aws_credentials": [
        {},
        {"profile": "x"},
        {"type": "foo"},
        {"type": 1},
        *({"type": v} for v in ("default", "anonymous", "environment", "imds", "profile", "ecs")),
        {"type": "profile", "profile": "a", "config_file": "b", "credentials_file": "c"},
        {"type": "ecs", "endpoint": "http://x", "auth_token_file": "f"},
        {"type": "default", "profile": "x"},
        {"type": "anonymous", "profile": "x"},
        {"type": "default", "endpoint": "x"},
        {"type": "profile", "profile": 5},
    ],
    "gcs_user_project": [{"project_id": v} for v in ("x", "", 5, None)],
}


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in CONFIGURATIONS.items() for value in values]
)
def test_configurations(kind, value):
    same(f"Context.Spec({ {kind: value}!r})")
    same(f"Context.Spec({ {kind: value}!r}).to_json(include_defaults=True)")


@pytest.mark.parametrize("kind", ["ocdbt_coordinator", "experimental_gcs_grpc_credentials"])
def test_kinds_that_nothing_here_uses(kind):
    """What TensorStore takes and would have no effect is refused by name."""
    tensorstore.Context({kind: {}})
    for make in (Context.Spec, Context):
        with pytest.raises(NotImplementedError, match=f'resource "{kind}" is not supported: '):
            make({f"{kind}#a": {}})
    with pytest.raises(NotImplementedError, match=kind):
        Context()[kind]


def test_retries_of_files():
    """The file store makes none, and says so rather than to take a number that has no effect."""
    with pytest.raises(NotImplementedError, match='"max_retries" of 3 is not supported for files'):
        Context({"file_io_retries": {"max_retries": 3}})


DURATIONS = (
    "5s 1h2m -5s inf -inf +inf 1.5ms 60000ms 5 0 0s -0 00 1500ms 90s 3600s 1us 1ns 1.23456789s 100h +5s 1.s "
    ".5s .s 1e3s 5S 1s2s -1m-2s 0.5 1d -.5ms 1.5h --1s 1h1ms 0x1s 1s0"
)


@pytest.mark.parametrize("text", [*DURATIONS.split(), "", " 5s", "5 s", "1s 2s", None, 5, "１s"])
def test_durations(text):
    same(f"Context.Spec({{'file_io_locking': {{'acquire_timeout': {text!r}}}}})")


@given(st.integers(-(10**18), 10**18))
def test_durations_read_back(nanoseconds):
    seconds = nanoseconds / 10**9
    again = parse_duration(format_duration(seconds))
    assert again == pytest.approx(seconds, abs=1e-9, rel=1e-15)
    assert format_duration(again) == format_duration(seconds)


def test_locking_as_numbers():
    locking = Context({"file_io_locking": {"acquire_timeout": "1m30s"}})["file_io_locking"].value
    assert (locking.mode, locking.acquire_timeout) == ("os", 90.0)


@pytest.mark.parametrize(
    "expression",
    [
        "Context().spec",
        "Context().parent",
        "Context({})",
        "Context({}).spec",
        "Context({}, None)",
        "Context(None)",
        "Context(5)",
        "Context({}, 5)",
        "Context.Spec()",
        "Context.Spec(5)",
        "Context.Spec('x')",
        "Context.Spec(None)",
        "Context.Spec([['cache_pool', 5]])",
        "Context.Resource()",
        "Context({'foo': {}})",
        "Context({5: {}})",
        "Context({'cache_pool#': {}})['cache_pool#']",
        "Context({'cache_pool#x': {}})['cache_pool#x']",
        "Context({'cache_pool#x': {}})['cache_pool#y']",
        "Context({'cache_pool#x': {}})['cache_pool##']",
        "Context()['foo']",
        "Context()['']",
        "Context()['#']",
        "Context()[5]",
        "'cache_pool' in Context()",
        "Context({'cache_pool': 'cache_pool'})['cache_pool']",
        "Context({'cache_pool': 'cache_pool'}, Context())['cache_pool']",
        "Context({'cache_pool': 'cache_pool#a', 'cache_pool#a': 'cache_pool'})['cache_pool']",
        "Context({f'cache_pool#{i}': f'cache_pool#{(i + 1) % 4}' for i in range(4)})['cache_pool#2']",
        "Context({'cache_pool': 'cache_pool#a', 'cache_pool#a': 'cache_pool#a'})['cache_pool']",
        "Context({'cache_pool': 'file_io_sync'})",
        "Context({'cache_pool': 'data_copy_concurrency#x'})",
        "Context({'cache_pool': 'cache_pool#y'})['cache_pool']",
        "Context.Spec({'cache_pool': None, 'cache_pool#a': None, 'data_copy_concurrency': "
        "'data_copy_concurrency#a'})",
        "Context.Spec({'cache_pool': {'total_bytes_limit': 0}}).to_json(include_defaults=True)",
        "Context.Spec({k: {} for k in ('cache_pool', 'data_copy_concurrency', 'file_io_concurrency', "
        "'file_io_retries')})",
        "str(Context.Spec({'cache_pool': {'total_bytes_limit': 5}}))",
        "Context.Spec(json={'cache_pool': {}})",
        "Context({'cache_pool': {'total_bytes_limit': 5}})['cache_pool'].to_json(True)",
        "Context(spec=Context.Spec({'cache_pool': {'total_bytes_limit': 5}}))['cache_pool']",
        "pickle.loads(pickle.dumps(Context.Spec({'cache_pool': {'total_bytes_limit': 5}})))",
        "pickle.loads(pickle.dumps(Context({'cache_pool': {'total_bytes_limit': 5}}))).spec",
    ],
)
def test_texts(expression):
    same(expression)


@pytest.mark.parametrize("context_class", [Context, tensorstore.Context], ids=["chunkwise", "tensorstore"])
class TestSharing:
    def test_parents(self, context_class):
        outer = context_class({"cache_pool": {"total_bytes_limit": 5}})
        inner = context_class({"cache_pool#x": {}}, outer)
        assert inner.parent is outer
        assert inner["cache_pool"] == outer["cache_pool"]
        assert inner["cache_pool#x"] == inner["cache_pool#x"] != inner["cache_pool"]
        assert outer["cache_pool"] != context_class(outer.spec)["cache_pool"]
        assert outer["cache_pool"] != 5
        for definition in (None, "cache_pool#x"):
            alias = context_class({"cache_pool": definition}, inner)
            assert alias["cache_pool"] == inner[definition or "cache_pool"]

    def test_a_default_belongs_to_the_outermost_context(self, context_class):
        outer = context_class()
        a, b = context_class({}, outer), context_class({}, outer)
        kind = "memory_key_value_store"
        assert a[kind] == b[kind] == outer[kind]
        assert a[kind] != context_class()[kind]
        assert context_class({kind: None}, a)[kind] == outer[kind]
        inner = context_class({kind + "#x": None, kind + "#y": {}}, a)
        assert inner[kind + "#x"] == outer[kind] != inner[kind + "#y"]
        assert context_class({kind + "#x": None}, inner)[kind + "#x"] == outer[kind]

    def test_null_without_a_parent_is_a_new_one(self, context_class):
        kind = "memory_key_value_store"
        context = context_class({kind: None, kind + "#x": None, kind + "#y": None})
        assert context[kind] != context[kind + "#x"] != context[kind + "#y"]

    def test_aliases(self, context_class):
        kind = "memory_key_value_store"
        outer = context_class({kind + "#a": kind, kind + "#b": kind})
        inner = context_class({kind + "#a": kind}, outer)
        assert outer[kind + "#a"] == outer[kind + "#b"] == outer[kind] == inner[kind + "#a"]

    def test_shared_limits_are_still_resources_of_their_context(self, context_class):
        kind = "data_copy_concurrency"
        assert context_class()[kind] != context_class()[kind]

    def test_pickle(self, context_class):
        outer = context_class({"cache_pool": {"total_bytes_limit": 5}})
        inner = context_class({"cache_pool#x": {}}, outer)
        things = [outer, outer, inner, outer["cache_pool"], inner["cache_pool#x"]]
        a, b, c, pool, x = pickle.loads(pickle.dumps(things))
        assert a is b is c.parent
        assert a["cache_pool"] == c["cache_pool"] == pool != outer["cache_pool"]
        assert c["cache_pool#x"] == x
        assert repr(pool) == "Context.Resource({'total_bytes_limit': 5})"
        assert copy.deepcopy(inner)["cache_pool"] != outer["cache_pool"]

    def test_identity(self, context_class):
        context = context_class()
        assert context == context
        assert context != context_class()
        assert hash(context) == hash(context)


def test_resources_are_live_objects():
    context = Context({"data_copy_concurrency": {"limit": 3}, "cache_pool": {"total_bytes_limit": 9}})
    assert isinstance(context["memory_key_value_store"].value, MemoryStore)
    assert context["data_copy_concurrency"].value.limit == 3
    assert context["file_io_concurrency"].value.limit is None
    assert context["cache_pool"].value.total_bytes_limit == 9
    assert context["cache_pool"] is context["cache_pool"]
    assert len({context["cache_pool"], context["cache_pool"]}) == 1


def test_resource_of_a_context_that_is_gone_is_pickled_by_itself():
    resource = Context({"cache_pool": {"total_bytes_limit": 5}})["cache_pool"]
    a, b = pickle.loads(pickle.dumps([resource, resource]))
    assert a is b is not resource
    assert a.value.total_bytes_limit == 5


def test_a_context_needs_no_garbage_collector():
    gc.disable()
    try:
        store = weakref.ref(Context()["file_io_concurrency"].value)
        assert store() is None
    finally:
        gc.enable()


def test_threads_get_the_same_resource():
    for _ in range(20):
        context = Context({"memory_key_value_store": "memory_key_value_store#a"}, Context())
        child = Context({"memory_key_value_store#a": None}, Context())
        seen = []
        start = threading.Barrier(4)

        def get(child=child, seen=seen, start=start):
            start.wait()
            seen.append(child["memory_key_value_store#a"])

        threads = [threading.Thread(target=get) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(seen) == 4 and all(r is seen[0] for r in seen)
        del context
