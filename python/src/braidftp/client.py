"""A client of files: `Client`, `AsyncClient`, and remote files that are opened."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Literal, TypeVar, Union, cast

from ._braidftp import Client as _Client
from ._braidftp import Error
from ._braidftp import Reader as _Reader

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T")


@dataclass(frozen=True)
class Summary:
    """What a transfer came to."""

    mode: str
    """How FTP travelled: `tcp`, `naive`, `ms`, `ms-cp` or `braid`."""
    files: int
    """Files that were moved and are whole."""
    failed: int
    """Files that failed."""
    bytes: int
    """Bytes of files that were moved; not those that were there already."""
    seconds: float
    """How long it took."""


@dataclass(frozen=True)
class Stat:
    """What the server says of a path."""

    name: str
    """The last part of the path. Bytes that are no UTF-8 are surrogates, as in `os.fsdecode`."""
    type: Literal["file", "directory", "link", "other"]
    size: int
    """In bytes; 0 if there is none."""
    modified: float | None
    """Seconds since 1970, UTC."""
    unix_mode: int | None
    """Permission bits."""
    target: str | None
    """The target of a symbolic link, as the server tells it."""


def _options(
    options: dict[str, Any],
) -> list[str]:
    """Options of the program's commands: `accept_new=True` is `--accept-new`, `path=["10.1.1.2"]` is `--path 10.1.1.2`."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words.extend(f"{flag}={each}" for each in value)
        else:
            words.append(f"{flag}={value}")
    return words


class Client:
    """A server, and how to talk to it.

    `url` is as on the command line: `ftp+sctp://HOST/FOLDER` or `ftp://HOST/`. Options are those of the program's commands, with
    underscores: `accept_new=True` trusts a server that was never seen before, `pin="SHA256:…"` one with this key, `plain=True`
    protects nothing; `mode`, `cc`, `limit`, `timeout`, `retries`, `path=[…]` and `multipath` are explained in docs/guide.md. The
    user's files of settings have no part in it.

    Paths are below the folder of the URL; those that begin with a slash are the server's own. Each call opens a session, opens
    it again if it is lost, and raises `Error` if the job could not be done: with `code` as the program's exit code, `what`, `why`
    and `hint`. A file that appears under its name is complete and checked. Calls may be made from any thread; they let other
    threads run.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._client = _Client(url, _options(options))
        self._options = options

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_remake, (self.url, self._options))

    @property
    def url(self) -> str:
        """The server."""
        return self._client.url

    def get(self, paths: str | Iterable[str], to: Path = ".") -> Summary:
        """Fetches files into a folder, which is made if it is missing. The last part of a path may be a glob. Files that are
        there already and are the same are left; what was interrupted goes on."""
        listed = [paths] if isinstance(paths, str) else list(paths)
        return Summary(**self._client.get(listed, os.fspath(to)))

    def put(self, files: Path | Sequence[Path], to: str = "") -> Summary:
        """Sends files to a remote folder, or one file to a new name."""
        listed = [files] if isinstance(files, (str, os.PathLike)) else list(files)
        return Summary(**self._client.put([os.fspath(file) for file in listed], to))

    def mirror(
        self, path: str, local: Path, *, up: bool = False, delete: bool = False
    ) -> Summary:
        """Makes the local folder as the remote one is; with `up` the remote one as the local is. `delete` removes what the other
        side does not have."""
        return Summary(**self._client.mirror(path, os.fspath(local), up, delete))

    def ls(self, path: str = "") -> list[Stat]:
        """The entries of a folder, by name."""
        return [Stat(**entry) for entry in self._client.ls(path)]

    def stat(self, path: str = "") -> Stat:
        """What a path is."""
        return Stat(**self._client.stat(path))

    def exists(self, path: str) -> bool:
        """Whether there is something under a path that this user may see."""
        try:
            self.stat(path)
        except Error as error:
            if getattr(error, "code", None) == NO_SUCH_PATH:
                return False
            raise
        return True

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Makes a folder; with `parents` those above it too, and none of them need be missing."""
        self._client.mkdir(path, parents)

    def rm(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file; with `recursive` a folder and all that is in it."""
        self._client.rm(path, recursive)

    def rmdir(self, path: str) -> None:
        """Deletes a folder that is empty; the server refuses to delete another one."""
        self._client.rmdir(path)

    def mv(self, path: str, to: str) -> None:
        """Renames a file or a folder."""
        self._client.mv(path, to)

    def open(
        self,
        path: str,
        mode: Literal["r", "rb", "w", "wb"] = "rb",
        *,
        encoding: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Opens a file, to be read or to be written anew.

        What is read in order comes as one transfer; a jump opens another session. What is written is kept in a local file, and
        is sent when the file is closed: an error then is raised by `close`, and nothing appears under the name."""
        binary: io.BufferedIOBase
        if mode in ("r", "rb"):
            raw = RemoteFile(self._client.open(path), path)
            binary = io.BufferedReader(raw, buffer_size=1 << 18)
        elif mode in ("w", "wb"):
            binary = _Upload(self, path)
        else:
            raise ValueError(f"mode is r, rb, w or wb, not {mode!r}")
        if mode.endswith("b"):
            return cast("IO[Any]", binary)
        return cast("IO[Any]", io.TextIOWrapper(cast("Any", binary), encoding=encoding or "utf-8", newline=newline))


NO_SUCH_PATH = 5
"""The code of an `Error` of a path that is not there."""


def _remake(url: str, options: dict[str, Any]) -> Client:
    return Client(url, **options)


class RemoteFile(io.RawIOBase):
    """A remote file that is read. It is the same file from its beginning to its end: one that changed raises an `Error`."""

    def __init__(self, reader: _Reader, name: str) -> None:
        super().__init__()
        self._reader = reader
        self._at = 0
        self.name = name
        self.mode = "rb"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._reader.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._reader.size}.get(whence)
        if base is None:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if base + offset < 0:
            raise ValueError("a file has no bytes before its first")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        read = self._reader.read(self._at, len(view))
        view[: len(read)] = read
        self._at += len(read)
        return len(read)

    def readall(self) -> bytes:
        read = self._reader.read(self._at, max(self._reader.size - self._at, 0))
        self._at += len(read)
        return read

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


class _Upload(io.BufferedIOBase):
    """A file that is sent when it is closed."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__()
        self._client = client
        self.name = path
        self.mode = "wb"
        self._folder = tempfile.TemporaryDirectory(prefix="braidftp-")
        self._file = open(os.path.join(self._folder.name, "upload"), "w+b")  # noqa: SIM115
        self._failed = False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Half a file is not sent.
        self._failed = error is not None
        self.close()

    def discard(self) -> None:
        """Closes the file without sending it."""
        self._failed = True
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            self._file.close()
            if not self._failed:
                self._client.put(self._file.name, self.name)
        finally:
            self._folder.cleanup()

    def __del__(self) -> None:
        # A file that nobody closed is not known to be whole.
        if not self.closed:
            self.discard()


class AsyncClient:
    """`Client` for asyncio: each call runs on a thread, and other tasks run meanwhile. A task that is cancelled leaves its call to
    end by itself."""

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def url(self) -> str:
        """The server."""
        return self._client.url

    async def get(self, paths: str | Iterable[str], to: Path = ".") -> Summary:
        """As `Client.get`."""
        return await asyncio.to_thread(self._client.get, paths, to)

    async def put(self, files: Path | Sequence[Path], to: str = "") -> Summary:
        """As `Client.put`."""
        return await asyncio.to_thread(self._client.put, files, to)

    async def mirror(
        self, path: str, local: Path, *, up: bool = False, delete: bool = False
    ) -> Summary:
        """As `Client.mirror`."""
        return await asyncio.to_thread(self._client.mirror, path, local, up=up, delete=delete)

    async def ls(self, path: str = "") -> list[Stat]:
        """As `Client.ls`."""
        return await asyncio.to_thread(self._client.ls, path)

    async def stat(self, path: str = "") -> Stat:
        """As `Client.stat`."""
        return await asyncio.to_thread(self._client.stat, path)

    async def exists(self, path: str) -> bool:
        """As `Client.exists`."""
        return await asyncio.to_thread(self._client.exists, path)

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """As `Client.mkdir`."""
        await asyncio.to_thread(self._client.mkdir, path, parents=parents)

    async def rm(self, path: str, *, recursive: bool = False) -> None:
        """As `Client.rm`."""
        await asyncio.to_thread(self._client.rm, path, recursive=recursive)

    async def rmdir(self, path: str) -> None:
        """As `Client.rmdir`."""
        await asyncio.to_thread(self._client.rmdir, path)

    async def mv(self, path: str, to: str) -> None:
        """As `Client.mv`."""
        await asyncio.to_thread(self._client.mv, path, to)

    async def read(self, path: str) -> bytes:
        """All bytes of a file."""

        def read() -> bytes:
            with self._client.open(path) as file:
                return cast("bytes", file.read())

        return await asyncio.to_thread(read)
