//! Identity files on a full disk.

use std::path::Path;

use braidftp::identity::{Files, KnownHosts, Peer, ServerIdentity, Stranger, Trust};

/// Runs `work` with a folder on its own file system of this size; `None` if this process may not mount.
fn on_small_disk<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce(&Path) -> T + Send + 'static,
) -> Option<T> {
    // The mount namespace of a thread: it ends with the thread, and so does the file system.
    std::thread::spawn(move || {
        use rustix::mount::{MountFlags, MountPropagationFlags};
        let folder = tempfile::tempdir().unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        // SAFETY: this thread shares no file descriptors that this takes away; it has a mount table of its own from
        // here to its end, and nothing else changes.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.ok()?;
        rustix::mount::mount_change("/", private).ok()?;
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(size.as_c_str()))
            .ok()?;
        Some(work(folder.path()))
    })
    .join()
    .unwrap()
}

#[test]
fn a_full_disk_for_known_hosts_is_reported_and_loses_no_entry() {
    let keys = tempfile::tempdir().unwrap();
    let key = ServerIdentity::load_or_make(Files::one(keys.path().join("k.pem")), &[]).unwrap().fingerprint();
    let done = on_small_disk(64 << 10, move |disk| {
        let known_hosts = KnownHosts::at(disk.join("known_hosts"));
        let trust = Trust::new(known_hosts.clone());
        let server = |port| Stranger { peer: Peer::new("localhost", port), key, note: String::new() };
        trust.remember(&server(1)).unwrap();
        let before = std::fs::read(known_hosts.path()).unwrap();
        let _ = std::fs::write(disk.join("filler"), vec![0; 1 << 20]);
        let error = trust.remember(&server(2)).unwrap_err().to_string();
        assert!(
            error.contains("known_hosts (it is unchanged)") && error.contains("free some space"),
            "{error}"
        );
        assert_eq!(std::fs::read(known_hosts.path()).unwrap(), before);
        assert_eq!(std::fs::read_dir(disk).unwrap().count(), 2, "nothing is left over");
        // A server's key file is complete or absent.
        let files = Files::one(disk.join("server.pem"));
        let error = ServerIdentity::load_or_make(files.clone(), &[]).unwrap_err().to_string();
        assert!(error.contains("make the server's key"), "{error}");
        assert!(!files.key.exists());
        std::fs::remove_file(disk.join("filler")).unwrap();
        trust.remember(&server(2)).unwrap();
    });
    if done.is_none() {
        eprintln!("SKIPPED: no right to mount a small file system");
    }
}
