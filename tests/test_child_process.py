"""No process that a test starts outlives it, not even if the test's own process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from child_process import Children, forked_exit_code, run, start

PARENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from child_process import start
print(start(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_children_of_a_killed_process_end(children: Children) -> None:
    parent = children.python(PARENT, Path(__file__).parent)
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    end = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(pid)


def test_what_is_left_is_killed_with_its_group() -> None:
    with Children() as children:
        shell = children.start(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
        inner = int(shell.stdout.readline())
    assert shell.returncode == -signal.SIGKILL and shell.stdout.closed
    end = time.monotonic() + 10
    while is_running(inner) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(inner)


def test_a_late_command_is_killed(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo begun; sleep 600"]
    assert run(command, log=tmp_path / "log", seconds=1) is None
    assert (tmp_path / "log").read_text() == "begun\n"
    assert run(["sh", "-c", "exit 3"], log=tmp_path / "log") == 3


def test_children_of_background_jobs_take_ctrl_c(children: Children) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = children.python("import signal; print(signal.getsignal(signal.SIGINT).__name__)")
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.communicate(timeout=30) == (b"default_int_handler\n", b"")


def test_streams_are_not_shared() -> None:
    code = "import os, sys; sys.stderr.write(' '.join(os.readlink(f'/dev/fd/{n}') for n in (0, 1)))"
    process = start([sys.executable, "-c", code], stderr=subprocess.PIPE)
    assert process.communicate(timeout=30)[1] == b"/dev/null /dev/null"


@pytest.mark.filterwarnings("ignore:This process")
def test_forked_children_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []

    def fork() -> int:
        children.append(fork_really())
        return children[-1]

    fork_really = os.fork
    monkeypatch.setattr(os, "fork", fork)
    assert forked_exit_code(lambda: 7) == 7
    assert forked_exit_code(lambda: 1 // 0) == 99
    with pytest.raises(pytest.fail.Exception, match="did not end within"):
        forked_exit_code(lambda: time.sleep(600) or 0, 0.1)
    assert len(children) == 3
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
