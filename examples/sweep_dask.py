"""Runs a scenario on a Dask cluster: python examples/sweep_dask.py [SCENARIO.toml] [--scheduler ADDRESS] [--workers N]

Without a scheduler it starts workers on this machine. The files in results/ are the same as those of one machine. With --compare it
runs the scenario with one worker and with all in turn, three times, and prints the times, the median of their ratios and whether
the files are equal; the template gets 60 runs a point then, which is long enough to compare. Needs a wheel of braidftp
(docs/python.md) and `pip install dask distributed`; on a cluster every machine has the same wheel.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from braidftp import lab
from dask.distributed import Client, LocalCluster

ENOUGH_SECONDS = 5.0
ROUNDS = 3


def long_template() -> lab.Scenario:
    """The template two-paths with 60 runs of each point, which is long enough to compare."""
    text = lab.template("two-paths").text
    runs = "runs = { min = 5, max = 50 }"
    assert runs in text, "the template has other runs"
    return lab.Scenario(text.replace(runs, "runs = { min = 60, max = 60 }"))


def sweep(scenario: lab.Scenario, client: Client, out: str, quick: bool) -> tuple[lab.Results, float]:
    """Runs the scenario; returns the results and the seconds."""
    began = time.monotonic()
    results = lab.sweep(scenario, client, out, quick=quick)
    return results, time.monotonic() - began


def local(workers: int) -> LocalCluster:
    """A cluster of processes on this machine."""
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)


def prepare() -> None:
    """Runs something in this process: the first run in a process waits for imports, and for the digest of the module."""
    lab.template("two-paths").run(quick=True, runs=1, progress=False)


def once(scenario: lab.Scenario, workers: int, quick: bool) -> tuple[bytes, float]:
    """Runs the scenario with new workers into a new folder; returns the table and the seconds."""
    with tempfile.TemporaryDirectory() as out, local(workers) as cluster, Client(cluster) as client:
        # Processes that have started already are timed.
        client.wait_for_workers(workers)
        client.run(prepare)
        results, took = sweep(scenario, client, out, quick)
        print(f"{workers} worker{'s' if workers > 1 else ''}: {len(results)} runs in {took:.1f} s")
        return Path(results.path()).read_bytes(), took


def compare(scenario: lab.Scenario, workers: int, quick: bool) -> None:
    """Runs the scenario with one worker and with several in turn: a machine can be slower at one time than at another."""
    prepare()
    alone, together = [], []
    tables = set()
    for number in range(ROUNDS):
        # The first of a round is the second of the next.
        turns = [(1, alone), (workers, together)]
        for count, seconds in turns if number % 2 == 0 else reversed(turns):
            table, took = once(scenario, count, quick)
            tables.add(table)
            seconds.append(took)
    ratios = [one / several for one, several in zip(alone, together)]
    same = "the same" if len(tables) == 1 else "DIFFERENT"
    print(
        f"{workers} workers are {statistics.median(ratios):.2f} times as fast as one (the median of {ROUNDS} rounds, "
        f"{min(ratios):.2f} to {max(ratios):.2f}); the files are {same}"
    )
    if min(alone) < ENOUGH_SECONDS:
        print("that is too short to compare: give a scenario of more runs. Files and pictures take as long with any number of workers")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("scenario", nargs="?", help="a scenario file; else the template two-paths")
    options.add_argument("--scheduler", help="the address of a running scheduler, as in tcp://10.0.0.1:8786")
    options.add_argument("--workers", type=int, default=2, help="processes on this machine, without a scheduler")
    options.add_argument("--out", default="results", help="the folder of the results")
    options.add_argument("--quick", action="store_true", help="a few points, a few times")
    options.add_argument("--compare", action="store_true", help="time one worker and --workers of them on this machine")
    args = options.parse_args()
    if args.compare:
        if args.scheduler is not None:
            options.error("--compare starts its own workers: leave out --scheduler")
        compare(lab.load(args.scenario) if args.scenario else long_template(), args.workers, args.quick)
        return
    scenario = lab.load(args.scenario) if args.scenario else lab.template("two-paths")
    cluster = None
    if args.scheduler is None:
        cluster = local(args.workers)
    with Client(args.scheduler or cluster) as client:
        results, took = sweep(scenario, client, args.out, args.quick)
        print(f"{len(results)} runs in {took:.1f} s: {results.path()}")
        for claim in results.check():
            print(f"{'holds' if claim.holds else 'does not hold'}: {claim.text} ({claim.why})")
    if cluster is not None:
        cluster.close()


if __name__ == "__main__":
    main()
