"""Sweeps over several processes: the same bytes as on one, whatever becomes of the workers."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pathlib
import pickle
import signal
from collections.abc import Callable
from typing import Any

import pytest

from braidftp import lab

ENDINGS = ("csv", "parquet", "svg", "png")

TEXT = """
title = "Flows over a lossy link"
lasts = "4 s"
runs = 6
[links.dsl]
rate = "20 Mbit/s"
delay = "10 ms"
loss = "$loss"
[transports.sctp]
protocol = "sctp"
controller = "$controller"
[[workload]]
kind = "bulk"
transport = "sctp"
[[axis]]
name = "loss"
values = ["0.1 %", "0.5 %", "1 %", "2 %", "3 %", "5 %"]
[[axis]]
name = "controller"
values = ["cubic", "auto"]
paired = true
"""


def scenario() -> lab.Scenario:
    return lab.Scenario(TEXT, name="flows")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("alone")
    scenario().run(folder, progress=False)
    return folder


def assert_same(one: pathlib.Path, other: pathlib.Path) -> None:
    for ending in ENDINGS:
        assert (one / f"flows.{ending}").read_bytes() == (other / f"flows.{ending}").read_bytes(), ending
    assert not list(other.glob("*.part"))


def test_two_processes_leave_the_files_of_one(alone: pathlib.Path, tmp_path: pathlib.Path) -> None:
    context = multiprocessing.get_context("spawn")
    told: list[tuple[int, int]] = []
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        results = lab.sweep(scenario(), executor, tmp_path, progress=lambda done, of: told.append((done, of)))
    assert told == [(done, 12) for done in range(1, 13)]
    assert len(results) == 72
    assert_same(alone, tmp_path)
    # All of it is stored: nobody is asked to run anything.
    assert lab.sweep(scenario(), None, tmp_path, progress=False).runs == results.runs


class Inline(concurrent.futures.Executor):
    """Runs each task when it is submitted, and records the tasks."""

    # `sweep` reads it of an executor of threads or processes.
    _max_workers = 1

    def __init__(self) -> None:
        self.tasks: list[tuple[int, list[int]]] = []

    def submit(self, run: Callable[..., Any], /, *args: Any, **options: Any) -> concurrent.futures.Future[Any]:
        _, point, seeds = args
        self.tasks.append((point, seeds))
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_result(run(*args, **options))
        return future


def test_the_longest_runs_begin_first_and_tasks_are_of_equal_length(tmp_path: pathlib.Path) -> None:
    text = """
    title = "Flows at three rates"
    runs = 40
    [links.dsl]
    rate = "$rate"
    delay = "10 ms"
    [transports.sctp]
    protocol = "sctp"
    [[workload]]
    kind = "bulk"
    transport = "sctp"
    ends = "2 s"
    [[axis]]
    name = "rate"
    values = ["1 Mbit/s", "100 Mbit/s", "10 Mbit/s"]
    """
    flows = lab.Scenario(text, name="flows")
    flows.run(tmp_path / "one", progress=False)
    executor = Inline()
    lab.sweep(flows, executor, tmp_path / "two", progress=False)
    assert_same(tmp_path / "one", tmp_path / "two")
    assert list(dict.fromkeys(point for point, _ in executor.tasks)) == [1, 2, 0]
    seconds = flows._scenario.seconds_of_runs()
    assert seconds[1] > seconds[2] > seconds[0] > 0
    for point, seeds in executor.tasks:
        assert len(seeds) == 1 or len(seeds) * seconds[point] <= lab._TASK_SECONDS
    # No worker is left alone with all runs of the longest point.
    assert len(executor.tasks) >= sum(seconds) * 40 / lab._TASK_SECONDS >= 3
    tasks = [sum(of == point for of, _ in executor.tasks) for point in range(3)]
    assert tasks[1] > tasks[2] >= tasks[0]


def test_points_that_are_run_until_their_mean_is_known_have_the_runs_of_one_process(tmp_path: pathlib.Path) -> None:
    text = TEXT.replace("runs = 6", 'runs = { min = 3, max = 30, within = "10 %" }')
    flows = lab.Scenario(text, name="flows")
    results = flows.run(tmp_path / "one", progress=False)
    # There are points that needed more runs than the least number of them, and fewer than the greatest.
    assert any(3 < mean.runs < 30 for mean in results.means())
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        lab.sweep(flows, executor, tmp_path / "two", progress=False)
    assert_same(tmp_path / "one", tmp_path / "two")
    # A point that has begun is finished, and stored, before the last one begins.
    one = Inline()
    lab.sweep(flows, one, tmp_path / "three", progress=False)
    assert_same(tmp_path / "one", tmp_path / "three")
    order = [point for point, _ in one.tasks]
    most = max(results.means(), key=lambda mean: mean.runs)
    first = flows.point(**most.point)
    rest = order[order.index(first) :]
    last = len(rest) - 1 - rest[::-1].index(first)
    assert len(set(rest[:last])) <= 5 < len(set(order)), order


def test_a_sweep_that_was_interrupted_goes_on(alone: pathlib.Path, tmp_path: pathlib.Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, _: int) -> None:
        if done == 5:
            raise Enough

    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        with pytest.raises(Enough):
            lab.sweep(scenario(), executor, tmp_path, progress=stop)
        kept = (tmp_path / "flows.csv.part").read_text()
        assert sum(line[0].isdigit() for line in kept.splitlines()) == 30
        lab.sweep(scenario(), executor, tmp_path, progress=False)
    assert_same(alone, tmp_path)


def test_a_pool_whose_worker_dies_keeps_what_is_finished(alone: pathlib.Path, tmp_path: pathlib.Path) -> None:
    context = multiprocessing.get_context("spawn")
    before = {child.pid for child in multiprocessing.active_children()}

    def kill(done: int, _: int) -> None:
        if done == 4:
            new = [child.pid for child in multiprocessing.active_children() if child.pid not in before]
            assert new[0] is not None
            os.kill(new[0], signal.SIGKILL)

    with (
        concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor,
        pytest.raises(concurrent.futures.process.BrokenProcessPool),
    ):
        lab.sweep(scenario(), executor, tmp_path, progress=kill)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        lab.sweep(scenario(), executor, tmp_path, progress=False)
    assert_same(alone, tmp_path)


def test_a_client_that_is_none_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match="a dask.distributed.Client or an executor, not int"):
        lab.sweep(scenario(), 3, tmp_path, progress=False)


def test_files_that_a_scenario_names_travel_with_it(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "link.trace").write_text("\n".join(str(ms) for ms in range(1, 1001)))
    text = TEXT.replace('rate = "20 Mbit/s"', 'trace = "link.trace"')
    (source / "flows.toml").write_text(text)
    traced = lab.load(source / "flows.toml")
    traced.run(tmp_path / "one", quick=True, progress=False)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        lab.sweep(traced, executor, tmp_path / "two", quick=True, progress=False)
    for ending in ENDINGS:
        one, two = (tmp_path / folder / f"flows-quick.{ending}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_dask_cluster_loses_a_worker_and_leaves_the_files_of_one_machine(
    alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    distributed = pytest.importorskip("distributed")
    killed: list[int] = []
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())
        assert len(set(pids)) == 2

        def kill(done: int, _: int) -> None:
            if done == 4 and not killed:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        results = lab.sweep(scenario(), client, tmp_path, progress=kill)
        assert len(results) == 72
    assert killed
    assert_same(alone, tmp_path)


def test_a_controller_in_python_runs_on_two_processes(tmp_path: pathlib.Path) -> None:
    text = TEXT.replace('"cubic", "auto"', '"cubic", "mine"')
    mine = lab.Scenario(text, name="flows", controllers={"mine": OfTenPackets})
    mine.run(tmp_path / "one", quick=True, progress=False)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        lab.sweep(mine, executor, tmp_path / "two", quick=True, progress=False)
    for ending in ENDINGS:
        one, two = (tmp_path / folder / f"flows-quick.{ending}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_worker_reads_a_scenario_with_controllers_once() -> None:
    text = TEXT.replace('"cubic", "auto"', '"cubic", "mine"')

    def task(controller: type[lab.Controller]) -> lab._Task:
        mine = lab.Scenario(text, name="flows", controllers={"mine": controller})
        # As it arrives at a worker.
        return pickle.loads(pickle.dumps(lab._task(mine)))  # type: ignore[no-any-return]

    assert lab._scenario_of(task(OfTenPackets)) is lab._scenario_of(task(OfTenPackets))
    assert lab._scenario_of(task(OfTenPackets)) is not lab._scenario_of(task(Failing))


def test_runs_that_fail_on_a_worker_are_those_that_fail_in_one_process(tmp_path: pathlib.Path) -> None:
    text = TEXT.replace('"cubic", "auto"', '"cubic", "mine"')
    mine = lab.Scenario(text, name="flows", controllers={"mine": Failing})
    with pytest.warns(RuntimeWarning, match="12 runs failed"):
        one = mine.run(tmp_path / "one", quick=True, progress=False)
    with (
        concurrent.futures.ThreadPoolExecutor(2) as executor,
        pytest.warns(RuntimeWarning, match="12 runs failed"),
    ):
        two = lab.sweep(mine, executor, tmp_path / "two", quick=True, progress=False)
    assert sorted(two.failures) == sorted(one.failures)
    assert "seed" in two.failures[0] and "no window" in two.failures[0]
    for ending in ENDINGS:
        one_file, two_file = (tmp_path / folder / f"flows-quick.{ending}" for folder in ("one", "two"))
        assert one_file.read_bytes() == two_file.read_bytes()


class Failing(lab.Controller):
    """Raises an exception in each run."""

    def window(self) -> float:
        raise ValueError("no window")


class OfTenPackets(lab.Controller):
    """A fixed window."""

    def window(self) -> float:
        return 10.0 * self.mtu
