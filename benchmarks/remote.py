"""chunkwise compared with TensorStore and zarr-python (with obstore) on S3: whole-array reads and writes.

    python benchmarks/remote.py [--peers tensorstore,zarr] [--cells PATTERN] [--edge N] [--repeat N]
                                [--server rgw|moto|URL] [--json FILE]

The server is Ceph's gateway, as the tests start it, or moto where Debian's packages can't be had; it runs
on this machine, and takes most of the time of a request.  Each library runs in a process of its own, with
its default settings; they take turns.  Figures are ratios of medians: how many times as fast chunkwise is,
and, because a busy machine changes that less, how many times as much processor time the other one takes.
"(bound)" is an upper bound: the other library's time divided by the time in which all processors, always
busy, do the server's work for chunkwise's requests and that of the cheapest library.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from cells import Cell, camera_data
from peers import Peer, start
from report import Result, machine, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "remote"))

CELLS = [
    *[Cell("zarr3", codec, edge) for codec in ("raw", "zstd") for edge in (32, 64)],
    Cell("zarr3", "zstd", 128, 32),
    Cell("zarr3", "zstd", 128, 64),
]
BUCKET = "benchmark"
KEYS = {"AWS_ACCESS_KEY_ID": "CWTESTKEY", "AWS_SECRET_ACCESS_KEY": "cwtestsecret"}
KEYS |= {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def s3_server(kind: str, work: Path) -> Iterator[tuple[str, str]]:
    """Run an S3 server with an empty bucket; yield its name and URL."""
    from child_process import Children
    from npm_packages import cache_directory
    from servers import free_port

    with Children() as children:

        def run(command: list[str], port: int, seconds: float) -> str:
            log = work / f"server-{port}"
            with log.open("wb") as out:
                process = children.start(command, stdout=out, stderr=out)
            url, end = f"http://127.0.0.1:{port}", time.monotonic() + seconds
            while process.poll() is None and time.monotonic() < end:
                try:
                    make_bucket(url)
                    return url
                except OSError:
                    time.sleep(0.2)
            raise RuntimeError(f"{command} is no server: {log.read_text(errors='replace')[-1000:]}")

        if kind in ("rgw", "any"):
            port = free_port()
            script, cache = ROOT / "tests/remote/start_rgw.py", cache_directory("ceph")
            try:
                url = run([sys.executable, str(script), str(port), str(cache), str(work / "rgw")], port, 300)
                yield "Ceph RGW", url
                return
            except RuntimeError as e:
                if kind == "rgw":
                    raise
                print(f"no Ceph RGW, so moto: {e}", file=sys.stderr)
        if kind in ("moto", "any"):
            port = free_port()
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
            yield "moto", run(command, port, 60)
            return
        make_bucket(kind)
        yield kind, kind


def make_bucket(url: str) -> None:
    """Make the bucket if there is none; raise OSError if no server answers."""
    urllib.request.urlopen(f"{url}/", timeout=5).close()
    import boto3
    from botocore.exceptions import ClientError

    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    try:
        client.create_bucket(Bucket=BUCKET)
    except ClientError as e:
        if e.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise


def server_time() -> float:
    """Return the processor time of the processes of a Ceph server on this machine, in seconds."""
    total = 0.0
    for stat in glob("/proc/[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = Path(stat).read_text().rpartition(")")
            if name.partition("(")[2] in ("radosgw", "ceph-osd", "ceph-mon", "ceph-mgr"):
                total += sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return total


def measure(
    cell: Cell, url: str, edge: int, peers: list[Peer], repeat: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield, for writing and for reading and the processor time of both, the median of each peer."""
    import chunkwise

    places = {}
    for peer in peers:  # each has its own array, so that none writes what another reads
        place = {"driver": "s3", "bucket": BUCKET, "endpoint": url, "aws_region": "us-east-1"}
        places[peer.name] = {**place, "path": f"{cell.name.replace(' ', '-')}/{peer.name}/"}
        spec = {**cell.spec("", edge), "kvstore": places[peer.name]}
        chunkwise.open(spec, create=True, delete_existing=True).result()
    for operation in ("write", "read"):
        times: dict[str, list[tuple[float, float, float]]] = {peer.name: [] for peer in peers}
        for turn in range(repeat + 1):
            for peer in peers if turn % 2 else reversed(peers):
                command = {"do": operation, "driver": cell.driver, "s3": places[peer.name]}
                before = server_time()
                answer = peer.ask(**command, planes=edge, check=turn == 0)
                if turn:
                    times[peer.name].append((answer["seconds"], answer["cpu"], server_time() - before))
        medians = {name: [median(taken) for taken in zip(*each, strict=True)] for name, each in times.items()}
        for place, suffix in enumerate(("", " (cpu)")):
            yield operation + suffix, {name: found[place] for name, found in medians.items()}
        if medians["chunkwise"][2]:
            busy = medians["chunkwise"][2] + min(found[1] for found in medians.values())
            found = {name: found[0] for name, found in medians.items()}
            yield operation + " (bound)", found | {"chunkwise": busy / len(os.sched_getaffinity(0))}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peers", default="tensorstore,zarr")
    parser.add_argument("--cells", default="*")
    parser.add_argument("--edge", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--server", default="any")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.update(KEYS)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder, s3_server(options.server, Path(folder)) as (name, url):
        for variable in (
            "AWS_CONFIG_FILE",
            "AWS_SHARED_CREDENTIALS_FILE",
        ):  # without the user's own configuration
            Path(folder, variable).touch()
            os.environ[variable] = f"{folder}/{variable}"
        np.save(f"{folder}/data.npy", camera_data(options.edge))
        peers = [start(name, Path(folder)) for name in ("chunkwise", *options.peers.split(","))]
        try:
            for peer in peers:
                peer.ask(do="data", path=f"{folder}/data.npy")
            for cell in CELLS:
                if not fnmatch.fnmatch(cell.name, options.cells):
                    continue
                for operation, times in measure(cell, url, options.edge, peers, options.repeat):
                    told = ", ".join(f"{n} {t * 1000:.0f} ms" for n, t in times.items())
                    print(f"{cell.name} {operation}: {told}", file=sys.stderr, flush=True)
                    others = {n: t for n, t in times.items() if n != "chunkwise"}
                    results += [
                        Result(cell.name, operation, n, times["chunkwise"], t) for n, t in others.items()
                    ]
        finally:
            for peer in peers:
                peer.stop()
    versions = "; ".join(f"{peer.name} {peer.version}" for peer in peers)
    print(f"{name}, arrays of {options.edge}³ uint16, {machine()}.  {versions}.\n\n{table(results)}")
    if options.json:
        rows: list[dict[str, Any]] = [r._asdict() for r in results]
        options.json.write_text(json.dumps({"server": name, "versions": versions, "results": rows}, indent=2))


if __name__ == "__main__":
    main()
