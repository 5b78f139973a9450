"""The filesystem of fsspec for `ftp+sctp://`: pandas, Dask and xarray read from it by URL.

    pandas.read_csv("ftp+sctp://files.example.org/table.csv", storage_options={"accept_new": True})
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fsspec.spec import AbstractFileSystem

from .client import NO_SUCH_PATH, Client, Stat
from ._braidftp import Error


class FileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files of one server. `host` may have a user, a port and a query, as in URLs; other options are those of `Client`."""

    protocol = ("ftp+sctp",)
    root_marker = "/"
    cachable = True

    def __init__(self, host: str = "", query: str = "", **options: Any) -> None:
        if not host:
            raise ValueError("a server is needed, as in ftp+sctp://HOST/")
        names = ("skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths", "asynchronous", "loop")
        own = {name: options.pop(name) for name in names if name in options}
        super().__init__(host=host, query=query, **own, **options)
        self.host = host
        self._query = f"?{query}" if query else ""
        self.client = Client(f"ftp+sctp://{host}/{self._query}", **options)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = str(path)
        if path.startswith("ftp+sctp://"):
            path = urlsplit(path).path
        return "/" + path.strip("/") if path.strip("/") else "/"

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        parts = urlsplit(path)
        return {"host": parts.netloc, "query": parts.query}

    def unstrip_protocol(self, name: str) -> str:
        return f"ftp+sctp://{self.host}{self._strip_protocol(name)}{self._query}"

    def _info(self, path: str, stat: Stat) -> dict[str, Any]:
        # What a link leads to is not known; it is read as a file.
        kind = "file" if stat.type == "link" else stat.type
        return {
            "name": path,
            "size": stat.size if kind == "file" else 0,
            "type": kind,
            "modified": stat.modified,
            "mode": stat.unix_mode,
            "islink": stat.type == "link",
            "destination": stat.target,
        }

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        with _as_of_files(path):
            return self._info(path, self.client.stat(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        with _as_of_files(path):
            stat = self.client.stat(path) if path != "/" else None
            if stat is not None and stat.type != "directory":
                entries = [self._info(path, stat)]
            else:
                base = path.rstrip("/")
                entries = [self._info(f"{base}/{entry.name}", entry) for entry in self.client.ls(path)]
        return entries if detail else sorted(entry["name"] for entry in entries)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode not in ("rb", "wb"):
            raise NotImplementedError(f"mode {mode}: files are read (rb) or written anew (wb)")
        path = self._strip_protocol(path)
        with _as_of_files(path):
            return self.client.open(path, "rb" if mode == "rb" else "wb")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        with self._open(path) as file:
            size = file.raw.size
            first = _place(start, size, 0)
            file.seek(first)
            return bytes(file.read(max(_place(end, size, size) - first, 0)))

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> None:
        import os

        rpath = self._strip_protocol(rpath)
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        folder, name = os.path.split(os.path.abspath(lpath))
        with _as_of_files(rpath):
            if name == rpath.rsplit("/", 1)[-1]:
                self.client.get(rpath, folder)
                return
            with self.client.open(rpath) as file, open(lpath, "wb") as local:
                while block := file.read(1 << 20):
                    local.write(block)

    def put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        import os

        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        self.client.put(lpath, rpath)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(path)
        self.client.mkdir(path, parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and self.exists(path):
            raise FileExistsError(path)
        if path != "/":
            self.client.mkdir(path, parents=True)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        # Whether the folder is empty is for the server to decide: a file may be uploaded into it after a look.
        with _as_of_files(path):
            self.client.rmdir(path)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        with _as_of_files(path):
            self.client.rm(path)

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for each in [path] if isinstance(path, str) else path:
            each = self._strip_protocol(each)
            with _as_of_files(each):
                self.client.rm(each, recursive=recursive)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        with _as_of_files(path1):
            self.client.mv(path1, path2)

    def created(self, path: str) -> Any:
        raise NotImplementedError("FTP knows when a file changed, not when it was made")

    def modified(self, path: str) -> Any:
        import datetime

        at = self.info(path)["modified"]
        return None if at is None else datetime.datetime.fromtimestamp(at, tz=datetime.timezone.utc)


def _place(at: int | None, size: int, default: int) -> int:
    if at is None:
        return default
    return max(size + at, 0) if at < 0 else at


class _as_of_files:
    """A path that is not there raises what programs of files expect."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Error) and getattr(error, "code", None) == NO_SUCH_PATH:
            raise FileNotFoundError(f"{self._path}: {error}") from error
