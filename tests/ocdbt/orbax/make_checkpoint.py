"""Makes ``checkpoint.zip`` beside it: ``make_checkpoint.py DIRECTORY``, which must not be there yet.

It was made by orbax-checkpoint 0.12.8 and JAX 0.10.2.
"""

import shutil
import sys
from pathlib import Path

import jax.numpy as jnp
import orbax.checkpoint as ocp

STATE = {
    "params": {
        "w": jnp.arange(12, dtype=jnp.float32).reshape(3, 4),
        "b": jnp.array([1, 2, 3], dtype=jnp.bfloat16),
    },
    "step": jnp.array(7),
    "table": jnp.arange(2000, dtype=jnp.int16).reshape(50, 40),
}

if __name__ == "__main__":
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(Path(sys.argv[1]).absolute(), STATE)
    Path(sys.argv[1], "commit_success.txt").unlink()  # it has the path
    shutil.make_archive(str(Path(__file__).parent / "checkpoint"), "zip", sys.argv[1])
