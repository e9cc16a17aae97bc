"""Journals that are damaged, or made to do harm: what reads them says what is wrong, and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import parse_journal
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AbortedError, ChunkwiseError, FailedPreconditionError

VALUES = np.arange(12 * 20 * 18, dtype="u2").reshape(12, 20, 18)


class _Stop(Exception):
    pass


def _stop(*_: object) -> None:
    raise _Stop


def begun(tree: bool, part: bool) -> tuple[dict[str, bytes], dict[str, bytes], Callable[..., Any]]:
    """Return a source, an unfinished copy of it, and what goes on with the copy."""
    source, target = MemoryStore(), MemoryStore()
    if tree:
        group = cw.create_group(source)
        group.create_array("a", VALUES, chunks=(1, 20, 18))
        group.create_array("b", np.arange(3))
    else:
        cw.create_array(source, VALUES, chunks=(1, 20, 18))
    options: dict[str, Any] = {"memory": 10_000}
    copy = cw.copy_tree if tree else cw.copy
    with pytest.raises(_Stop):
        copy(source, target, progress=_stop, **options)
    if part:  # as `--part` would have left it
        state = json.loads(bytes(target.read(JOURNAL).value or b""))
        state["task"]["number of parts"] = 2
        text = json.dumps(state, indent=2).encode()
        own = JOURNAL.replace(".json", ".1-of-2.json")
        target.write(JOURNAL, text.replace(b"[[0, 1]]", b"[]"))
        target.write(own, text)
    stores = [{key: bytes(kv.read(key).value or b"") for key in kv.list("", "")} for kv in (source, target)]
    return stores[0], stores[1], lambda a, b: copy(a, b, resume=True, **options)


def mutated(draw: Any, text: bytes) -> bytes:
    """Return a journal with bytes or members changed."""
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text) - 1))
        stop = draw(st.integers(at, min(len(text), at + 20)))
        return text[:at] + draw(st.binary(max_size=8)) + text[stop:]
    document = json.loads(text)
    inside: Any = document
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = draw(st.sampled_from(keys))
        below = inside[key]
        if not isinstance(below, dict | list) or not below or draw(st.integers(0, 3)) == 0:
            break
        inside = below
    scalars = st.sampled_from(
        [
            None,
            True,
            -1,
            0,
            1,
            2.5,
            1 << 70,
            "",
            "x",
            "\u00b2:\u00b2",
            "h:0:",
            [],
            {},
            [[]],
            [[0]],
            [[0, 9**9]],
            [{}],
            1e400,
        ]
    )
    if draw(st.integers(0, 4)) == 0:
        del inside[key]
    else:
        inside[key] = draw(scalars)
    return json.dumps(document, indent=draw(st.sampled_from([None, 2]))).encode()


@pytest.mark.each_once
@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("tree", [False, True])
def test_a_mutated_journal_is_used_or_refused(tree: bool, part: bool) -> None:
    source, target, resume = begun(tree, part)
    journals = [key for key in target if key.startswith(".chunkwise-copy")]
    assert len(journals) == 1 + part

    @settings(max_examples=examples(150), deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        a, b = MemoryStore(), MemoryStore()
        key = data.draw(st.sampled_from(journals))
        for kv, values in ((a, source), (b, target)):
            for name, value in values.items():
                kv.write(name, value)
        text = mutated(data.draw, target[key])
        b.write(key, text)
        try:
            if parse_journal(text, key)["owner"] is not None:
                return  # who would be waited for
            resume(a, b)
        except ChunkwiseError as e:
            assert str(e)
            return
        # Nobody can tell a journal that says other tasks are done from a true one; an array it is.
        found: Any = cw.open_group(b)["a"] if tree else cw.open({"driver": "zarr3", "kvstore": b}).result()
        assert found.shape == VALUES.shape and found.dtype == np.dtype("u2")

    check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(task=[]), 'line 3: "task": expected an object'),
        (lambda d: d.pop("task"), '"task": expected an object'),
        (lambda d: d.update(tasks={"0": 1}), '"tasks": expected a list of the number of tasks of each pass'),
        (lambda d: d.update(done=[[[0, 11]], []]), r'line 1\d: "done": expected .* ranges'),
        (lambda d: d.update(done=[[[True, 2]], []]), '"done": expected .* ranges'),
        (lambda d: d.update(done=[[]]), '"done": expected .* ranges'),
        (lambda d: d.update(fingerprints=["0", "1"]), '"fingerprints": expected 16 hexadecimal digits'),
        (lambda d: d.update(owner=7), '"owner": expected null or text'),
    ],
)
def test_the_error_names_file_line_and_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Any], Any], message: str
) -> None:
    journal = Journal(locate(tmp_path), {"a": 1}, [10, 5])
    journal.begin(owned=False)
    path = tmp_path / JOURNAL
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2))
    for use in (journal.check, Journal(locate(tmp_path), {"a": 1}, [10, 5]).resume):
        with pytest.raises(FailedPreconditionError, match=message) as caught:
            use()
        assert str(path) in str(caught.value)
    assert main(["status", str(tmp_path)]) == 1
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"task": {}\n"x"}', b"\xff", b"[" * 100_000, b"9" * 5000]
)
def test_what_is_no_journal(text: bytes) -> None:
    with pytest.raises(
        FailedPreconditionError, match=r"x.json is not the journal of a copy: .*(line|Invalid)"
    ):
        parse_journal(text, "x.json")


def test_an_owner_that_no_process_can_be(tmp_path: Path) -> None:
    for owner in ("\u00b2", f"{locate(tmp_path)}", "a:b:c", ":" * 9, "h:" + "9" * 40 + ":x"):
        journal = Journal(locate(tmp_path), {"a": 1}, [10], silence=0.01)
        journal.begin(owned=False)
        path = tmp_path / JOURNAL
        document = {**json.loads(path.read_text()), "owner": owner}
        host = journal.owner.partition(":")[0]
        for text in (owner, owner.replace("h", host)):
            path.write_text(json.dumps({**document, "owner": text}))
            taken = Journal(locate(tmp_path), {"a": 1}, [10], silence=0.01)
            taken.resume()
            assert json.loads(path.read_text())["owner"] == taken.owner
        path.unlink()


def test_a_journal_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    """A process that was stopped over the end of a copy, which another has finished, leaves nothing."""
    journal = Journal(locate(tmp_path), {"source": "a"}, [3], command="cp --resume")
    journal.begin()
    journal.mark(0)
    (tmp_path / JOURNAL).unlink()
    for late in (journal.save, journal.write, journal.resume, journal.save):
        with pytest.raises(AbortedError, match="another process has ended the work"):
            late()
        assert not list(tmp_path.iterdir())
    journal.delete()
