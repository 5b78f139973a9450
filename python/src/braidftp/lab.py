"""Experiments: scenarios, their results, congestion controllers in Python, and runs that a program controls step by step.

    from braidftp import lab
    scenario = lab.template("two-paths")          # or lab.load("my.toml"), lab.Scenario({...})
    results = scenario.run("results", quick=True)
    results.to_pandas(); results.plot()

The keys of scenarios are explained in docs/scenarios.md. The same scenario and the same seed give the same numbers.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import inspect
import json
import os
import queue
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Union

from . import _braidftp
from ._braidftp import (
    Ack,
    Congestion,
    ControllerError,
    Idle,
    Lost,
    PathView,
    Recovered,
    ScenarioError,
    Sent,
    Spurious,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

__all__ = [
    "Ack",
    "Claim",
    "Congestion",
    "Controller",
    "ControllerError",
    "Environment",
    "Idle",
    "Lost",
    "Mean",
    "PathView",
    "Recovered",
    "Results",
    "Scenario",
    "ScenarioError",
    "Sent",
    "Spurious",
    "load",
    "schema",
    "sweep",
    "template",
    "templates",
]

Run = tuple[int, int, int, list[float]]
Ran = tuple[list[float], Union[str, None]]
Progress = Callable[[int, int], None]
F = TypeVar("F", bound=Callable[..., Any])


def _default(method: F) -> F:
    # Methods that a class leaves as they are here are not called in a run.
    method._is_default = True  # type: ignore[attr-defined]
    return method


class Controller:
    """A congestion controller of one's own. A class that derives from it is named in a scenario by `controllers={"mine": Mine}`
    and then by `controller = "mine"` of a transport. One object is made for each path, as `Mine(mtu)`.

    Times are seconds of simulated time, quantities are bytes. After each event the window, the threshold and the rate are asked
    for. An exception ends the run that raised it, with the simulated time; its numbers are NaN. After a loss that turns out to be
    spurious the object is replaced by a copy (`copy.copy`) from before it, unless `counts_arrivals()` is true: attributes that
    are lists or the like want a `__copy__`. A controller that should run twice with the same numbers keeps no clock of its own
    and draws no random numbers but from a seed of its own.
    """

    def __init__(self, mtu: int) -> None:
        self.mtu = mtu

    def window(self) -> float:
        """The congestion window, 1 byte to 4 GiB."""
        raise NotImplementedError(f"{type(self).__name__} needs window()")

    @_default
    def ssthresh(self) -> float:
        """The slow-start threshold. Coupled controllers of other paths may read it."""
        return 2.0**32 - 1

    @_default
    def pacing_rate(self) -> float | None:
        """The rate in bit/s at which packets are spread; `None`: they are sent as the window allows."""
        return None

    def counts_arrivals(self) -> bool:
        """Whether acknowledgements of TCP report data in any order (asked once). SCTP's always do."""
        return False

    @_default
    def on_ack(self, ack: Ack) -> None:
        """An acknowledgement newly covers data on this path."""

    @_default
    def on_congestion(self, congestion: Congestion) -> None:
        """Congestion was detected: one "loss" in a recovery at most, each "timeout", each "ecn" echo of a window."""

    @_default
    def on_sent(self, sent: Sent) -> None:
        """A packet with new or retransmitted data was sent."""

    @_default
    def on_lost(self, lost: Lost) -> None:
        """Data was declared lost, before the `on_congestion` of it."""

    @_default
    def on_app_limited(self, now: float, flight_bytes: int) -> None:
        """There was room in the window and nothing to send."""

    @_default
    def on_spurious(self, spurious: Spurious) -> None:
        """The last congestion was spurious: the data had arrived."""

    @_default
    def on_idle(self, idle: Idle) -> None:
        """Nothing was sent for an RTO or more, and now something will be."""

    @_default
    def on_recovered(self, recovered: Recovered) -> None:
        """A recovery ended: all that was in flight at its begin is acknowledged."""

    @_default
    def on_mtu(self, mtu: int) -> None:
        """The path's MTU changed."""

    @_default
    def limit_window(self, at_most: int) -> None:
        """The window shall be at most this for now; it may grow again."""

    @_default
    def restart_window(self, window: int) -> None:
        """A path that had failed is used again, from this window on."""


@dataclass(frozen=True)
class Mean:
    """The mean of a column at a point."""

    point: dict[str, float | str]
    """The value on each axis."""
    mean: float
    low: float
    """The lower end of the 90 % interval."""
    high: float
    runs: int


@dataclass(frozen=True)
class Claim:
    """A claim of a scenario, decided by its results."""

    text: str
    """As written in `expect`."""
    holds: bool
    why: str


def _source_of(make: Any) -> str:
    """What identifies a controller: its source, where Python has it."""
    try:
        return inspect.getsource(make)
    except (OSError, TypeError):
        return repr(make)


class Scenario:
    """An experiment. `source` is the text of a scenario file or a mapping of the same form; `folder` is where the files are that it
    names. What is wrong raises `ScenarioError`, with line, column and the nearest right word.
    """

    def __init__(
        self,
        source: str | Mapping[str, Any],
        *,
        name: str = "scenario",
        folder: str | os.PathLike[str] | None = None,
        controllers: Mapping[str, Callable[[int], Any]] | None = None,
        agent: str | None = None,
    ) -> None:
        if not name or any(part in ("", ".", "..") for part in name.split("/")):
            raise ValueError(f"{name!r} cannot be the name of results")
        self.text = source if isinstance(source, str) else _braidftp.from_json(json.dumps(source))
        self.name = name
        self.folder = None if folder is None else os.fspath(folder)
        self.controllers = dict(controllers or {})
        self._agent = agent
        # Results of another version of a controller are not taken for its own.
        notes = [
            f"controller {name}: BLAKE2 {hashlib.blake2b(_source_of(make).encode(), digest_size=8).hexdigest()}"
            for name, make in sorted(self.controllers.items())
        ]
        shown = f"{name}.toml" if self.folder is None else os.path.join(self.folder, f"{name}.toml")
        self._scenario = _braidftp.Scenario(
            name, self.text, shown, self.folder, list(self.controllers.items()), agent, notes
        )

    def __repr__(self) -> str:
        return f"<Scenario {self.name}: {self.title}, {len(self.points)} points>"

    @property
    def title(self) -> str:
        """The heading of its picture."""
        return self._scenario.title

    @property
    def axes(self) -> dict[str, list[float | str]]:
        """The values of each axis."""
        return {name: [value for value, _ in values] for name, _, values in self._scenario.axes}

    @property
    def columns(self) -> dict[str, str]:
        """The columns of its results, and their units."""
        return dict(self._scenario.columns)

    @property
    def points(self) -> list[dict[str, float | str]]:
        """The points, each with its value on every axis."""
        return self._scenario.points

    @property
    def expects(self) -> list[str]:
        """The claims that it states."""
        return self._scenario.expects

    def point(self, **values: float | str) -> int:
        """The index of the point with these values."""
        found = [
            index
            for index, point in enumerate(self.points)
            if all(point.get(axis) == value for axis, value in values.items())
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} points have {values}; the axes are {self.axes}")
        return found[0]

    def run(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        quick: bool = False,
        fresh: bool = False,
        runs: int | None = None,
        threads: int | None = None,
        seed: int = 1,
        progress: bool | Progress = True,
    ) -> Results:
        """Runs each point until its mean is known, and returns all runs.

        `out` is a folder that keeps CSV, Parquet, SVG and PNG, as `braidlab run` does: what is there already is not run again, and
        an interrupted sweep goes on. Without it nothing is kept. `quick` runs a few points a few times; `runs` is the most runs of
        a point. `progress` says how long the runs take (`estimate`) and shows a bar by tqdm, if that is installed, where standard
        error is a terminal; or it is called with the numbers of runs done and planned. Runs of more than 30 days are refused.
        """
        with _folder(out) as folder:
            how = _How(folder, quick, fresh, runs, threads or (1 if self.controllers else None), seed)
            failures: list[str] = []
            with _Shown(progress, self.name) as shown:
                shown.say(self._says(how))

                def tell(kind: str, first: Any, second: int) -> None:
                    if kind == "run":
                        shown(first, second)
                    elif kind == "failed":
                        failures.append(first)

                records = self._scenario.run(how, tell)
            return self._results(records, folder if out is not None else None, quick, failures)

    def estimate(self, *, quick: bool = False, runs: int | None = None, threads: int | None = None) -> str:
        """How many runs there are and how long they take on this machine, as `run` says it before they begin.

        If they would take more than 30 days, that is an error.
        """
        with _folder(None) as folder:
            how = _How(folder, quick, False, runs, threads or (1 if self.controllers else None), 1)
            return "\n".join(self._says(how))

    def _says(self, how: _How) -> list[str]:
        lines = self._scenario.says(how)
        if lines and self.controllers:
            lines[0] += ", without the time that controllers in Python take"
        return lines

    def run_once(self, point: int | Mapping[str, float | str] = 0, *, seed: int = 1) -> dict[str, float]:
        """Runs one point once with a seed, and returns its numbers by column."""
        index = point if isinstance(point, int) else self.point(**point)
        return dict(zip(self.columns, self._scenario.run_once(index, seed)))

    def _results(
        self, records: list[Run], folder: str | None, quick: bool, failures: list[str]
    ) -> Results:
        if failures:
            many = "1 run failed" if len(failures) == 1 else f"{len(failures)} runs failed; the first"
            warnings.warn(f"{many}: {failures[0]}", RuntimeWarning, stacklevel=3)
        return Results(self, records, folder, quick, failures)


def load(
    path: str | os.PathLike[str],
    *,
    controllers: Mapping[str, Callable[[int], Any]] | None = None,
    agent: str | None = None,
) -> Scenario:
    """Reads a scenario file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    folder, name = os.path.split(os.fspath(path))
    stem = name.rsplit(".", 1)[0] or "scenario"
    return Scenario(text, name=stem, folder=folder or ".", controllers=controllers, agent=agent)


def templates() -> list[str]:
    """The names of scenarios to begin with."""
    return _braidftp.templates()


def template(name: str, **options: Any) -> Scenario:
    """A scenario to begin with; its `text` explains itself."""
    return Scenario(_braidftp.template(name), name=name, **options)


def schema() -> dict[str, Any]:
    """The JSON Schema of scenario files."""
    found: dict[str, Any] = json.loads(_braidftp.schema())
    return found


class Results:
    """The runs of a scenario."""

    def __init__(
        self, scenario: Scenario, runs: list[Run], folder: str | None, quick: bool, failures: list[str]
    ) -> None:
        self.scenario = scenario
        self.runs = runs
        """Of each run: the index of its point, its number there, its seed, its numbers."""
        self.failures = failures
        """The messages of runs that failed alone."""
        self._folder = folder
        self._quick = quick

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        return f"<Results of {self.scenario.name}: {len(self)} runs>"

    def path(self, ending: str = "csv") -> str:
        """The file that was kept: its ending is csv, parquet, svg or png."""
        if self._folder is None:
            raise ValueError("nothing was kept: give run() a folder")
        how = _How(self._folder, self._quick, False, None, None, 1)
        return os.fspath(self.scenario._scenario.path(how, ending))

    def to_dict(self) -> dict[str, list[Any]]:
        """The table as columns: axes, run, seed, and what was measured."""
        points = self.scenario.points
        table: dict[str, list[Any]] = {
            axis: [points[point][axis] for point, _, _, _ in self.runs] for axis in self.scenario.axes
        }
        table["run"] = [run for _, run, _, _ in self.runs]
        table["seed"] = [seed for _, _, seed, _ in self.runs]
        for at, column in enumerate(self.scenario.columns):
            table[column] = [numbers[at] for _, _, _, numbers in self.runs]
        return table

    def to_arrow(self) -> pyarrow.Table:
        """The table for Arrow (needs pyarrow)."""
        pa = _needed("pyarrow")
        table = self.to_dict()
        typed = {"run": pa.int32(), "seed": pa.uint64()}
        arrays = {name: pa.array(values, type=typed.get(name)) for name, values in table.items()}
        return pa.table(arrays)

    def to_pandas(self) -> pandas.DataFrame:
        """The table for pandas."""
        frame: pandas.DataFrame = _needed("pandas").DataFrame(self.to_dict())
        return frame.astype({"run": "int32", "seed": "uint64"})

    def to_polars(self) -> polars.DataFrame:
        """The table for Polars."""
        pl = _needed("polars")
        frame: polars.DataFrame = pl.DataFrame(
            self.to_dict(), schema_overrides={"run": pl.Int32, "seed": pl.UInt64}
        )
        return frame

    def means(self, column: str | None = None) -> list[Mean]:
        """The mean of a column, the first if none is named, at each point, with its 90 % interval."""
        names = list(self.scenario.columns)
        at = 0 if column is None else names.index(column)
        points = self.scenario.points
        return [
            Mean(points[point], mean, low, high, runs)
            for point, mean, low, high, runs in self.scenario._scenario.means(self.runs, at)
        ]

    def check(self) -> list[Claim]:
        """Decides the claims that the scenario states, as `braidlab check` does."""
        return [
            Claim(text, verdict == "holds", why)
            for text, verdict, why in self.scenario._scenario.check(self.runs)
        ]

    def plot(self, axes: Axes | None = None, *, column: str | None = None, **at: float | str) -> Axes:
        """Draws the means of a column as the scenario says, on axes of Matplotlib, which are made if none are given: a line or a
        group of bars for each value of one axis, with the 90 % intervals. `at` picks the points to be drawn, as in `size=1e6`;
        panels of the scenario's own picture are drawn one at a time so."""
        plot = self.scenario._scenario.plot
        if axes is None:
            axes = _needed("matplotlib.pyplot").subplots()[1]
        assert axes is not None
        column = column or str(plot["y"])
        unit = self.scenario.columns[column]
        labels = {name: dict(values) for name, _, values in self.scenario._scenario.axes}
        names = {name: label for name, label, _ in self.scenario._scenario.axes}
        x, by = str(plot["x"]), str(plot["by"])
        if plot["marks"] == "tail":
            return self._plot_tail(axes, column, unit, by, labels, at)
        lines: dict[Any, list[Mean]] = {}
        for mean in self.means(column):
            if all(mean.point.get(axis) == value for axis, value in at.items()):
                lines.setdefault(mean.point[by], []).append(mean)
        others = set(self.scenario.axes) - {x, by} - set(at)
        for axis in others:
            values = {mean.point[axis] for means in lines.values() for mean in means}
            if len(values) > 1:
                raise ValueError(f"name one value of axis {axis!r}, as in plot({axis}={sorted(values, key=str)[0]!r})")
        ticks = list(dict.fromkeys(mean.point[x] for means in lines.values() for mean in means))
        is_named = any(isinstance(tick, str) for tick in ticks) or plot["marks"] == "bars"
        for place, (value, means) in enumerate(lines.items()):
            heights = [mean.mean for mean in means]
            errors = [[mean.mean - mean.low for mean in means], [mean.high - mean.mean for mean in means]]
            label = labels[by].get(value, str(value))
            if is_named:
                width = 0.8 / len(lines)
                places = [ticks.index(mean.point[x]) + (place - (len(lines) - 1) / 2) * width for mean in means]
                axes.bar(places, heights, width, yerr=errors, label=label, capsize=2)
            else:
                places = [float(mean.point[x]) for mean in means]
                axes.errorbar(places, heights, yerr=errors, label=label, marker="o", capsize=2)
        if is_named:
            axes.set_xticks(range(len(ticks)), [labels[x].get(tick, str(tick)) for tick in ticks])
        elif plot["x_scale"] == "log":
            axes.set_xscale("log")
        if plot["y_scale"] == "log":
            axes.set_yscale("log")
        elif not is_named:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(names[x])
        axes.set_ylabel(str(plot["y_label"]) if column == plot["y"] else f"{column} ({unit})")
        axes.set_title(self.scenario.title)
        axes.legend()
        return axes

    def _plot_tail(
        self,
        axes: Axes,
        column: str,
        unit: str,
        by: str,
        labels: dict[str, dict[Any, str]],
        at: Mapping[str, float | str],
    ) -> Axes:
        place = list(self.scenario.columns).index(column)
        points = self.scenario.points
        curves: dict[Any, list[float]] = {}
        for point, _, _, numbers in self.runs:
            if all(points[point].get(axis) == value for axis, value in at.items()):
                curves.setdefault(points[point][by], []).append(numbers[place])
        for value, numbers in curves.items():
            numbers.sort()
            parts = [(rank + 1) / len(numbers) for rank in range(len(numbers))]
            axes.step(numbers, parts, where="post", label=labels[by].get(value, str(value)))
        axes.set_xlabel(f"{column} ({unit})")
        axes.set_ylabel("fraction of runs")
        axes.set_title(self.scenario.title)
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        try:
            html: str = self.to_pandas()._repr_html_()  # type: ignore[operator]
        except ImportError:
            return repr(self)
        return html


def _needed(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f"{package} is not installed: pip install {package}") from error


@dataclass
class _How:
    """How a sweep is run, as the module takes it."""

    out: str
    quick: bool
    fresh: bool
    runs: int | None
    threads: int | None
    seed: int


class _folder:
    """The folder that keeps results, or one that is forgotten."""

    def __init__(self, out: str | os.PathLike[str] | None) -> None:
        self._out = out
        self._forgotten: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> str:
        if self._out is not None:
            return os.fspath(self._out)
        self._forgotten = tempfile.TemporaryDirectory(prefix="braidftp-lab-")
        return self._forgotten.name

    def __exit__(self, *_: object) -> None:
        if self._forgotten is not None:
            self._forgotten.cleanup()


class _Shown:
    """Progress: a function, a bar of tqdm, or nothing."""

    def __init__(self, progress: bool | Progress, name: str) -> None:
        self._call: Progress | None = None
        self._bar: Any = None
        self._speaks = progress is True and sys.stderr is not None and sys.stderr.isatty()
        if callable(progress):
            self._call = progress
        elif progress:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            # `None` hides the bar where there is no terminal.
            self._bar = tqdm(desc=name, unit="run", disable=None)

    def __enter__(self) -> _Shown:
        return self

    def say(self, lines: Iterable[str]) -> None:
        """Prints lines above the bar, if there is a terminal."""
        for line in lines if self._speaks else ():
            if self._bar is not None:
                self._bar.write(line, file=sys.stderr)
            else:
                print(line, file=sys.stderr)

    def __call__(self, done: int, planned: int) -> None:
        if self._call is not None:
            self._call(done, planned)
        elif self._bar is not None:
            self._bar.total = planned
            self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


# Runs that a program controls.


class Environment:
    """A run of a scenario as an environment of Gymnasium, for those who learn controllers.

    The transport that is to be controlled names the controller "agent". An action is the change of its window: a number from -1
    to 1, which divides or multiplies the window by 2 at its ends. A step lasts `every` seconds of simulated time. An observation has
    five numbers, of the step: delivered and lost bytes in megabit/s, the mean round-trip time and the least one so far in seconds,
    and the window in packets. The reward is the logarithm of the delivery rate less that of the delay beyond the least one and a
    penalty of losses; `reward` of a subclass replaces it. An episode ends with the run.

        env = Environment(lab.load("mine.toml", agent="agent"), every=0.1)
        observation, info = env.reset(seed=1)
        observation, reward, terminated, truncated, info = env.step([0.5])

    `Environment.gymnasium(...)` makes one that is a `gymnasium.Env`, if that is installed.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, scenario: Scenario, *, point: int | Mapping[str, float | str] = 0, every: float = 0.1) -> None:
        if scenario._agent is None:
            raise ValueError('the scenario needs an agent: lab.Scenario(..., agent="agent")')
        self.scenario = scenario
        self._point = point if isinstance(point, int) else scenario.point(**point)
        self._every = every
        self._episode: _braidftp.Episode | None = None
        self._window = 0.0
        self._next_seed = 1

    @classmethod
    def gymnasium(cls, *args: Any, **options: Any) -> Any:
        """The environment as a `gymnasium.Env`, with spaces of NumPy."""
        gymnasium, numpy = _needed("gymnasium"), _needed("numpy")
        inner = cls(*args, **options)

        class Env(gymnasium.Env):  # type: ignore[name-defined,misc]
            metadata = inner.metadata
            action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), numpy.float32)
            observation_space = gymnasium.spaces.Box(0.0, numpy.inf, (5,), numpy.float32)

            def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
                super().reset(seed=seed)
                observation, info = inner.reset(seed=seed, options=options)
                return numpy.asarray(observation, numpy.float32), info

            def step(self, action: Any) -> Any:
                observation, *rest = inner.step(action)
                return (numpy.asarray(observation, numpy.float32), *rest)

            def close(self) -> None:
                inner.close()

        return Env()

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[float], dict[str, Any]]:
        """Begins a run, with the next seed if none is given, and goes as far as the first step."""
        self.close()
        if seed is not None:
            self._next_seed = seed
        self._episode = _braidftp.Episode(self.scenario._scenario, self._point, self._next_seed, self._every)
        self._next_seed += 1
        told = self._episode.step()
        if told["ended"]:
            raise ValueError(f"the run ends within a step of {self._every} s: give a shorter one")
        self._window = float(told["flight_bytes"] or 10 * (told["mtu"] or 1448))
        return self.observation(told), told

    def step(self, action: Sequence[float] | float) -> tuple[list[float], float, bool, bool, dict[str, Any]]:
        """Changes the window and runs for a step."""
        if self._episode is None:
            raise RuntimeError("reset() begins a run")
        change = float(action) if isinstance(action, (int, float)) else float(action[0])
        if not -1.0 <= change <= 1.0:
            raise ValueError(f"an action is from -1 to 1, not {change}")
        self._window = min(max(self._window * 2.0**change, 1_500.0), 2.0**32 - 1)
        return self._go(int(self._window), None)

    def set_window(self, window: int, pacing_rate: float | None = None) -> tuple[list[float], float, bool, bool, dict[str, Any]]:
        """Sets the window in bytes, and the pacing rate in bit/s if one is given, and runs for a step."""
        self._window = float(window)
        return self._go(window, pacing_rate)

    def _go(self, window: int, rate: float | None) -> tuple[list[float], float, bool, bool, dict[str, Any]]:
        if self._episode is None:
            raise RuntimeError("reset() begins a run")
        told = self._episode.step(window, rate)
        ended = bool(told["ended"])
        if ended:
            told["numbers"] = self._episode.numbers()
        return self.observation(told), self.reward(told), ended, False, told

    def observation(self, told: Mapping[str, Any]) -> list[float]:
        """What is observed of a step."""
        lasted = told["lasted"] or self._every
        return [
            told["acked_bytes"] * 8e-6 / lasted,
            told["lost_bytes"] * 8e-6 / lasted,
            told["rtt"] or 0.0,
            told["rtt_min"] or 0.0,
            self._window / (told["mtu"] or 1448),
        ]

    def reward(self, told: Mapping[str, Any]) -> float:
        """The reward of a step."""
        import math

        delivered, lost, rtt, least, _ = self.observation(told)
        stretch = rtt / least if rtt and least else 1.0
        return math.log(max(delivered, 1e-3)) - math.log(max(stretch, 1.0)) - 10.0 * lost / max(delivered + lost, 1e-3)

    def close(self) -> None:
        """Ends the run where it is."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None


# Sweeps over several processes or machines.


@dataclass(frozen=True)
class _Task:
    """A scenario as it travels to workers: they have the files that it names from here."""

    text: str
    name: str
    files: tuple[tuple[str, bytes], ...]
    build: str
    controllers: tuple[tuple[str, Any], ...] = field(default=(), hash=False)


def _task(scenario: Scenario) -> _Task:
    files = []
    if scenario.folder is not None:
        for name in _named_files(scenario.text):
            with open(os.path.join(scenario.folder, name), "rb") as file:
                files.append((name, file.read()))
    return _Task(
        scenario.text, scenario.name, tuple(files), _braidftp.build(), tuple(scenario.controllers.items())
    )


def _named_files(text: str) -> list[str]:
    """The files that a scenario names: the values of `trace` and `file`."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        tomllib = _needed("tomli")
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            found.extend(value[key] for key in ("trace", "file") if isinstance(value.get(key), str))
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    look(tomllib.loads(text))
    return sorted({name for name in found if not name.startswith("$")})


_READ: dict[_Task, tuple[Scenario, Any]] = {}


def _scenario_of(task: _Task) -> Scenario:
    """The scenario of a task; each process reads it once."""
    if task in _READ:
        return _READ[task][0]
    if task.build != _braidftp.build():
        raise RuntimeError(
            f"this worker has another build of braidftp ({_braidftp.build()}) than the one that sweeps ({task.build}): "
            "install the same wheel on all machines"
        )
    folder = tempfile.TemporaryDirectory(prefix="braidftp-lab-")
    for name, content in task.files:
        place = os.path.join(folder.name, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(content)
    scenario = Scenario(task.text, name=task.name, folder=folder.name, controllers=dict(task.controllers))
    _READ[task] = (scenario, folder)
    return scenario


def _same(task: _Task) -> _Task:
    return task


def _run_seeds(task: _Task, point: int, seeds: list[int]) -> list[Ran]:
    """What a worker does: one point, once with each seed."""
    return _scenario_of(task)._scenario.run_seeds(point, seeds)


def sweep(
    scenario: Scenario,
    client: Any,
    out: str | os.PathLike[str],
    *,
    quick: bool = False,
    fresh: bool = False,
    runs: int | None = None,
    seed: int = 1,
    retries: int = 5,
    progress: bool | Progress = True,
) -> Results:
    """Runs a scenario on many processes or machines, a few runs of a point in each task.

    `client` is a `dask.distributed.Client` or an executor of `concurrent.futures`. The files in `out` are the same to the byte as
    those of `Scenario.run`, whatever the workers. The runs of a point are stored as soon as it is finished: a sweep that was
    interrupted goes on, and a worker that dies loses no finished point. Dask gives the runs of such a worker to others; `retries`
    is how often it repeats a task that raised an exception. An executor of processes whose worker dies is broken for
    good: what is finished is kept, and the same call with a new executor goes on.
    """
    how = _How(os.fspath(out), quick, fresh, runs, None, seed)
    failures: list[str] = []
    open_sweep = scenario._scenario.open(how)
    if open_sweep is None:
        stored = scenario._scenario.stored(how)
        return Results(scenario, stored or [], how.out, quick, failures)
    seconds = scenario._scenario.seconds_of_runs()
    # The longest first: workers that have nothing more to do wait for the last tasks.
    points = sorted(open_sweep.points, key=lambda point: -seconds[point])
    with _Shown(progress, scenario.name) as shown, _Workers(client, _task(scenario), retries) as workers:

        def add(point: int, ran: list[tuple[int, list[float]]], priority: int) -> None:
            needed = open_sweep.add(point, ran)
            if needed is None:
                shown(len(points) - len(open_sweep.points), len(points))
            else:
                workers.run(priority, point, needed, seconds[point])

        for point in points:
            add(point, [], 0)
        for point, numbers, failed in workers:
            failures.extend(failed)
            # A point that has begun is finished, and stored, before others begin.
            add(point, numbers, 1)
    return scenario._results(open_sweep.finish(), how.out, quick, failures)


# Short runs share a task that lasts about so long: a task of Dask costs the client and the scheduler some 5 ms of CPU time, and
# they share a machine with the workers of a LocalCluster.
_TASK_SECONDS = 0.5


class _Workers:
    """Runs on the workers of a Dask cluster or of an executor. It is an iterator over the results of tasks, in the order in which
    they end.
    """

    def __init__(self, client: Any, task: _Task, retries: int) -> None:
        self._submit: Callable[[int, int, list[int]], Any]
        self._waiting: deque[tuple[int, int, list[tuple[int, int]]]] = deque()
        self._running: dict[Any, tuple[int, list[tuple[int, int]]]] = {}
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # How many tasks are submitted at once: a scheduler of Dask sorts any number of them by priority.
        self._most = sys.maxsize
        if type(client).__module__.partition(".")[0] in ("distributed", "dask"):
            # Not pure: results of another sweep of the same scenario are not taken.
            options = {"retries": retries, "pure": False}
            # Files may be large: workers get them from each other.
            shared = client.submit(_same, task, **options) if task.files else task
            self._submit = lambda priority, point, seeds: client.submit(
                _run_seeds, shared, point, seeds, priority=priority, **options
            )
        elif isinstance(client, concurrent.futures.Executor):
            # An executor runs its tasks in the order in which they were submitted.
            self._most = 2 * getattr(client, "_max_workers", sys.maxsize)
            self._submit = lambda _, point, seeds: client.submit(_run_seeds, task, point, seeds)
        else:
            raise TypeError(f"client is a dask.distributed.Client or an executor, not {type(client).__name__}")

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._running:
            future.cancel()

    def run(self, priority: int, point: int, runs: list[tuple[int, int]], seconds: float) -> None:
        """Runs a point for each of these numbers and seeds. A run takes about so many seconds. The order is that of priorities, 0
        or 1, and then that of calls.
        """
        size = max(1, int(_TASK_SECONDS / max(seconds, 1e-6)))
        tasks = [(priority, point, runs[at : at + size]) for at in range(0, len(runs), size)]
        if priority:
            self._waiting.extendleft(reversed(tasks))
        else:
            self._waiting.extend(tasks)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._most:
            priority, point, runs = self._waiting.popleft()
            future = self._submit(priority, point, [seed for _, seed in runs])
            self._running[future] = (point, runs)
            future.add_done_callback(self._ended.put)

    def __iter__(self) -> Iterator[tuple[int, list[tuple[int, list[float]]], list[str]]]:
        while self._running:
            future = self._ended.get()
            point, runs = self._running.pop(future)
            self._fill()
            ran = future.result()
            failed = [message for _, message in ran if message is not None]
            yield point, [(run, numbers) for (run, _), (numbers, _) in zip(runs, ran)], failed
