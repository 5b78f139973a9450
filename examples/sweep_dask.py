"""Runs a scenario on a Dask cluster: python examples/sweep_dask.py [SCENARIO.toml] [--scheduler ADDRESS] [--workers N]

Without a scheduler it starts workers on this machine. The files in results/ are the same as those of one machine. With --compare it
runs the scenario with one worker and with all in turn, three times, and prints the times, the median of their ratios and whether
the files are equal; the template gets 60 runs a point then, which is long enough to compare. What the machine itself gives to as many
processes is measured beside it: two cores of a virtual machine may be one of its host. Needs a wheel of braidftp (docs/python.md)
and `pip install dask distributed`; on a cluster every machine has the same wheel.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import dask
from braidftp import lab
from dask.distributed import Client, LocalCluster

ENOUGH_SECONDS = 5.0
ROUNDS = 3
# How many times `simulate` runs each point: some five seconds.
RUNS_ALONE = 5
# Otherwise Dask looks at each worker's stack 100 times a second, and wakes each event loop 50 times to see whether it is late; without
# this and without a limit to watch the memory for, two workers that have nothing to do cost 2 % of a core, and not 20.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


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
    dask.config.set(QUIET)
    return LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=None, dashboard_address=None)


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


def simulate(_: int) -> None:
    """Runs each point of the template some times."""
    scenario = lab.template("two-paths")
    for point in range(len(scenario.points)):
        for seed in range(RUNS_ALONE):
            scenario.run_once(point, seed=seed)


def machine(workers: int) -> float:
    """How many times as fast as one process are processes that do the same and know nothing of each other."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:

        def seconds(processes: int) -> float:
            began = time.monotonic()
            list(pool.map(simulate, range(processes)))
            return time.monotonic() - began

        # Processes that have started already are timed.
        seconds(workers)
        return workers * seconds(1) / seconds(workers)


def compare(scenario: lab.Scenario, workers: int, quick: bool) -> None:
    """Runs the scenario with one worker and with several in turn: a machine can be slower at one time than at another."""
    prepare()
    alone, together, machines = [], [], []
    tables = set()
    for number in range(ROUNDS):
        # The first of a round is the second of the next.
        turns = [(1, alone), (workers, together)]
        for count, seconds in turns if number % 2 == 0 else reversed(turns):
            table, took = once(scenario, count, quick)
            tables.add(table)
            seconds.append(took)
        machines.append(machine(workers))
    ratios = [one / several for one, several in zip(alone, together)]
    same = "the same" if len(tables) == 1 else "DIFFERENT"
    print(f"{workers} workers are {spread(ratios)} times as fast as one; the files are {same}")
    print(f"{workers} processes without Dask that know nothing of each other are {spread(machines)} times as fast as one")
    if min(alone) < ENOUGH_SECONDS:
        print("that is too short to compare: give a scenario of more runs. Files and pictures take as long with any number of workers")


def spread(values: list[float]) -> str:
    """The median, the least and the greatest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


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
