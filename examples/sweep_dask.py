"""Runs a scenario on a Dask cluster: python examples/sweep_dask.py [SCENARIO.toml] [--scheduler ADDRESS] [--workers N]

Without a scheduler it starts workers on this machine. The files in results/ are the same as those of one machine. Needs a wheel of
braidftp (docs/python.md) and `pip install dask distributed`; on a cluster every machine has the same wheel.
"""

from __future__ import annotations

import argparse
import time

from braidftp import lab
from dask.distributed import Client, LocalCluster


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("scenario", nargs="?", help="a scenario file; else the template two-paths")
    options.add_argument("--scheduler", help="the address of a running scheduler, as in tcp://10.0.0.1:8786")
    options.add_argument("--workers", type=int, default=2, help="processes on this machine, without a scheduler")
    options.add_argument("--out", default="results", help="the folder of the results")
    options.add_argument("--quick", action="store_true", help="a few points, a few times")
    args = options.parse_args()
    scenario = lab.load(args.scenario) if args.scenario else lab.template("two-paths")
    cluster = None
    if args.scheduler is None:
        cluster = LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    with Client(args.scheduler or cluster) as client:
        began = time.monotonic()
        results = lab.sweep(scenario, client, args.out, quick=args.quick)
        print(f"{len(results)} runs in {time.monotonic() - began:.1f} s: {results.path()}")
        for claim in results.check():
            print(f"{'holds' if claim.holds else 'does not hold'}: {claim.text} ({claim.why})")
    if cluster is not None:
        cluster.close()


if __name__ == "__main__":
    main()
