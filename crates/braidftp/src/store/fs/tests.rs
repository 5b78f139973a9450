//! Tests of the store with a real folder.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use braidftp_ftp::mapping::frame;
use bytes::Bytes;

use super::at_once::AT_ONCE_BYTES;
use super::*;

struct Bench {
    folder: tempfile::TempDir,
    root: Root,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("root")).unwrap();
    let root = Root::open(folder.path().join("root")).unwrap();
    Bench { folder, root }
}

impl Bench {
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    fn put(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 % 251) as u8).collect()
}

async fn read_all(reader: &mut Reader) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    while let Some(block) = reader.next_block().await? {
        assert!(!block.is_empty() && block.len() <= BLOCK_BYTES);
        out.extend_from_slice(&block);
    }
    Ok(out)
}

const QUICK: Commit =
    Commit { length: None, digest: None, modified: None, mode: None, durability: Durability::None };

#[tokio::test]
async fn a_file_is_read_in_blocks_from_any_offset() {
    let bench = bench();
    for length in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 7] {
        let bytes = pattern(length);
        bench.put("f", &bytes);
        for offset in [0, 1.min(length), length / 2, length] {
            let mut reader = bench.root.reader(Path::new("f"), offset as u64, Digest::Whole).await.unwrap();
            assert_eq!(reader.metadata().size, length as u64);
            assert!(read_all(&mut reader).await.unwrap() == bytes[offset..], "{length} from {offset}");
            let summary = reader.summary().unwrap();
            assert_eq!(summary.length, (length - offset) as u64);
            assert_eq!(summary.digest, Some(*blake3::hash(&bytes).as_bytes()));
            assert_eq!(summary.change, Change::No);
        }
        let mut passing =
            bench.root.reader(Path::new("f"), length as u64 / 2, Digest::Passing).await.unwrap();
        let rest = read_all(&mut passing).await.unwrap();
        assert_eq!(passing.summary().unwrap().digest, Some(*blake3::hash(&rest).as_bytes()));
    }
    let beyond = bench.root.reader(Path::new("f"), 1 << 40, Digest::None).await.unwrap_err();
    assert!(matches!(beyond.why, Why::PastEnd { .. }), "{beyond}");
}

#[tokio::test]
async fn a_file_that_shrinks_while_read_is_an_error_and_one_that_grows_keeps_its_first_length() {
    let bench = bench();
    let bytes = pattern(4 * BLOCK_BYTES);
    bench.put("f", &bytes);
    let mut reader = bench.root.reader(Path::new("f"), 0, Digest::None).await.unwrap();
    reader.next_block().await.unwrap();
    std::fs::OpenOptions::new().write(true).open(bench.path("f")).unwrap().set_len(10).unwrap();
    let mut last = Ok(Some(Bytes::new()));
    while matches!(last, Ok(Some(_))) {
        last = reader.next_block().await;
    }
    let error = last.unwrap_err();
    assert!(matches!(error.why, Why::WrongLength { .. }), "{error}");
    assert!(reader.summary().is_none());
    assert!(reader.next_block().await.is_err(), "it stays an error");

    bench.put("g", &bytes);
    let mut reader = bench.root.reader(Path::new("g"), 0, Digest::None).await.unwrap();
    let first = reader.next_block().await.unwrap().unwrap();
    use std::io::Write;
    std::fs::OpenOptions::new().append(true).open(bench.path("g")).unwrap().write_all(b"more").unwrap();
    let rest = read_all(&mut reader).await.unwrap();
    assert!(rest == bytes[first.len()..]);
    assert_eq!(reader.summary().unwrap().change, Change::Grew);
}

#[tokio::test]
async fn only_regular_files_are_opened() {
    let bench = bench();
    std::fs::create_dir(bench.path("d")).unwrap();
    let fifo = bench.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
    let why = |name: &'static str| {
        let root = bench.root.clone();
        async move { root.reader(Path::new(name), 0, Digest::None).await.unwrap_err().why }
    };
    assert_eq!(why("d").await, Why::IsAFolder);
    assert_eq!(why("").await, Why::IsAFolder);
    assert_eq!(why("pipe").await, Why::NotAFile);
    assert_eq!(why("none").await, Why::NotFound);
    assert_eq!(why("none/x").await, Why::NotFound);
    assert_eq!(bench.root.metadata(Path::new("pipe")).unwrap().kind, Kind::Other);
}

#[tokio::test]
async fn links_are_followed_within_the_root_and_refused_outside() {
    let bench = bench();
    std::fs::write(bench.folder.path().join("secret"), "secret").unwrap();
    std::fs::create_dir(bench.folder.path().join("out")).unwrap();
    std::fs::create_dir(bench.path("d")).unwrap();
    bench.put("d/f", "inside");
    symlink("d/f", bench.path("in")).unwrap();
    symlink("../secret", bench.path("out")).unwrap();
    symlink(bench.folder.path().join("secret"), bench.path("abs")).unwrap();
    symlink("../out", bench.path("outdir")).unwrap();
    symlink("loop", bench.path("loop")).unwrap();

    let mut reader = bench.root.reader(Path::new("in"), 0, Digest::None).await.unwrap();
    assert_eq!(read_all(&mut reader).await.unwrap(), b"inside");
    for name in ["out", "abs"] {
        let error = bench.root.reader(Path::new(name), 0, Digest::None).await.unwrap_err();
        assert_eq!(error.why, Why::OutsideRoot, "{name}");
        assert_eq!(bench.root.metadata(Path::new(name)).unwrap_err().why, Why::OutsideRoot, "{name}");
        assert!(matches!(bench.root.link_metadata(Path::new(name)).unwrap().kind, Kind::Link(_)), "{name}");
    }
    assert_eq!(bench.root.metadata(Path::new("loop")).unwrap_err().why, Why::TooDeep);
    // Nothing outside the root is created, removed, listed or renamed through a link.
    let x = Path::new("outdir/x");
    assert_eq!(bench.root.mkdir(x).unwrap_err().why, Why::OutsideRoot);
    assert_eq!(bench.root.remove_file(x).unwrap_err().why, Why::OutsideRoot);
    assert_eq!(bench.root.rename(Path::new("in"), x).unwrap_err().why, Why::OutsideRoot);
    assert_eq!(bench.root.list(Path::new("outdir")).await.unwrap_err().why, Why::OutsideRoot);
    assert_eq!(bench.root.set_mode(Path::new("out"), 0o777).unwrap_err().why, Why::OutsideRoot);
    let mut writer = bench.root.writer(x, Start::New, None, Digest::None);
    assert_eq!(writer.open().await.unwrap_err().why, Why::OutsideRoot);
    assert_eq!(std::fs::read_dir(bench.folder.path().join("out")).unwrap().count(), 0);
    // Writing to the name of a link replaces the link, not its target.
    let mut writer = bench.root.writer(Path::new("out"), Start::New, None, Digest::None);
    writer.write(Bytes::from_static(b"new")).await.unwrap();
    writer.commit(QUICK).await.unwrap();
    assert_eq!(std::fs::read(bench.folder.path().join("secret")).unwrap(), b"secret");
    assert_eq!(bench.read("out"), b"new");
}

#[tokio::test]
async fn a_link_is_created_only_if_its_target_is_within_the_root() {
    let bench = bench();
    std::fs::create_dir(bench.path("d")).unwrap();
    bench.root.symlink(Path::new("../x"), Path::new("d/l")).unwrap();
    bench.root.symlink(Path::new("../y"), Path::new("d/l")).unwrap();
    assert_eq!(std::fs::read_link(bench.path("d/l")).unwrap(), Path::new("../y"));
    for target in ["../../x", "/etc/passwd", ""] {
        assert_eq!(
            bench.root.symlink(Path::new(target), Path::new("d/m")).unwrap_err().why,
            Why::OutsideRoot,
            "{target}"
        );
    }
    bench.put("f", "");
    assert_eq!(bench.root.symlink(Path::new("d"), Path::new("f")).unwrap_err().why, Why::Exists);
}

#[tokio::test]
async fn a_users_root_confines_links() {
    let bench = bench();
    std::fs::create_dir(bench.path("home")).unwrap();
    bench.put("f", "not yours");
    symlink("../f", bench.path("home/l")).unwrap();
    let home = bench.root.beneath(Path::new("home")).unwrap();
    assert_eq!(home.reader(Path::new("l"), 0, Digest::None).await.unwrap_err().why, Why::OutsideRoot);
    assert!(bench.root.reader(Path::new("home/l"), 0, Digest::None).await.is_ok());
}

#[tokio::test]
async fn a_file_is_renamed_when_complete_with_its_time_and_mode() {
    let bench = bench();
    bench.put("f", "old");
    let bytes = pattern(2 * BLOCK_BYTES + 5);
    let mut writer = bench.root.writer(Path::new("f"), Start::New, Some(bytes.len() as u64), Digest::Whole);
    for part in bytes.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(part)).await.unwrap();
        assert_eq!(bench.read("f"), b"old");
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let digest = *blake3::hash(&bytes).as_bytes();
    let commit = Commit {
        length: Some(bytes.len() as u64),
        digest: Some(frame::truncated(&digest)),
        modified: Some(modified),
        mode: Some(0o4640),
        durability: Durability::Full,
    };
    let written = writer.commit(commit).await.unwrap();
    assert_eq!(written, Written { length: bytes.len() as u64, digest: Some(digest) });
    assert!(bench.read("f") == bytes);
    let metadata = bench.root.metadata(Path::new("f")).unwrap();
    assert_eq!((metadata.modified, metadata.mode), (modified, 0o640));
    assert_eq!(bench.names(), ["f"]);
}

/// tmpfs has all files in memory.
#[tokio::test]
async fn the_beginning_of_a_file_in_memory_is_read_at_once_and_then_the_rest() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let bytes = pattern(BLOCK_BYTES + AT_ONCE_BYTES as usize + 7);
    std::fs::write(dir.path().join("f"), &bytes).unwrap();
    let root = Root::open(dir.path()).unwrap();
    let mut reader = root.reader(Path::new("f"), 0, Digest::Passing).await.unwrap();
    assert_eq!(reader.metadata().size, bytes.len() as u64);
    let first = reader.next_block().await.unwrap().unwrap();
    assert_eq!(first.len(), AT_ONCE_BYTES as usize);
    assert!(!reader.is_at_end() && reader.summary().is_none());
    assert!([&first[..], &read_all(&mut reader).await.unwrap()].concat() == bytes);
    let digest = Some(*blake3::hash(&bytes).as_bytes());
    assert_eq!(reader.summary().unwrap(), Summary { length: bytes.len() as u64, digest, change: Change::No });
}

#[tokio::test]
async fn with_little_memory_files_are_read_and_written_in_small_blocks() {
    let bench = bench();
    let bytes = pattern(3 * BLOCK_BYTES + 7);
    bench.put("f", &bytes);
    let pool = Arc::new(Pool::new(0));
    let blocks = Blocks::of_session(&pool);
    let mut readers = Vec::new();
    for nth in 0..64 {
        let pieces = Pieces { bytes: 16 << 10, blocks: blocks.clone() };
        let mut reader = bench.root.reader_in(pieces, Path::new("f"), 0, Digest::None).await.unwrap();
        let first = reader.next_block().await.unwrap().unwrap();
        assert!(nth < 32 || first.len() == SMALLEST_BYTES, "{} bytes", first.len());
        readers.push((reader, first));
    }
    for (reader, first) in &mut readers {
        assert!([&first[..], &read_all(reader).await.unwrap()].concat() == bytes);
        assert_eq!(reader.summary().unwrap().length, bytes.len() as u64);
    }
    drop(readers);

    // The part of each upload for which there is no memory is written to its temporary file immediately.
    let mut writers = Vec::new();
    for nth in 0..64 {
        let path = format!("up-{nth}");
        let mut writer =
            bench.root.writer(Path::new(&path), Start::New, None, Digest::Whole).counted_by(blocks.clone());
        for piece in bytes[..BLOCK_BYTES - 1].chunks(1_000) {
            writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        writers.push(writer);
    }
    let on_disk = |nth: usize| {
        bench.root.unfinished_bytes(Path::new(&format!("up-{nth}"))).unwrap().unwrap_or(0) as usize
    };
    let in_memory: usize = (0..64).map(|nth| BLOCK_BYTES - 1 - on_disk(nth)).sum();
    assert!(in_memory <= SESSION_BYTES, "{in_memory} bytes");
    for (nth, mut writer) in writers.into_iter().enumerate() {
        writer.write(Bytes::copy_from_slice(&bytes[BLOCK_BYTES - 1..])).await.unwrap();
        let digest = Some(frame::truncated(blake3::hash(&bytes).as_bytes()));
        writer.commit(Commit { digest, ..QUICK }).await.unwrap();
        assert!(std::fs::read(bench.path(format!("up-{nth}"))).unwrap() == bytes);
    }
    assert_eq!(pool.held(), 0);
    assert!(blocks.take(16 << 10).is_some(), "all of the session's is given back");
}

#[tokio::test]
async fn an_interrupted_file_is_resumed_from_its_own_bytes() {
    let bench = bench();
    let bytes = pattern(3 * BLOCK_BYTES);
    let f = Path::new("f");
    let mut writer = bench.root.writer(f, Start::New, None, Digest::Whole);
    writer.write(Bytes::copy_from_slice(&bytes[..2 * BLOCK_BYTES])).await.unwrap();
    writer.write(Bytes::copy_from_slice(&bytes[2 * BLOCK_BYTES..2 * BLOCK_BYTES + 9])).await.unwrap();
    writer.abandon(Keep::ForResume).await.unwrap();
    assert!(!bench.path("f").exists());
    assert_eq!(bench.root.unfinished_bytes(f).unwrap(), Some(2 * BLOCK_BYTES as u64 + 9));
    let mut lister = bench.root.list(Path::new("")).await.unwrap();
    assert!(lister.next_chunk().await.unwrap().is_none(), "hidden");

    let at = BLOCK_BYTES + 1;
    let mut writer = bench.root.writer(f, Start::At(at as u64), None, Digest::Whole);
    writer.write(Bytes::copy_from_slice(&bytes[at..])).await.unwrap();
    let digest = Some(frame::truncated(blake3::hash(&bytes).as_bytes()));
    writer.commit(Commit { digest, ..QUICK }).await.unwrap();
    assert!(bench.read("f") == bytes);
    assert_eq!(bench.root.unfinished_bytes(f).unwrap(), None);

    // A complete file can be continued too, and is replaced only when the longer one is complete.
    let mut writer = bench.root.writer(f, Start::At(10), None, Digest::None);
    writer.write(Bytes::from_static(b"end")).await.unwrap();
    writer.open().await.unwrap();
    assert!(bench.read("f") == bytes);
    writer.commit(QUICK).await.unwrap();
    assert_eq!(bench.read("f"), [&bytes[..10], b"end"].concat());
    let mut writer = bench.root.writer(f, Start::Append, None, Digest::None);
    writer.write(Bytes::from_static(b"!")).await.unwrap();
    writer.commit(QUICK).await.unwrap();
    assert_eq!(bench.read("f"), [&bytes[..10], b"end!"].concat());
    let mut writer = bench.root.writer(f, Start::At(15), None, Digest::None);
    assert_eq!(writer.open().await.unwrap_err().why, Why::PastEnd { size: 14 });
    let mut writer = bench.root.writer(Path::new("new"), Start::At(1), None, Digest::None);
    assert_eq!(writer.open().await.unwrap_err().why, Why::PastEnd { size: 0 });
    assert_eq!(bench.names(), ["f"]);
}

#[tokio::test]
async fn a_wrong_file_is_not_renamed() {
    let bench = bench();
    let f = Path::new("f");
    let writer = |start| bench.root.writer(f, start, None, Digest::Whole);
    let mut short = writer(Start::New);
    short.write(Bytes::from_static(b"abc")).await.unwrap();
    let error = short.commit(Commit { length: Some(4), ..QUICK }).await.unwrap_err();
    assert_eq!(error.why, Why::WrongLength { expected: 4, found: 3 });
    assert_eq!(bench.root.unfinished_bytes(f).unwrap(), Some(3), "what is short can be continued");
    let mut long = writer(Start::At(3));
    long.write(Bytes::from_static(b"de")).await.unwrap();
    long.commit(Commit { length: Some(4), ..QUICK }).await.unwrap_err();
    assert_eq!(bench.root.unfinished_bytes(f).unwrap(), None, "what is long cannot");
    let mut wrong = writer(Start::New);
    wrong.write(Bytes::from_static(b"abcd")).await.unwrap();
    let error = wrong.commit(Commit { digest: Some([7; 16]), ..QUICK }).await.unwrap_err();
    assert_eq!(error.why, Why::WrongDigest);
    assert_eq!(bench.names(), [""; 0]);
}

#[tokio::test]
async fn two_transfers_do_not_write_one_file() {
    let bench = bench();
    let f = Path::new("f");
    let mut first = bench.root.writer(f, Start::New, None, Digest::None);
    first.open().await.unwrap();
    let mut second = bench.root.writer(f, Start::New, None, Digest::None);
    assert_eq!(second.open().await.unwrap_err().why, Why::Busy);
    first.write(Bytes::from_static(b"1")).await.unwrap();
    first.commit(QUICK).await.unwrap();
    let mut third = bench.root.writer(f, Start::New, None, Digest::None);
    third.open().await.unwrap();
    third.commit(QUICK).await.unwrap();
    assert_eq!(bench.read("f"), b"");
}

#[tokio::test]
async fn a_newer_writer_of_the_same_owner_takes_a_file_over() {
    let bench = bench();
    let f = Path::new("f");
    let by = |owner: &str, turn| Claimant { owner: owner.into(), turn };
    let writer =
        |owner, turn, start| bench.root.writer(f, start, None, Digest::None).claimed_by(by(owner, turn));
    let block = Bytes::from(pattern(BLOCK_BYTES));
    let mut first = writer("a", 1, Start::New);
    first.open().await.unwrap();
    first.write(block.clone()).await.unwrap();
    for (owner, turn) in [("a", 0), ("a", 1), ("b", 2)] {
        assert_eq!(
            writer(owner, turn, Start::New).open().await.unwrap_err().why,
            Why::Busy,
            "{owner} {turn}"
        );
    }
    let mut second = writer("a", 2, Start::At(1000));
    second.open().await.unwrap();
    // From now on the first writer fails, changes nothing, and removes nothing when it is dropped.
    let _ = first.write(block).await;
    assert_eq!(first.open().await.unwrap_err().why, Why::TakenOver);
    first.abandon(Keep::Nothing).await.unwrap_err();
    second.write(Bytes::from_static(b"more")).await.unwrap();
    assert_eq!(second.commit(QUICK).await.unwrap().length, 1004);
    assert_eq!(bench.read("f"), [&pattern(1000)[..], b"more"].concat());
    // So does a writer that is about to finish, and one that is dropped.
    let mut third = writer("a", 3, Start::New);
    third.write(Bytes::from_static(b"third")).await.unwrap();
    third.open().await.unwrap();
    let mut fourth = writer("a", 4, Start::New);
    fourth.open().await.unwrap();
    assert_eq!(third.commit(QUICK).await.unwrap_err().why, Why::TakenOver);
    let mut fifth = writer("a", 5, Start::New);
    fifth.open().await.unwrap();
    drop(fourth);
    fifth.write(Bytes::from_static(b"fifth")).await.unwrap();
    fifth.commit(QUICK).await.unwrap();
    assert_eq!(bench.read("f"), b"fifth");
    assert!(bench.root.claims_are_empty());
}

#[tokio::test]
async fn an_empty_temporary_file_is_removed() {
    let bench = bench();
    let mut writer = bench.root.writer(Path::new("f"), Start::New, None, Digest::None);
    writer.open().await.unwrap();
    assert_eq!(bench.names(), [".f.braidftp-part"]);
    drop(writer);
    assert_eq!(bench.names(), [""; 0]);
    std::fs::create_dir(bench.path("d")).unwrap();
    let mut writer = bench.root.writer(Path::new("d"), Start::New, None, Digest::None);
    assert_eq!(writer.open().await.unwrap_err().why, Why::IsAFolder);
}

#[tokio::test]
async fn a_folder_is_listed_in_chunks_with_every_name() {
    let bench = bench();
    for i in 0..1000 {
        bench.put(format!("{i}"), "x");
    }
    bench.put(std::ffi::OsStr::from_bytes(b"\xff bytes \xfe"), "x");
    bench.put("a\nb", "which FTP cannot carry: whoever reads the folder has to say so");
    symlink("0", bench.path("link")).unwrap();
    let mut lister = bench.root.list(Path::new("")).await.unwrap();
    let (mut count, mut chunks, mut bytes_name, mut link) = (0, 0, false, None);
    while let Some(chunk) = lister.next_chunk().await.unwrap() {
        chunks += 1;
        assert!(chunk.len() <= 512);
        for entry in chunk {
            count += 1;
            bytes_name |= entry.name.as_bytes() == b"\xff bytes \xfe";
            if let Kind::Link(target) = entry.metadata.kind {
                link = Some((target, entry.metadata.size));
            }
        }
    }
    assert!(count == 1003 && chunks >= 3, "{count} in {chunks}");
    assert!(bytes_name);
    assert_eq!(link.unwrap(), (Path::new("0").to_owned(), 1), "with the size of what it leads to");
}

#[tokio::test]
async fn a_tree_is_walked_folders_first_and_an_unreadable_folder_is_one_item() {
    let bench = bench();
    let deep = "d/".repeat(12);
    std::fs::create_dir_all(bench.path(&deep)).unwrap();
    bench.put(format!("{deep}f"), "x");
    for folder in ["a", "b", "closed"] {
        std::fs::create_dir(bench.path(folder)).unwrap();
        bench.put(format!("{folder}/f"), "x");
    }
    symlink("d", bench.path("link")).unwrap();
    std::fs::set_permissions(bench.path("closed"), PermissionsExt::from_mode(0o000)).unwrap();
    let root_reads_all = std::fs::read_dir(bench.path("closed")).is_ok();

    let mut walk = bench.root.walk(Path::new("")).await.unwrap();
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(chunk) = walk.next_chunk().await {
        for item in chunk {
            match item {
                WalkItem::Found { path, .. } => {
                    let parent = path.parent().unwrap().to_owned();
                    assert!(parent.as_os_str().is_empty() || found.contains(&parent), "{path:?}");
                    found.push(path);
                }
                WalkItem::Unreadable { path, error } => unreadable.push((path, error.why)),
            }
        }
    }
    let (closed, expected) =
        if root_reads_all { (1, vec![]) } else { (0, vec![("closed".into(), Why::Denied)]) };
    assert_eq!(found.len(), 12 + 1 + 3 + 2 + 1 + closed);
    assert_eq!(unreadable, expected);
    std::fs::set_permissions(bench.path("closed"), PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_walk_goes_no_deeper_than_its_limit() {
    let bench = bench();
    std::fs::create_dir_all(bench.path("d/".repeat(MAX_DEPTH + 1))).unwrap();
    let mut walk = bench.root.walk(Path::new("")).await.unwrap();
    let mut last = None;
    let mut found = 0;
    while let Some(chunk) = walk.next_chunk().await {
        found += chunk.iter().filter(|item| matches!(item, WalkItem::Found { .. })).count();
        last = chunk.into_iter().last().or(last);
    }
    assert!(matches!(last, Some(WalkItem::Unreadable { error: Error { why: Why::TooDeep, .. }, .. })));
    assert_eq!(found, MAX_DEPTH);
}

#[tokio::test]
async fn a_walk_reads_one_chunk_ahead_if_there_is_memory_for_two() {
    const CHUNK_BYTES: usize = 64 << 10;
    let bench = bench();
    (0..1_000).for_each(|nth| bench.put(format!("{nth}"), "x"));
    let count =
        |items: &[WalkItem]| items.iter().filter(|item| matches!(item, WalkItem::Found { .. })).count();
    // The memory of the pool, and the number of chunks that it holds while the first one is used.
    for (bytes, chunks_held) in [(8 << 20, 2), (8 * CHUNK_BYTES, 1), (0, 0)] {
        let pool = Arc::new(Pool::new(bytes));
        let walk = bench.root.walk(Path::new("")).await.unwrap();
        let mut walk = walk.counted_by(Blocks::of_session(&pool));
        let mut found = count(&walk.next_chunk().await.unwrap());
        assert_eq!(pool.held(), chunks_held * CHUNK_BYTES);
        while let Some(items) = walk.next_chunk().await {
            found += count(&items);
            assert!(pool.held() <= chunks_held * CHUNK_BYTES);
        }
        assert!(walk.is_done());
        assert_eq!(found, 1_000);
        drop(walk);
        assert_eq!(pool.held(), 0);
    }
}

/// The paths of a walk in order, and the maximum number of folders that it had open.
fn walked(mut levels: levels::Levels) -> (Vec<PathBuf>, usize) {
    let (mut paths, mut open) = (Vec::new(), 0);
    while let Some(item) = list::next_item(&mut levels) {
        let WalkItem::Found { path, metadata } = item else { panic!("{item:?}") };
        if metadata.kind == Kind::Folder {
            levels.enter(path.file_name().unwrap()).unwrap();
        }
        open = open.max(levels.open_folders());
        paths.push(path);
    }
    assert_eq!(levels.open_folders(), 0);
    (paths, open)
}

#[test]
fn a_walk_with_few_open_folders_finds_everything() {
    let bench = bench();
    // Folders with files before and after their subfolders, in whichever order the file system returns them.
    for depth in 0..12 {
        let path = "d/".repeat(depth);
        std::fs::create_dir_all(bench.path(format!("{path}d"))).unwrap();
        std::fs::create_dir_all(bench.path(format!("{path}e/f/g"))).unwrap();
        (0..40).for_each(|nth| bench.put(format!("{path}{nth}"), "x"));
    }
    let levels = |folders| levels::Levels::new(&bench.root, Path::new(""), folders).unwrap();
    let (all, open) = walked(levels(blocks::Folders::default()));
    assert_eq!((all.len(), open), (12 * (1 + 3 + 40), 15));
    assert_eq!(walked(levels(blocks::Folders::fewest())), (all.clone(), FOLDERS_ALWAYS));
    // Below a folder that is not the root.
    let below = |folders| levels::Levels::new(&bench.root, Path::new("d/d"), folders).unwrap();
    assert_eq!(walked(below(blocks::Folders::fewest())).0, walked(below(blocks::Folders::default())).0);
    // With the folders that other walks leave.
    let pool = Arc::new(Pool::default());
    let one = || Blocks::of_session(&pool).folders();
    let mut others: Vec<_> = (0..FOLDERS_MAX).map(|_| one()).collect();
    others.iter_mut().for_each(|other| while other.take() {});
    assert_eq!(walked(levels(one())).0, all);
    drop(others);
    assert_eq!(walked(levels(one())), (all, 15));
}

#[test]
fn a_closed_folder_that_was_replaced_is_not_continued() {
    let bench = bench();
    std::fs::create_dir_all(bench.path("a/b/c/d")).unwrap();
    let mut levels = levels::Levels::new(&bench.root, Path::new(""), blocks::Folders::fewest()).unwrap();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(levels.next_name().unwrap().unwrap().0, name);
        levels.enter(name.as_ref()).unwrap();
    }
    std::fs::rename(bench.path("a"), bench.path("gone")).unwrap();
    std::fs::create_dir_all(bench.path("a/b/c/other")).unwrap();
    symlink("gone", bench.path("link")).unwrap();
    assert!(levels.next_name().is_none());
    // The innermost two were open and continue.
    for folder in ["a/b/c/d", "a/b/c"] {
        assert_eq!(levels.leave().unwrap(), Path::new(folder));
        if folder == "a/b/c/d" {
            assert!(levels.next_name().is_none());
        }
    }
    assert_eq!(levels.next_name().unwrap().unwrap_err().why, Why::NotFound);
}

#[tokio::test]
async fn a_file_that_cannot_fit_is_refused_before_its_first_byte() {
    let bench = bench();
    let free = bench.root.free_bytes().unwrap();
    let mut writer =
        bench.root.writer(Path::new("f"), Start::New, Some(free.saturating_mul(2)), Digest::None);
    assert_eq!(writer.open().await.unwrap_err().why, Why::NoSpace);
    drop(writer);
    assert_eq!(bench.names(), [""; 0]);
    let full = std::io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
    assert_eq!(Why::of(&full), Why::NoSpace);
}

#[tokio::test]
async fn folders_are_created_renamed_and_removed() {
    let bench = bench();
    let root = &bench.root;
    root.mkdir_all(Path::new("a/b/c")).unwrap();
    root.mkdir_all(Path::new("a/b")).unwrap();
    assert_eq!(root.mkdir(Path::new("a")).unwrap_err().why, Why::Exists);
    assert_eq!(root.mkdir(Path::new("x/y")).unwrap_err().why, Why::NotFound);
    assert_eq!(root.remove_dir(Path::new("a")).unwrap_err().why, Why::NotEmpty);
    root.rename(Path::new("a/b/c"), Path::new("c")).unwrap();
    bench.put("a/b/.f.braidftp-part", "left by an interrupted transfer");
    root.remove_dir(Path::new("a/b")).unwrap();
    assert_eq!(root.remove_file(Path::new("a")).unwrap_err().why, Why::IsAFolder);
    bench.put("f", "");
    assert_eq!(root.mkdir_all(Path::new("f")).unwrap_err().why, Why::NotAFolder);
    root.set_modified(Path::new("c"), SystemTime::UNIX_EPOCH - Duration::from_millis(1500)).unwrap();
    let before_1970 = root.metadata(Path::new("c")).unwrap().modified;
    assert_eq!(before_1970, SystemTime::UNIX_EPOCH - Duration::from_millis(1500));
    root.remove_dir(Path::new("c")).unwrap();
    assert_eq!(root.remove_dir(Path::new("")).unwrap_err().why, Why::BadName("it names no file"));
}

#[test]
fn a_hard_link_replaces_a_file_but_no_folder_and_stays_within_the_root() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let link = |existing: &str, path: &str| root.hard_link(Path::new(existing), Path::new(path));
    let identity = |path: &str| root.link_metadata(Path::new(path)).unwrap().identity;
    std::fs::write(dir.path().join("a"), "a").unwrap();
    std::fs::write(dir.path().join("b"), "b").unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("symbolic")).unwrap();
    assert_eq!(link("a", "folder/new").unwrap(), Linked::Now);
    assert_eq!(link("a", "folder/new").unwrap(), Linked::Before);
    assert_eq!(link("a", "b").unwrap(), Linked::Now);
    assert!(identity("a") == identity("b") && identity("a") == identity("folder/new"));
    assert_eq!(root.link_metadata(Path::new("a")).unwrap().links, 3);
    assert_eq!(link("a", "folder").unwrap_err().why, Why::IsAFolder);
    assert_eq!(link("folder", "c").unwrap_err().why, Why::NotAFile);
    assert_eq!(link("symbolic", "c").unwrap_err().why, Why::NotAFile);
    assert_eq!(link("nothing", "c").unwrap_err().why, Why::NotFound);
    assert_eq!(link("out/secret", "c").unwrap_err().why, Why::OutsideRoot);
    assert_eq!(link("a", "out/c").unwrap_err().why, Why::OutsideRoot);
    // A symbolic link is replaced itself.
    assert_eq!(link("b", "symbolic").unwrap(), Linked::Now);
    assert_eq!(identity("symbolic"), identity("a"));
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "b", "folder", "out", "symbolic"]);
}

#[test]
fn links_of_one_file_may_replace_a_name_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    std::fs::write(dir.path().join("a"), "a").unwrap();
    for round in 0..50 {
        std::fs::write(dir.path().join("new"), "another").unwrap();
        std::fs::rename(dir.path().join("new"), dir.path().join("n")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| root.hard_link(Path::new("a"), Path::new("n")).unwrap());
            }
        });
        let names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "round {round}: {names:?}");
        assert_eq!(std::fs::read(dir.path().join("n")).unwrap(), b"a");
    }
}

#[tokio::test]
async fn an_upload_never_writes_into_the_link_of_a_process_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    std::fs::write(dir.path().join("a"), "content").unwrap();
    // As hard_link leaves it behind between its two steps.
    let identity = root.link_metadata(Path::new("a")).unwrap().identity;
    let left = dir.path().join(name::link("n".as_ref(), identity));
    std::fs::hard_link(dir.path().join("a"), &left).unwrap();
    assert!(is_unfinished(left.file_name().unwrap()));
    assert_eq!(root.unfinished_bytes(Path::new("n")).unwrap(), None);
    let mut writer = root.writer(Path::new("n"), Start::New, None, Digest::None);
    writer.write(Bytes::from_static(b"other")).await.unwrap();
    writer.commit(Commit::default()).await.unwrap();
    assert_eq!(std::fs::read(dir.path().join("a")).unwrap(), b"content");
    assert_eq!(root.hard_link(Path::new("a"), Path::new("n")).unwrap(), Linked::Now);
    assert!(!left.exists());
}
