"""Transfers with a server of the program."""

from __future__ import annotations

import asyncio
import os
import pathlib
import pickle
import random

import pytest

from braidftp import AsyncClient, Client, Error

from .conftest import Server

BIG = random.Random(1).randbytes(6 << 20)


def client(server: Server) -> Client:
    return Client(server.url, **server.options)


def test_files_and_trees_go_both_ways(server: Server, tmp_path: pathlib.Path) -> None:
    (server.folder / "a").mkdir()
    (server.folder / "a" / "one.txt").write_text("one")
    (server.folder / "a" / "two.txt").write_text("two")
    with client(server) as it:
        summary = it.get("a/*.txt", tmp_path / "got")
        assert (summary.files, summary.failed, summary.bytes, summary.mode) == (2, 0, 6, "braid")
        assert (tmp_path / "got" / "two.txt").read_text() == "two"
        assert it.mirror("", tmp_path / "copy").files == 2
        assert (tmp_path / "copy" / "a" / "one.txt").read_text() == "one"
        (tmp_path / "copy" / "a" / "three.txt").write_text("three")
        assert it.mirror("", tmp_path / "copy", up=True).files == 1
        assert (server.folder / "a" / "three.txt").read_text() == "three"
        assert it.put(tmp_path / "got" / "one.txt", "b.txt").files == 1
        assert (server.folder / "b.txt").read_text() == "one"


def test_folders_are_listed_made_renamed_and_removed(server: Server) -> None:
    (server.folder / "file").write_bytes(b"12345")
    os.utime(server.folder / "file", (1_000_000_000, 1_000_000_000))
    (server.folder / "link").symlink_to("file")
    it = client(server)
    it.mkdir("x/y", parents=True)
    entries = {entry.name: entry for entry in it.ls()}
    assert set(entries) == {"file", "link", "x"}
    assert (entries["file"].type, entries["file"].size, entries["file"].modified) == ("file", 5, 1e9)
    assert entries["x"].type == "directory" and entries["link"].type == "link"
    assert it.stat("file").size == 5 and it.stat().type == "directory"
    it.mv("x/y", "z")
    assert (server.folder / "z").is_dir() and it.exists("z") and not it.exists("x/y")
    it.rm("z", recursive=True)
    it.rm("file")
    assert sorted(path.name for path in server.folder.iterdir()) == ["link", "x"]


def test_a_file_is_read_in_order_and_in_jumps(server: Server) -> None:
    (server.folder / "big").write_bytes(BIG)
    with client(server).open("big") as file:
        assert file.read() == BIG
        file.seek(-10, os.SEEK_END)
        assert file.read() == BIG[-10:]
        assert file.read() == b""
        for at in (5 << 20, 100, 3 << 20, (3 << 20) + 70_000):
            file.seek(at)
            assert file.read(1000) == BIG[at : at + 1000]
    with client(server).open("big") as file, pytest.raises(Error, match="has changed on the server"):
        file.read(10)
        (server.folder / "big").write_bytes(b"shorter")
        file.seek(5 << 20)
        file.read(10)


def test_a_file_is_written_when_it_is_closed(server: Server) -> None:
    it = client(server)
    with it.open("new.txt", "w") as file:
        file.write("hällo\n")
        assert not (server.folder / "new.txt").exists()
    assert (server.folder / "new.txt").read_text(encoding="utf-8") == "hällo\n"
    with pytest.raises(ZeroDivisionError), it.open("half", "wb") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert not (server.folder / "half").exists()
    with pytest.raises(ValueError, match="mode is r, rb, w or wb"):
        it.open("x", "a")  # type: ignore[arg-type]


def test_errors_have_a_code_and_say_what_to_try(server: Server, tmp_path: pathlib.Path) -> None:
    it = client(server)
    with pytest.raises(Error) as caught:
        it.get("missing", tmp_path)
    assert caught.value.code == 5 and "missing" in str(caught.value) and caught.value.hint
    (server.folder / "there").write_text("x")
    with pytest.raises(Error, match="missing") as caught:
        it.get(["there", "missing"], tmp_path)
    assert caught.value.code == 10 and (tmp_path / "there").read_text() == "x"
    with pytest.raises(Error, match="--nonsense"):
        Client(server.url, nonsense=True)
    with pytest.raises(Error) as caught:
        Client("gopher://x/")
    assert caught.value.code == 1
    wrong = {**server.options, "pin": "SHA256:" + "A" * 43}
    with pytest.raises(Error) as caught:
        Client(server.url, **wrong).ls()
    assert caught.value.code == 3


def test_a_server_that_is_not_known_is_refused_without_a_question(server: Server, tmp_path: pathlib.Path) -> None:
    options = {"known_hosts": str(tmp_path / "known")}
    with pytest.raises(Error) as caught:
        Client(server.url, **options).ls()
    assert caught.value.code == 3
    assert Client(server.url, accept_new=True, **options).ls() == []
    assert Client(server.url, **options).ls() == []


def test_clients_are_pickled_and_asynchronous(server: Server) -> None:
    for name in ("a", "b", "c"):
        (server.folder / name).write_text(name)
    assert [entry.name for entry in pickle.loads(pickle.dumps(client(server))).ls()] == ["a", "b", "c"]

    async def read_all() -> list[bytes]:
        async with AsyncClient(server.url, **server.options) as it:
            return list(await asyncio.gather(*(it.read(entry.name) for entry in await it.ls())))

    assert asyncio.run(read_all()) == [b"a", b"b", b"c"]


def test_pandas_reads_and_writes_by_url(server: Server) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("fsspec")
    frame = pandas.DataFrame({"x": range(1000), "y": [str(number) for number in range(1000)]})
    frame.to_csv(f"{server.url}table.csv", index=False, storage_options=server.options)
    assert (server.folder / "table.csv").exists()
    read = pandas.read_csv(f"{server.url}table.csv", storage_options=server.options)
    assert read["x"].tolist() == frame["x"].tolist()
    pytest.importorskip("pyarrow")
    frame.to_parquet(server.folder / "table.parquet")
    assert pandas.read_parquet(f"{server.url}table.parquet", storage_options=server.options).equals(frame)


def test_the_filesystem_of_fsspec(server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("ftp+sctp", host=server.url.split("//")[1].strip("/"), **server.options)
    fs.makedirs("/d/e")
    fs.pipe("/d/e/f", b"0123456789")
    assert fs.cat("/d/e/f") == b"0123456789"
    assert fs.cat_file("/d/e/f", 2, 5) == b"234" and fs.cat_file("/d/e/f", -3) == b"789"
    assert fs.find("/") == ["/d/e/f"] and fs.glob("/d/*/f") == ["/d/e/f"]
    assert fs.isdir("/d") and fs.isfile("/d/e/f") and fs.size("/d/e/f") == 10
    fs.get("/d", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got" / "e" / "f").read_bytes() == b"0123456789"
    (tmp_path / "up").write_bytes(b"up")
    fs.put(str(tmp_path / "up"), "/d/up")
    fs.mv("/d/up", "/d/moved")
    assert sorted(fs.ls("/d", detail=False)) == ["/d/e", "/d/moved"]
    with pytest.raises(FileNotFoundError):
        fs.info("/nothing")
    with pytest.raises(FileNotFoundError):
        fs.open("/nothing")
    fs.mkdir("/empty")
    fs.rmdir("/empty")
    assert not fs.exists("/empty")
    # Whatever a listing says, a folder that is not empty stays.
    monkeypatch.setattr(type(fs), "ls", lambda *_, **__: [])
    with pytest.raises((OSError, Error)):
        fs.rmdir("/d")
    monkeypatch.undo()
    assert fs.cat("/d/e/f") == b"0123456789"
    fs.rm("/d", recursive=True)
    assert not fs.exists("/d") and fs.ls("/") == []
    assert pickle.loads(pickle.dumps(fs)).ls("/") == []


def test_dask_reads_by_url(server: Server) -> None:
    dask_bytes = pytest.importorskip("dask.bytes")
    (server.folder / "lines").write_bytes(BIG)
    _, blocks = dask_bytes.read_bytes(f"{server.url}lines", blocksize=2 << 20, sample=False, **server.options)
    import dask

    with dask.config.set(scheduler="threads"):
        assert b"".join(dask.compute(*blocks[0])) == BIG
