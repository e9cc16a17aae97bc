"""Program of test_libraries_on_tensorstore: saves and restores arrays of JAX in each way of orbax-checkpoint.

    python checkpoints.py {chunkwise,tensorstore} FOLDER {save,load}

Prints a JSON object with the outcome of each way: "ok", "wrong values" or the error.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
library, folder, task = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
if library == "chunkwise":
    import chunkwise

    chunkwise.install_as_tensorstore()

import jax  # noqa: E402 - the library it is to find comes first
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import orbax.checkpoint as ocp  # noqa: E402
import tensorstore  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

MESH = Mesh(np.array(jax.devices()), ("d",))
ROWS, COLUMNS, WHOLE = (NamedSharding(MESH, PartitionSpec(*axes)) for axes in (("d",), (None, "d"), ()))
TREE = {
    "w": jax.device_put(jnp.arange(16.0).reshape(4, 4), ROWS),
    "b": jax.device_put(jnp.ones(3, jnp.bfloat16), WHOLE),
    "n": 3,
    "a": np.arange(5),
    "large": jax.device_put(jnp.arange(40000.0).reshape(200, 200), COLUMNS),
}
WITH_TEXT = {**TREE, "s": "text"}


def equal(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    return all(
        x == y if isinstance(x, str) else np.array_equal(np.asarray(x), np.asarray(y))
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    )


def shapes(tree):
    return jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)


def pytree(ocdbt, zarr3):
    def run():
        path = folder / f"pytree-{ocdbt}-{zarr3}"
        checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3))
        if task == "save":
            checkpointer.save(path, WITH_TEXT)
        return equal(checkpointer.restore(path), WITH_TEXT)

    return run


def standard():
    checkpointer = ocp.StandardCheckpointer()
    if task == "save":
        checkpointer.save(folder / "standard", TREE)
        checkpointer.wait_until_finished()
    return equal(checkpointer.restore(folder / "standard", shapes(TREE)), TREE)


def other_shards():
    wanted = {**shapes(TREE), "w": jax.ShapeDtypeStruct((4, 4), jnp.float32, sharding=COLUMNS)}
    return equal(ocp.StandardCheckpointer().restore(folder / "standard", wanted), TREE)


def padded():
    wanted = {**shapes(TREE), "w": jax.ShapeDtypeStruct((6, 4), jnp.float32, sharding=ROWS)}
    found = ocp.StandardCheckpointer().restore(folder / "standard", wanted, strict=False)["w"]
    return found.shape == (6, 4) and np.array_equal(found[:4], TREE["w"]) and not np.any(found[4:])


def manager():
    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=1)
    with ocp.CheckpointManager(folder / "manager", options=options) as found:
        if task == "save":
            for step in range(3):
                found.save(step, args=ocp.args.StandardSave(TREE))
            found.wait_until_finished()
        restored = found.restore(found.latest_step(), args=ocp.args.StandardRestore(shapes(TREE)))
        return equal(restored, TREE) and found.all_steps() == [1, 2]


def partial():
    wanted = ocp.args.PyTreeRestore(item={"w": 0}, partial_restore=True)
    found = ocp.PyTreeCheckpointer().restore(folder / "pytree-True-False", args=wanted)
    return equal(found, {"w": TREE["w"]})


def random_key():
    checkpointer, key = ocp.Checkpointer(ocp.CompositeCheckpointHandler()), jax.random.key(5)
    if task == "save":
        checkpointer.save(folder / "key", args=ocp.args.Composite(k=ocp.args.JaxRandomKeySave(key)))
    found = checkpointer.restore(folder / "key", args=ocp.args.Composite(k=ocp.args.JaxRandomKeyRestore()))
    return np.array_equal(jax.random.key_data(found.k), jax.random.key_data(key))


def asynchronous():
    checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
    if task == "save":
        checkpointer.save(folder / "async", args=ocp.args.PyTreeSave(WITH_TEXT))
        checkpointer.wait_until_finished()
    return equal(checkpointer.restore(folder / "async"), WITH_TEXT)


WAYS: dict[str, Callable[[], bool]] = {
    **{f"pytree {ocdbt} {zarr3}": pytree(ocdbt, zarr3) for ocdbt in (True, False) for zarr3 in (True, False)},
    **{f.__name__: f for f in (standard, other_shards, padded, manager, partial, random_key, asynchronous)},
}


def outcome(way):
    try:
        return "ok" if way() else "wrong values"
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:500]


if __name__ == "__main__":
    found = {
        "library": Path(tensorstore.__file__).parent.name,
        **{n: outcome(way) for n, way in WAYS.items()},
    }
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads of JAX and TensorStore may outlive what they use
