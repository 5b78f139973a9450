"""Scenarios, results, controllers and environments."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import braidftp
from braidftp import lab

LINK = """
title = "One flow"
lasts = "{seconds} s"
[links.dsl]
rate = "{rate}"
delay = "10 ms"
loss = "{loss}"
[transports.mine]
protocol = "{protocol}"
controller = "{controller}"
[[workload]]
kind = "bulk"
transport = "mine"
"""


def flow(
    controller: str,
    *,
    seconds: int = 5,
    rate: str = "10 Mbit/s",
    loss: str = "0 %",
    protocol: str = "sctp",
) -> str:
    return LINK.format(controller=controller, seconds=seconds, rate=rate, loss=loss, protocol=protocol)


class Aimd(lab.Controller):
    """One packet more each round trip, half after a loss."""

    def __init__(self, mtu: int) -> None:
        super().__init__(mtu)
        self.cwnd = 10.0 * mtu

    def window(self) -> float:
        return self.cwnd

    def on_ack(self, ack: lab.Ack) -> None:
        if not ack.in_recovery:
            self.cwnd += ack.bytes * ack.mtu / self.cwnd

    def on_congestion(self, congestion: lab.Congestion) -> None:
        share = 2 if congestion.cause != "timeout" else 8
        self.cwnd = max(self.cwnd / share, 2.0 * self.mtu)


def test_a_template_runs_and_its_claims_are_decided(tmp_path: pathlib.Path) -> None:
    scenario = lab.template("one-path")
    told: list[tuple[int, int]] = []
    results = scenario.run(tmp_path, quick=True, progress=lambda done, planned: told.append((done, planned)))
    assert told and told[-1][0] == told[-1][1]
    assert set(results.to_dict()) == {*scenario.axes, "run", "seed", *scenario.columns}
    for ending in ("csv", "parquet", "svg", "png"):
        assert pathlib.Path(results.path(ending)).stat().st_size > 0
    assert [claim.holds for claim in results.check()] == [True]
    # What is stored is not run again.
    again = scenario.run(tmp_path, quick=True, progress=lambda *_: pytest.fail("it ran again"))
    assert again.runs == results.runs


def test_a_run_says_at_a_terminal_how_long_it_takes_and_nothing_elsewhere(tmp_path: pathlib.Path) -> None:
    scenario = lab.Scenario(flow("cubic", loss="1 %"), name="mine")
    assert re.fullmatch(r"mine: 10 to 400 runs, about \d+ s( to \d+ s)? on 1 thread", scenario.estimate(threads=1))
    assert scenario.estimate(runs=1, threads=2).startswith("mine: 1 run, about ")
    mine = lab.Scenario(flow("mine"), controllers={"mine": Aimd})
    assert mine.estimate().endswith(", without the time that controllers in Python take")
    source = f"from braidftp import lab; lab.Scenario({flow('cubic')!r}, name='mine').run({str(tmp_path)!r}, runs=2)"
    main, other = os.openpty()
    try:
        subprocess.run([sys.executable, "-c", source], check=True, stderr=other)
    finally:
        os.close(other)
    said = b""
    try:
        while piece := os.read(main, 65536):
            said += piece
    except OSError:  # The other end is closed.
        pass
    os.close(main)
    assert b"mine: 2 runs, about 1 s on " in said, said
    silent = subprocess.run([sys.executable, "-c", source + ".check()"], check=True, capture_output=True)
    assert silent.stderr == b""


def test_runs_of_more_than_30_days_are_refused() -> None:
    lasts = 'lasts = "2 h"\nruns = { min = 20_000, max = 20_000 }'
    text = flow("cubic", rate="10 Gbit/s", loss="1 %").replace('lasts = "5 s"', lasts)
    for attempt in (lab.Scenario(text).run, lab.Scenario(text).estimate):
        with pytest.raises(lab.ScenarioError, match="30 days are possible"):
            attempt()


def test_a_scenario_may_be_a_mapping_and_gives_the_same_numbers() -> None:
    mapping = {
        "title": "One flow",
        "lasts": "5 s",
        "links": {"dsl": {"rate": "10 Mbit/s", "delay": "10 ms", "loss": "1 %"}},
        "transports": {"mine": {"protocol": "tcp", "controller": "cubic"}},
        "workload": [{"kind": "bulk", "transport": "mine"}],
    }
    text = flow("cubic", protocol="tcp", loss="1 %")
    assert lab.Scenario(mapping).run_once(seed=7) == lab.Scenario(text).run_once(seed=7)


def test_an_error_names_line_column_and_the_nearest_word() -> None:
    with pytest.raises(lab.ScenarioError, match=r"mine.toml:7:1: .*`losss`; did you mean `loss`\?"):
        lab.Scenario(flow("cubic").replace("loss =", "losss ="), name="mine")
    with pytest.raises(lab.ScenarioError, match="no congestion control is called `vegas`.*, mine"):
        lab.Scenario(flow("vegas"), controllers={"mine": Aimd})
    with pytest.raises(ValueError, match="cannot be the name of results"):
        lab.Scenario(flow("cubic"), name="../x")
    with pytest.raises(IndexError, match="the scenario has 1 point, and none has number 3"):
        lab.Scenario(flow("cubic")).run_once(3)


def test_results_are_tables_of_pandas_polars_and_arrow() -> None:
    results = lab.template("one-path").run(quick=True, progress=False)
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    frame, table, arrow = results.to_pandas(), results.to_polars(), results.to_arrow()
    assert list(frame.columns) == table.columns == arrow.column_names
    assert len(frame) == len(table) == arrow.num_rows == len(results)
    assert isinstance(frame, pandas.DataFrame) and isinstance(table, polars.DataFrame)
    assert frame["seconds"].tolist() == table["seconds"].to_list() == arrow["seconds"].to_pylist()
    assert frame["seed"].tolist() == arrow["seed"].to_pylist()


def test_the_parquet_file_has_the_rows_of_the_results(tmp_path: pathlib.Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    results = lab.template("one-path").run(tmp_path, quick=True, progress=False)
    table = parquet.read_table(results.path("parquet"))
    assert table.to_pydict() == results.to_arrow().to_pydict()


def test_means_are_drawn_on_axes_of_matplotlib() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    results = lab.template("one-path").run(quick=True, progress=False)
    axes = results.plot()
    assert axes.get_title() == "50 files of 50 kB over a lossy path"
    assert len(axes.get_legend().get_texts()) == 2
    drawn = axes.containers[0].lines[0].get_ydata()
    assert list(drawn) == [mean.mean for mean in results.means() if mean.point["mode"] == "tcp"]


@pytest.mark.parametrize("protocol", ["sctp", "tcp"])
def test_a_controller_in_python_moves_data_and_is_the_same_each_time(protocol: str) -> None:
    text = flow("mine", protocol=protocol, loss="0.1 %", seconds=20)
    one = lab.Scenario(text, controllers={"mine": Aimd}).run_once(seed=3)
    assert 5e6 < one["goodput"] < 10e6
    assert lab.Scenario(text, controllers={"mine": Aimd}).run_once(seed=3) == one


def test_the_window_of_a_controller_limits_what_is_in_flight() -> None:
    class Fixed(lab.Controller):
        def window(self) -> float:
            return 10.0 * self.mtu

    class Paced(Fixed):
        def window(self) -> float:
            return 1e6

        def pacing_rate(self) -> float | None:
            return 2e6

    text = flow("mine", rate="1000 Mbit/s")
    fixed = lab.Scenario(text, controllers={"mine": Fixed}).run_once()
    # Ten packets a round trip of 20 ms.
    assert 5.0e6 < fixed["goodput"] < 6.1e6
    paced = lab.Scenario(text, controllers={"mine": Paced}).run_once()
    assert 1.7e6 < paced["goodput"] < 2.1e6


def test_an_exception_carries_the_simulated_time_and_ends_that_run_only() -> None:
    class Fragile(Aimd):
        def on_ack(self, ack: lab.Ack) -> None:
            if ack.now > 1.5 and self.fails:
                raise ZeroDivisionError("too late")
            super().on_ack(ack)

        fails = False

    text = flow("$controller").replace('lasts = "5 s"', 'lasts = "3 s"')
    text += '[[axis]]\nname = "controller"\nvalues = ["good", "bad"]\n'

    class Failing(Fragile):
        fails = True

    scenario = lab.Scenario(text, controllers={"good": Fragile, "bad": Failing})
    with pytest.warns(RuntimeWarning, match=r"bad\.on_ack at 1\.5\d+ s: ZeroDivisionError: too late .*test_lab.py, line"):
        results = scenario.run(progress=False)
    means = {mean.point["controller"]: mean.mean for mean in results.means()}
    assert means["good"] > 1e6 and means["bad"] != means["bad"]
    assert len(results.failures) == sum(run[0] == 1 for run in results.runs) >= 2
    with pytest.raises(lab.ControllerError, match=r"bad\.on_ack at 1\.5\d+ s"):
        scenario.run_once({"controller": "bad"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-5, "window.. returned -5; it is 1 byte to 4 GiB"),
        (float("nan"), "window.. returned [nN]a[nN]"),
        ("big", "which is no number of bytes"),
    ],
)
def test_a_window_that_cannot_be_is_named(value: object, message: str) -> None:
    class Wrong(lab.Controller):
        def window(self) -> float:
            return value  # type: ignore[return-value]

    with pytest.raises(lab.ControllerError, match=message):
        lab.Scenario(flow("mine"), controllers={"mine": Wrong}).run_once()


def test_ctrl_c_ends_a_sweep_and_keeps_what_is_finished(tmp_path: pathlib.Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, planned: int) -> None:
        # Progress is told now and then: a short sweep may be over the first time.
        if 3 < done < planned:
            raise Enough

    scenario = lab.template("one-path")
    with pytest.raises(Enough):
        scenario.run(tmp_path, threads=1, progress=stop)
    assert list(tmp_path.glob("*.csv.part"))
    assert len(scenario.run(tmp_path, progress=False)) > 8


def test_an_environment_is_stepped_to_the_end_of_its_run() -> None:
    scenario = lab.Scenario(flow("agent"), agent="agent")
    env = lab.Environment(scenario, every=0.1)
    observation, _ = env.reset(seed=1)
    assert len(observation) == 5
    total, steps, ended = 0.0, 0, False
    while not ended:
        delivered, _, _, _, window = observation
        observation, _, ended, truncated, info = env.step(1.0 if window < 20 else 0.0)
        assert not truncated
        total += delivered
        steps += 1
    assert steps == 49
    assert info["numbers"]["goodput"] > 5e6
    with pytest.raises(RuntimeError, match="has ended"):
        env.step(0.0)
    # The same actions, the same run.
    env.reset(seed=1)
    first = env.set_window(20_000)
    env.reset(seed=1)
    assert env.set_window(20_000) == first
    env.close()


def test_an_environment_of_gymnasium_passes_its_checker() -> None:
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    env = lab.Environment.gymnasium(lab.Scenario(flow("agent"), agent="agent"), every=0.25)
    check_env(env, skip_render_check=True)
    env.close()


def test_what_needs_a_package_that_is_missing_says_so() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from braidftp import lab\n"
        f"results = lab.Scenario({flow('cubic')!r}).run(progress=False)\n"
        "try: results.to_pandas()\n"
        "except ImportError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "pandas is not installed: pip install pandas\n"


def test_the_package_is_typed_and_has_a_version() -> None:
    folder = pathlib.Path(braidftp.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_braidftp.pyi").exists()
    assert braidftp.__version__
    assert lab.schema()["properties"]["title"]["type"] == "string"
