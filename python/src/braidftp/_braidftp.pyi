"""The extension module. `braidftp.lab` and `braidftp.client` are what programs use."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

__version__: str

Run = tuple[int, int, int, list[float]]

class Error(OSError):
    """What a client could not do."""

    code: int
    """The exit code of the program for this error (docs/guide.md lists them)."""
    what: str
    why: str
    hint: str | None

class ScenarioError(ValueError):
    """What is wrong in a scenario, with its line and column."""

class ControllerError(Exception):
    """A controller raised an exception in a run; the text has the simulated time."""

class _How(Protocol):
    out: str
    quick: bool
    fresh: bool
    runs: int | None
    threads: int | None
    seed: int

def build() -> str: ...
def schema() -> str: ...
def templates() -> list[str]: ...
def template(name: str) -> str: ...
def from_json(json: str) -> str: ...

class Scenario:
    def __init__(
        self,
        id: str,
        text: str,
        shown: str,
        folder: str | None = None,
        controllers: list[tuple[str, Callable[[int], Any]]] = ...,
        agent: str | None = None,
        notes: list[str] = ...,
    ) -> None: ...
    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def caption(self) -> str: ...
    @property
    def axes(self) -> list[tuple[str, str, list[tuple[float | str, str]]]]: ...
    @property
    def columns(self) -> list[tuple[str, str]]: ...
    @property
    def plot(self) -> dict[str, str | None]: ...
    @property
    def points(self) -> list[dict[str, float | str]]: ...
    @property
    def expects(self) -> list[str]: ...
    def run(self, how: _How, tell: Callable[[str, Any, int], None] | None = None) -> list[Run]: ...
    def says(self, how: _How) -> list[str]: ...
    def run_once(self, point: int, seed: int) -> list[float]: ...
    def seed(self, point: int, run: int, base: int = 1) -> int: ...
    def seconds_of_runs(self) -> list[float]: ...
    def run_seeds(self, point: int, seeds: list[int]) -> list[tuple[list[float], str | None]]: ...
    def open(self, how: _How) -> Sweep | None: ...
    def stored(self, how: _How) -> list[Run] | None: ...
    def path(self, how: _How, ending: str) -> str: ...
    def means(self, runs: list[Run], column: int) -> list[tuple[int, float, float, float, int]]: ...
    def check(self, runs: list[Run]) -> list[tuple[str, str, str]]: ...
    def runs(self, how: _How) -> tuple[int, int, float]: ...

class Sweep:
    @property
    def points(self) -> list[int]: ...
    def add(self, point: int, runs: list[tuple[int, list[float]]]) -> list[tuple[int, int]] | None: ...
    def finish(self) -> list[Run]: ...

class Episode:
    def __init__(self, scenario: Scenario, point: int, seed: int, every: float) -> None: ...
    def step(self, window: int | None = None, pacing_rate: float | None = None) -> dict[str, Any]: ...
    def numbers(self) -> dict[str, float] | None: ...
    def close(self) -> None: ...

class Sent:
    """Data that was sent on a path."""

    now: float
    bytes: int
    """Bytes of user data in the packet."""
    flight_before: int
    """Bytes in flight on the path before it."""

class Lost:
    """Data that was declared lost."""

    now: float
    bytes: int
    sent_at: float
    """The latest time at which any of it was sent."""
    flight_bytes: int
    """Bytes in flight without it."""
    mtu: int

class PathView:
    """A sibling path, as a coupled controller may know it."""

    window: int
    ssthresh: int
    srtt: float | None
    between_losses: int
    """Bytes delivered since the last loss, or between the two last losses, whichever is more."""

class Ack:
    """Data that an acknowledgement newly covers."""

    now: float
    bytes: int
    """Bytes newly acknowledged on this path, cumulatively or by gap blocks."""
    gap_bytes: int
    """Those of `bytes` that gap blocks acknowledge. TCP: 0."""
    regained_bytes: int
    """Those of `bytes` that a gap block acknowledges once more."""
    flight_before: int
    """Bytes in flight before the acknowledgement."""
    mtu: int
    rtt: float | None
    """A round-trip sample, if this acknowledgement gave one."""
    cross_path_age: float | None
    """The age of the most recently sent of these bytes, if the acknowledgement returned on another path."""
    srtt: float | None
    """The smoothed round-trip time."""
    cum_advanced: bool
    """Whether the cumulative acknowledgement point advanced."""
    in_recovery: bool
    """Whether the path is in fast recovery."""
    siblings: list[PathView]
    """The other active paths of the association."""

class Congestion:
    """A congestion event."""

    cause: Literal["loss", "timeout", "ecn"]
    now: float
    flight_bytes: int
    mtu: int

class Spurious:
    """A congestion event that was spurious."""

    now: float
    flight_bytes: int
    mtu: int

class Recovered:
    """The end of a recovery."""

    now: float
    flight_bytes: int
    mtu: int

class Idle:
    """A path on which nothing was sent for some time."""

    now: float
    idle_for: float
    rto: float
    mtu: int
    ssthresh_min: int

class Client:
    def __init__(self, url: str, options: list[str]) -> None: ...
    @property
    def url(self) -> str: ...
    def get(self, paths: list[str], to: str) -> dict[str, Any]: ...
    def put(self, files: list[str], to: str) -> dict[str, Any]: ...
    def mirror(self, path: str, local: str, up: bool, delete: bool) -> dict[str, Any]: ...
    def ls(self, path: str) -> list[dict[str, Any]]: ...
    def stat(self, path: str) -> dict[str, Any]: ...
    def mkdir(self, path: str, parents: bool) -> None: ...
    def rm(self, path: str, recursive: bool) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def mv(self, path: str, to: str) -> None: ...
    def open(self, path: str) -> Reader: ...

class Reader:
    @property
    def size(self) -> int: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def close(self) -> None: ...
