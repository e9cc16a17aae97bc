"""Throughput and latency of 64 clients, compared with nginx: ``python benchmarks/serve.py``.

nginx has to be installed (Debian: nginx-light).  Clients are connections of a few processes; each requests
chunks in its own order.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import chunkwise

CLIENTS, PROCESSES = 64, 4
NGINX = """
worker_processes 1; daemon off; pid {place}/pid; error_log {place}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c;
  uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)  # nginx reads as another user
        values = np.random.default_rng(1).integers(0, 4000, (256, 256, 256), "u2")
        print("| chunk | what is asked for | server | requests/s | MB/s | median ms | p99 ms |")
        print("|---|---|---|---|---|---|---|")
        for edge in (16, 64):
            name = f"a{edge}.zarr"
            chunkwise.create_array(root / name, values, chunks=(edge,) * 3, codec="zstd:1")
            n = 256 // edge
            cells = [(i, j, k) for i in range(n) for j in range(n) for k in range(n)]
            keys = [f"c/{i}/{j}/{k}" for i, j, k in cells]
            with chunkwise.serve(root / name) as server:
                base = server.url[server.url.index("/", 8) :]
                stored = [f"{base}zarr3/{name}/{key}" for key in keys]
                report(edge, "stored bytes", "chunkwise", run(server.port, stored, seconds))
                blocks = [f"{base}n5/{name}/{i}/{j}/{k}" for i, j, k in cells]
                report(edge, "blocks of N5, encoded anew", "chunkwise", run(server.port, blocks, seconds))
            if shutil.which("nginx") or Path("/usr/sbin/nginx").exists():
                port = server.port
                (root / "nginx.conf").write_text(NGINX.format(place=place, port=port, root=root))
                program = shutil.which("nginx") or "/usr/sbin/nginx"
                process = subprocess.Popen([program, "-c", f"{place}/nginx.conf"])
                try:
                    time.sleep(0.5)
                    report(
                        edge, "stored bytes", "nginx", run(port, [f"/{name}/{key}" for key in keys], seconds)
                    )
                finally:
                    process.terminate()
                    process.wait()


def run(port: int, targets: list[str], seconds: float) -> tuple[list[float], int, float]:
    """Return the latencies of all requests, how many bytes came, and how long it took."""
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        work = [(port, targets, seconds, seed) for seed in range(PROCESSES)]
        pool.starmap(clients, [(port, targets, 0.5, 99)])  # connections, caches
        begin = time.perf_counter()
        parts = pool.starmap(clients, work)
        took = time.perf_counter() - begin
    return [t for times, _ in parts for t in times], sum(n for _, n in parts), took


def clients(port: int, targets: list[str], seconds: float, seed: int) -> tuple[list[float], int]:
    """Send requests over the connections of one process until time is up."""
    found = [([], [0]) for _ in range(CLIENTS // PROCESSES)]
    stop = time.perf_counter() + seconds

    def one(number: int) -> None:
        order = targets[:]
        random.Random(seed * 1000 + number).shuffle(order)
        times, nbytes = found[number]
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while True:
            for target in order:
                begin = time.perf_counter()
                if begin > stop:
                    connection.close()
                    return
                connection.request("GET", target)
                response = connection.getresponse()
                body = response.read()
                assert response.status == 200, (target, response.status, body[:200])
                times.append(time.perf_counter() - begin)
                nbytes[0] += len(body)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [t for times, _ in found for t in times], sum(n for _, (n,) in found)


def report(edge: int, what: str, who: str, measured: tuple[list[float], int, float]) -> None:
    """Print a row."""
    times, nbytes, took = measured
    p99 = sorted(times)[int(len(times) * 0.99)]
    rate, volume = len(times) / took, nbytes / took / 1e6
    median = statistics.median(times) * 1e3
    print(
        f"| {edge}³ | {what} | {who} | {rate:,.0f} | {volume:,.0f} | {median:.1f} | {p99 * 1e3:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
