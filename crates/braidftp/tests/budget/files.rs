//! Attacks on the disk: deep trees, uploads and their temporary files.

use super::*;

pub(super) fn deep_tree(row: Row) {
    let (folder, served) = with(quick());
    let most = limit(row, &quick());
    std::fs::create_dir_all(folder.path("d/".repeat(most + 5))).unwrap();
    let (listing, done) = Control::anonymous(&served).fetch("XTREE");
    let deepest =
        String::from_utf8(listing).unwrap().lines().map(|line| line.matches("d/").count() + 1).max();
    assert!(deepest.unwrap() <= most + 1 && done.starts_with("226"), "{deepest:?}, {done}");
}

pub(super) fn giant_upload(_: Row) {
    let (folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    control.command(&format!("ALLO {}", 1_u64 << 60), "2");
    let reply = control.store("STOR giant", b"x");
    assert!(reply.starts_with("45"), "{reply}");
    assert!(folder.names().iter().all(|name| name != "giant"));
}

/// An upload to a disk with less free space than the reserve: with an announced size, and without.
pub(super) fn full_disk(row: Row) {
    let settings = Settings { disk_reserve: Some(1 << 60), ..quick() };
    assert_eq!(limit(row, &settings), 1 << 60);
    let (folder, served) = with(settings);
    let mut control = Control::anonymous(&served);
    for allo in [None, Some("ALLO 1")] {
        allo.iter().for_each(|allo| drop(control.command(allo, "2")));
        let reply = control.store("STOR more", b"x");
        assert!(reply.starts_with("452"), "{reply}");
        assert_eq!(folder.names(), [""; 0]);
    }
}

/// Temporary files in a folder: bytes and number.
fn left(folder: &Folder) -> (usize, usize) {
    let parts = folder.names().into_iter().filter(|name| name.ends_with(".braidftp-part"));
    // One may vanish meanwhile.
    let sizes: Vec<usize> =
        parts.filter_map(|name| Some(std::fs::metadata(folder.path(name)).ok()?.len() as usize)).collect();
    (sizes.iter().sum(), sizes.len())
}

/// Interrupted uploads, and what a starting server does with their files.
pub(super) fn broken_uploads(_: Row) {
    const EACH: usize = 40_000;
    let settings = Settings { parts_quota: Some(100_000), ..quick() };
    let most = limit(Row::PartsBytes, &settings);
    let (folder, served) = with(settings);
    for nth in 0..8 {
        let mut control = Control::anonymous(&served);
        control.command("ALLO 100000", "2");
        let mut data = control.begin(&format!("STOR broken-{nth}"));
        data.write_all(&pattern(EACH)).unwrap();
        drop(data);
        control.expect("4");
        assert!(left(&folder).0 <= most, "{:?}", left(&folder));
    }
    assert_eq!(left(&folder), (2 * EACH, 2));
    assert_eq!(folder.names(), [".broken-6.braidftp-part", ".broken-7.braidftp-part"]);

    let most = limit(Row::PartsCount, &quick());
    let folder = Folder::new();
    (0..most + 20).for_each(|nth| folder.put(format!(".{nth}.braidftp-part"), "x"));
    let _served = serve_with(folder.root(), |builder| builder.access(Access::Writable));
    server_support::eventually("the oldest are removed", || left(&folder).1 <= most);
    assert_eq!(left(&folder).1, most);
}

/// Interrupted uploads that nobody resumes.
pub(super) fn old_uploads(_: Row) {
    let folder = Folder::new();
    folder.put(".old.braidftp-part", "x");
    folder.put("whole", "x");
    let settings = Settings { parts_kept: Some(Duration::ZERO), ..quick() };
    let _served = serve_with(folder.root(), |builder| builder.access(Access::Writable).settings(settings));
    server_support::eventually("it is removed", || folder.names() == ["whole"]);
}

/// Sessions that request digests of large files: others wait, and get their turn when one of the sessions
/// ends.
pub(super) fn digests(_: Row) {
    let (folder, served) = with(quick());
    folder.put("small", b"small");
    std::fs::File::create(folder.path("giant")).unwrap().set_len(1 << 40).unwrap();
    let all = limit(Row::Digests, &quick());
    // Over TCP a session runs one command at a time, so one request each is enough.
    let mut readers: Vec<Control> = (0..all).map(|_| Control::anonymous(&served)).collect();
    readers.iter_mut().for_each(|reader| reader.send("HASH giant"));
    std::thread::sleep(Duration::from_secs(1));
    let mut late = Control::anonymous(&served);
    late.send("HASH small");
    assert!(!late.answers_within(Duration::from_secs(1)), "there is no turn for it");
    drop(readers.pop());
    let reply = late.reply();
    let digest = "81db8ebbbbc69c6c6ad4a6aa92b76e0c08af547da236b9e2c9dbe1d8285a8130";
    assert_eq!(reply, format!("213 SHA-256 0-5 {digest} /small\r\n"));
    drop(readers);
    // One session of braid cannot occupy all turns.
    in_tokio(async {
        let served = sctp_server(quick(), |folder| {
            folder.put("small", b"small");
            std::fs::File::create(folder.path("giant")).unwrap().set_len(1 << 40).unwrap();
        });
        assert!(limit(Row::DigestsOfSession, &quick()) < all);
        let (_greedy_endpoint, greedy) = connect(served.address, streams(4));
        say(&greedy, LOG_IN).await;
        hear(&greedy, "200").await;
        say(&greedy, "HASH giant\r\n".repeat(2 * all)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (_endpoint, other) = connect(served.address, streams(4));
        say(&other, LOG_IN).await;
        say(&other, "HASH small\r\n").await;
        hear(&other, "213").await;
    });
}
