"""Ceph's S3 gateway on loopback, from Debian's packages, extracted below a folder: nothing is installed.

``start_rgw.py PORT FOLDER``; the key is CWTESTKEY with the secret cwtestsecret.  Runs until it is
terminated, and then ends what it has started.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from child_process import Children

PACKAGES = [
    "ceph-mon",
    "ceph-osd",
    "radosgw",
    "ceph-base",
    "ceph-common",
    "librados2",
    "librgw2",
    "libradosstriper1",
    "librbd1",
    "libcephfs2",
    "libibverbs1",
    "librdmacm1",
    "libnl-3-200",
    "libnl-route-3-200",
    "libboost-thread1.74.0",
    "libboost-context1.74.0",
    "libboost-program-options1.74.0",
    "libboost-iostreams1.74.0",
    "libfmt9",
    "liboath0",
    "librabbitmq4",
    "liblua5.3-0",
    "libgoogle-perftools4",
    "libtcmalloc-minimal4",
    "libunwind8",
    "libaio1",
    "libsnappy1v5",
    "libleveldb1d",
    "libfuse2",
    "libpmem1",
    "libndctl6",
    "libdaxctl1",
    "python3-rados",
    "python3-ceph-argparse",
    "python3-ceph-common",
    "python3-prettytable",
    "python3-wcwidth",
]

CONFIG = """[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{mon2},v1:127.0.0.1:{mon1}]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_mon_service_mode = crc
ms_mon_cluster_mode = crc
osd_objectstore = memstore
memstore_device_bytes = 3221225472
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
run_dir = {run}/run
admin_socket = {run}/run/$name.asok
pid_file = {run}/run/$name.pid
log_file = {run}/log/$name.log
mon_cluster_log_file = {run}/log/cluster.log
mon_data = {run}/mon
osd_data = {run}/osd
plugin_dir = {root}/usr/lib/x86_64-linux-gnu/ceph
erasure_code_dir = {root}/usr/lib/x86_64-linux-gnu/ceph/erasure-code
osd_class_dir = {root}/usr/lib/x86_64-linux-gnu/rados-classes
keyring = {run}/keyring
[client.rgw]
rgw_data = {run}/rgw
rgw_frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
"""


def extract(cache: Path) -> Path:
    """Return the folder with the extracted packages; one process at a time makes it, wholly or not at all."""
    root = cache / "root"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            packages, new = cache / "packages", cache / "new"
            packages.mkdir(exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)
            subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=packages, check=True, timeout=200)
            for package in packages.glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(package), str(new)], check=True, timeout=60)
            new.rename(root)
    return root


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def is_up(ceph: tuple[str, ...], run: Path) -> bool:
    """Return True if the monitor knows the storage daemon within a minute."""
    for _ in range(30):
        time.sleep(2)
        with Children() as children:
            asked = children.start(
                [*ceph, "osd", "stat", "--format", "json"], cwd=run, stdout=subprocess.PIPE
            )
            told, _ = asked.communicate(timeout=60)
        if asked.returncode == 0 and json.loads(told)["num_up_osds"] == 1:
            return True
    return False


def main() -> None:
    port, cache, run = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    root = extract(cache)
    for name in ("run", "mon", "osd", "rgw", "log"):
        (run / name).mkdir(parents=True, exist_ok=True)
    lib = root / "usr/lib/x86_64-linux-gnu"
    os.environ["LD_LIBRARY_PATH"] = f"{lib}:{root}/lib/x86_64-linux-gnu:{lib}/ceph:{root}/usr/lib/ceph"
    os.environ["PATH"] = f"{root}/usr/bin:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = f"{root}/usr/lib/python3/dist-packages"
    fsid = str(uuid.uuid4())
    mon2, mon1 = free_port(), free_port()
    (run / "ceph.conf").write_text(
        CONFIG.format(fsid=fsid, mon2=mon2, mon1=mon1, run=run, root=root, port=port)
    )

    def leave(*_: object) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)

    with Children() as daemons:

        def do(*command: str) -> None:
            done = daemons.start([*command], cwd=run, stdout=None, stderr=None)
            if done.wait(240):
                raise SystemExit(f"{command} ended with {done.returncode}")

        conf = ("-c", str(run / "ceph.conf"))
        do("ceph-authtool", "--create-keyring", "keyring", "-n", "client.rgw", "--gen-key")
        address = f"[v2:127.0.0.1:{mon2},v1:127.0.0.1:{mon1}]"
        do("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, "--clobber", "monmap")
        do("ceph-mon", *conf, "-i", "a", "--mkfs", "--monmap", "monmap")
        daemons.start(["ceph-mon", *conf, "-i", "a", "-f"], cwd=run, stdout=None, stderr=None)
        time.sleep(4)
        osd_uuid = str(uuid.uuid4())
        do("/usr/bin/python3", str(root / "usr/bin/ceph"), *conf, "osd", "new", osd_uuid)
        do("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", osd_uuid)
        daemons.start(["ceph-osd", *conf, "-i", "0", "-f"], cwd=run, stdout=None, stderr=None)
        if not is_up(("/usr/bin/python3", str(root / "usr/bin/ceph"), *conf), run):
            raise SystemExit("the object storage daemon does not come up")
        name = ("-n", "client.rgw")
        keys = ("--access-key=CWTESTKEY", "--secret-key=cwtestsecret")
        do("radosgw-admin", *conf, *name, "user", "create", "--uid=cw", "--display-name=cw", *keys)
        gateway = daemons.start(["radosgw", *conf, *name, "-f"], cwd=run, stdout=None, stderr=None)
        gateway.wait()


main()
