//! Tests of buckets in memory; those before an S3 server are in `tests/server/bucket.rs`.

use std::path::PathBuf;

use opendal::services::Memory;
use proptest::prelude::*;

use super::super::fs::{Commit, Start, WalkItem};
use super::*;

/// A bucket in memory.
fn bucket() -> Bucket {
    Bucket::of(Operator::new(Memory::default()).unwrap(), "memory://")
}

async fn put(bucket: &Bucket, path: &str, bytes: &'static [u8], start: Start) -> Result<(), Error> {
    let mut writer = bucket.writer(Path::new(path), start, None);
    writer.write(bytes.into()).await?;
    writer.commit(Commit::default()).await
}

async fn read(bucket: &Bucket, path: &str, offset: u64) -> Result<Vec<u8>, Error> {
    let mut reader = bucket.reader(Pieces::default(), Path::new(path), offset).await?;
    let mut all = Vec::new();
    while let Some(block) = reader.next_block().await? {
        all.extend_from_slice(&block);
    }
    assert!(reader.is_at_end());
    Ok(all)
}

async fn walked(bucket: &Bucket, path: &str) -> Vec<String> {
    let mut walk = bucket.walk(Path::new(path)).await.unwrap();
    let mut all = Vec::new();
    while let Some(items) = walk.next_chunk().await {
        all.extend(items.into_iter().map(|item| match item {
            WalkItem::Found { path, metadata } if metadata.kind == Kind::Folder => {
                format!("{}/", path.display())
            }
            WalkItem::Found { path, .. } => path.display().to_string(),
            WalkItem::Unreadable { path, error } => format!("{}: {}", path.display(), error.why),
        }));
    }
    assert!(walk.is_done());
    all
}

#[tokio::test]
async fn files_are_written_read_and_appended_to() {
    let bucket = bucket();
    put(&bucket, "a/f", b"0123456789", Start::New).await.unwrap();
    assert_eq!(read(&bucket, "a/f", 4).await.unwrap(), b"456789");
    assert_eq!(read(&bucket, "a/f", 10).await.unwrap(), b"");
    assert_eq!(read(&bucket, "a/f", 11).await.unwrap_err().why, Why::PastEnd { size: 10 });
    put(&bucket, "a/f", b"X", Start::At(2)).await.unwrap();
    put(&bucket, "a/f", b"Y", Start::Append).await.unwrap();
    assert_eq!(read(&bucket, "a/f", 0).await.unwrap(), b"01XY");
    assert_eq!(put(&bucket, "a/f", b"Z", Start::At(5)).await.unwrap_err().why, Why::PastEnd { size: 4 });
    assert_eq!(read(&bucket, "a", 0).await.unwrap_err().why, Why::IsAFolder);
    assert_eq!(put(&bucket, "a", b"", Start::New).await.unwrap_err().why, Why::IsAFolder);
    assert_eq!(read(&bucket, "b", 0).await.unwrap_err().why, Why::NotFound);
    let digest = bucket.digest(Path::new("a/f"), HashName::Blake3, &AtomicBool::new(false)).await.unwrap();
    assert_eq!((digest.digest, digest.bytes), (blake3::hash(b"01XY").as_bytes().to_vec(), 4));
}

#[tokio::test]
async fn an_upload_that_ends_early_or_is_too_long_leaves_the_old_file() {
    let bucket = bucket();
    put(&bucket, "f", b"old", Start::New).await.unwrap();
    let mut writer = bucket.writer(Path::new("f"), Start::New, None);
    writer.write(vec![1; 6 << 20].into()).await.unwrap();
    writer.abandon().await;
    let mut writer = bucket.writer(Path::new("f"), Start::New, None);
    writer.expect(Some(3), None);
    let error = writer.write(vec![1; 4].into()).await.unwrap_err();
    assert_eq!(error.why, Why::WrongLength { expected: 3, found: 4 });
    drop(writer);
    assert_eq!(read(&bucket, "f", 0).await.unwrap(), b"old");
    assert_eq!(bucket.room.available_permits(), UPLOADS_BYTES / writer::UNIT_BYTES);
}

#[tokio::test]
async fn memory_for_uploads_is_limited_and_a_further_upload_waits() {
    let bucket = bucket();
    let mut writers = Vec::new();
    loop {
        let mut writer = bucket.writer(Path::new(&writers.len().to_string()), Start::New, None);
        let waits = tokio::time::timeout(Duration::from_millis(300), writer.write(vec![1; 64 << 10].into()));
        if waits.await.is_err() {
            break;
        }
        writers.push(writer);
    }
    // A store in memory takes no parts: each holds as much as a file may have.
    assert_eq!(writers.len() as u64 * bucket.file_bytes_max(), UPLOADS_BYTES as u64);
    writers.pop().unwrap().abandon().await;
    put(&bucket, "last", &[1; 20_000], Start::New).await.unwrap();
}

#[tokio::test]
async fn folders_exist_as_long_as_something_is_in_them_or_they_were_made() {
    let bucket = bucket();
    let (kind, path) =
        (async |path: &str| bucket.metadata(Path::new(path)).await.map(|found| found.kind), Path::new);
    assert_eq!(kind("").await, Ok(Kind::Folder));
    bucket.mkdir(path("made")).await.unwrap();
    assert_eq!(bucket.mkdir(path("made")).await.unwrap_err().why, Why::Exists);
    put(&bucket, "b/c/f", b"1", Start::New).await.unwrap();
    assert_eq!(kind("b").await, Ok(Kind::Folder));
    assert_eq!(walked(&bucket, "").await, ["b/", "b/c/", "b/c/f", "made/"]);
    assert_eq!(walked(&bucket, "b").await, ["c/", "c/f"]);
    assert_eq!(bucket.remove_dir(path("b")).await.unwrap_err().why, Why::NotEmpty);
    bucket.remove_dir(path("made")).await.unwrap();
    assert_eq!(bucket.remove_dir(path("made")).await.unwrap_err().why, Why::NotFound);
    assert_eq!(bucket.remove_file(path("b")).await.unwrap_err().why, Why::IsAFolder);
    assert!(matches!(bucket.rename(path("b"), path("b/x")).await.unwrap_err().why, Why::BadName(_)));
    assert_eq!(bucket.used_bytes().await, Ok(1));
    let below = bucket.beneath(path("b")).unwrap();
    assert_eq!(walked(&below, "").await, ["c/", "c/f"]);
    bucket.remove_file(path("b/c/f")).await.unwrap();
    assert_eq!(walked(&bucket, "").await, Vec::<String>::new());
}

#[tokio::test]
async fn keys_that_are_no_paths_are_reported_and_not_taken_for_others() {
    let bucket = bucket();
    put(&bucket, "a/f", b"1", Start::New).await.unwrap();
    for path in [" a", "a ", "\u{a0}"] {
        let error = put(&bucket, path, b"", Start::New).await.unwrap_err();
        assert!(matches!(error.why, Why::BadName(_)), "{path:?}");
    }
    let mut walk = bucket.walk(Path::new("")).await.unwrap();
    let mut items = Vec::new();
    for key in ["x//y", "x/../y", "x/./y", "x/f"] {
        walk.add(key, file(&opendal::MetadataBuilder::file(1).build()), &mut items);
    }
    let deep = "d/".repeat(150);
    walk.add(&format!("{deep}f"), file(&opendal::MetadataBuilder::file(1).build()), &mut items);
    let unreadable = items.iter().filter(|item| matches!(item, WalkItem::Unreadable { .. })).count();
    assert_eq!(unreadable, 4);
    let paths = items.iter().filter_map(|item| match item {
        WalkItem::Found { path, .. } => Some(path.clone()),
        WalkItem::Unreadable { .. } => None,
    });
    assert_eq!(paths.take(2).collect::<Vec<PathBuf>>(), [PathBuf::from("x"), PathBuf::from("x/f")]);
}

#[test]
fn addresses_are_told_from_paths_and_wrong_ones_are_explained() {
    assert!(Bucket::is_address("s3://box") && Bucket::is_address("typo://box"));
    assert!(!Bucket::is_address("/srv/a://b") && !Bucket::is_address("://") && !Bucket::is_address("srv"));
    assert!(Bucket::open("typo://box").unwrap_err().contains("s3://, gcs://"));
    let bucket = Bucket::open("s3://box/a/?region=x&access_key_id=k&secret_access_key=s").unwrap();
    assert_eq!(bucket.shown(), "s3://box/a");
    let told = Bucket::without_secrets("webdav://anna:secret@host:8080/a/b@c/?endpoint=x");
    assert_eq!(told, "webdav://host:8080/a/b@c");
}

proptest! {
    #[test]
    fn times_go_there_and_back(seconds in 0_u64..1 << 40, nanos in 0_u32..1_000_000_000) {
        let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        prop_assert_eq!(parse_time(&time_text(time)), Some(time));
    }

    #[test]
    fn no_text_of_a_time_panics(text in "[0-9.+-]{0,30}") {
        parse_time(&text);
    }
}
