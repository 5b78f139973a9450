//! Our client with third-party servers over TCP; and our packets in Wireshark. Third-party clients are in
//! `server_clients.rs`.
//!
//! `cargo xtask test` installs the programs and sets `BRAIDFTP_PEERS` to the folder of the unpacked servers.
//! A test whose program is missing prints that it is skipped; with `BRAIDFTP_REQUIRE_PEERS` it fails instead.

use std::fs::{self, Permissions};
use std::io::{Read, Seek, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for a server to listen and for a client to end; long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(150);

/// Names that all of these programs can transfer.
const FILES: &[(&str, usize)] = &[
    ("empty", 0),
    ("one", 1),
    ("a name with spaces", 1_000),
    ("\u{fc}ml\u{e4}ut \u{65e5}\u{672c}", 4_097),
    ("folder/big", 300_000),
    ("folder/deeper/percent % and & ampersand", 70_000),
];

fn our_program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_braidftp"))
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that servers of other users may enter, and its tree.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let root = dir.path().join("tree");
    for (name, size) in FILES {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..*size).map(|place| (place * 31 + place / 256) as u8).collect();
        fs::write(path, bytes).unwrap();
    }
    fs::create_dir(root.join("nothing in it")).unwrap();
    dir
}

/// Checks that every file of the tree is in the copy, byte for byte, and that the copy has no other files.
fn assert_same(root: &Path, copy: &Path) {
    for (name, _) in FILES {
        let got = fs::read(copy.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(got == fs::read(root.join(name)).unwrap(), "{name} has other bytes");
    }
    assert_eq!(files_in(copy), FILES.len());
}

fn files_in(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.file_type().unwrap().is_dir() { files_in(&entry.path()) } else { 1 }).sum()
}

/// Prints that a test is skipped; fails if it must not be.
fn left_out(what: &str) {
    assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "{what} is not there");
    eprintln!("LEFT OUT: {what} is not there; cargo xtask test installs it");
}

/// The folder of the unpacked servers.
fn peers() -> PathBuf {
    std::env::var_os("BRAIDFTP_PEERS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"), PathBuf::from)
}

/// An unpacked program with its libraries, if it exists and we are root, which servers that change users
/// require.
fn peer(program: &str) -> Option<Command> {
    let root = peers();
    let path = root.join(program);
    if !path.exists() {
        left_out(program);
        return None;
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("LEFT OUT: {program} wants to be started by root");
        return None;
    }
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH)));
    Some(command)
}

/// A program of the system.
fn installed(program: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        return Some(Command::new(program));
    }
    left_out(program);
    None
}

/// An address for a server that cannot report a port chosen by the system: a loopback address used by this
/// process and call only, and a port below those that the system assigns. No socket is bound to test it: a
/// child that another test is just starting could inherit the socket and keep the port in use.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [high, low] = (1 + (std::process::id() % 0xfffe) as u16).to_be_bytes();
    SocketAddr::from(([127, high, low, NEXT.fetch_add(1, Ordering::Relaxed)], 2121))
}

/// Starts a server and waits for its greeting; starts it again if it ends immediately, because starting is
/// not under test.
fn serve(command: &mut Command, address: SocketAddr) -> Running {
    let mut said = tempfile::tempfile().unwrap();
    for _ in 0..3 {
        let output = || Stdio::from(said.try_clone().unwrap());
        let child = command.stdin(Stdio::null()).stdout(output()).stderr(output()).spawn().unwrap();
        let mut running = Running(child);
        match greeted(&mut running, address) {
            Ok(()) => return running,
            Err(status) => writeln!(said, "{status}").unwrap(),
        }
    }
    let mut words = String::new();
    said.rewind().unwrap();
    said.read_to_string(&mut words).unwrap();
    panic!("the server on {address} ends at once: {words}");
}

/// Waits for a server's greeting; returns its exit status if it ends before.
fn greeted(server: &mut Running, address: SocketAddr) -> Result<(), ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut greeting = [0; 4];
            stream.read_exact(&mut greeting).unwrap();
            assert!(greeting.starts_with(b"220"), "the greeting is {greeting:?}");
            // QUIT, so that the server does not keep the session for long.
            let _ = stream.write_all(b"QUIT\r\n");
            return Ok(());
        }
        if let Some(status) = server.0.try_wait().unwrap() {
            return Err(status);
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the server does not listen on {address}");
}

/// Mirrors with our client from a third-party server, twice; the second time there is nothing to do.
fn mirror_from(url: &str, root: &Path) {
    let copy = root.with_file_name("copy");
    for turn in ["first", "second"] {
        let output =
            our_program().args(["mirror", url, "--plain"]).arg(&copy).args(["--json"]).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{turn} mirror: {}: {stderr}\n{stdout}", output.status);
        assert_same(root, &copy);
        if turn == "first" {
            let last = stdout.lines().last().unwrap_or_default();
            assert!(last.contains(&format!(r#""files":{}"#, FILES.len())), "{last}");
        }
    }
    // The facts of single files are requested in one flight with the login and the data connection.
    let got = root.with_file_name("got");
    let urls = ["one", "empty", "folder/big"].map(|name| format!("{url}{name}"));
    let output = our_program().args(["get", "--plain"]).args(&urls).arg("-o").arg(&got).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["one", "empty", "folder/big"] {
        let (ours, theirs) = (got.join(name.trim_start_matches("folder/")), root.join(name));
        assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap(), "{name}");
        assert_eq!(fs::metadata(ours).unwrap().mtime(), fs::metadata(theirs).unwrap().mtime(), "{name}");
    }
}

/// Starts vsftpd for `tree` in a folder, if it is there. Anonymous users may write where `daemon` may.
fn vsftpd(dir: &Path) -> Option<(Running, SocketAddr)> {
    let mut vsftpd = peer("usr/sbin/vsftpd")?;
    let address = own_address();
    let empty = dir.join("empty");
    fs::create_dir(&empty).unwrap();
    let config = dir.join("vsftpd.conf");
    // `daemon` is on every Debian, with a home that exists.
    let text = format!(
        "listen=YES\nlisten_address={}\nlisten_port={}\nbackground=NO\nanonymous_enable=YES\n\
         no_anon_password=YES\nanon_root={}\nsecure_chroot_dir={}\nxferlog_enable=NO\nseccomp_sandbox=NO\n\
         ftp_username=daemon\nvsftpd_log_file=/dev/null\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_mkdir_write_enable=YES\nanon_umask=022\n",
        address.ip(),
        address.port(),
        dir.join("tree").display(),
        empty.display()
    );
    fs::write(&config, text).unwrap();
    let running = serve(vsftpd.arg(&config), address);
    Some((running, address))
}

#[test]
fn our_client_mirrors_from_vsftpd() {
    let dir = tree();
    let Some((_running, address)) = vsftpd(dir.path()) else { return };
    mirror_from(&format!("ftp://{address}/"), &dir.path().join("tree"));
}

/// vsftpd lists a folder that does not exist as an empty one, and sets no times.
#[test]
fn our_client_notices_a_folder_that_vsftpd_does_not_have() {
    let dir = tree();
    let Some((_running, address)) = vsftpd(dir.path()) else { return };
    let (kept, inbox) = (dir.path().join("kept"), dir.path().join("tree/inbox"));
    for folder in [&kept, &inbox, &inbox.join("empty")] {
        fs::create_dir(folder).unwrap();
    }
    fs::set_permissions(&inbox, Permissions::from_mode(0o777)).unwrap();
    for name in ["one", "two"] {
        fs::write(kept.join(name), name).unwrap();
    }
    let run = |args: &[&str]| {
        let output = our_program().args(args).arg("--plain").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (kept_name, missing) = (kept.to_str().unwrap(), format!("ftp://{address}/inbox/missing"));
    for args in [&["mirror", "--delete", &missing, kept_name][..], &["ls", &missing], &["du", &missing]] {
        let (code, said) = run(args);
        assert_eq!(code, Some(5), "{args:?}: {said}");
        assert!(said.contains("inbox/missing"), "{said}");
    }
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 2, "nothing is deleted");
    // An empty folder that exists is one.
    let empty = format!("ftp://{address}/inbox/empty");
    assert_eq!(run(&["ls", &empty]), (Some(0), String::new()));
    // It is created by an upload; a second one sends nothing.
    let (code, said) = run(&["mirror", "-R", kept_name, &missing]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 files") && said.contains("--size-only"), "{said}");
    let (code, said) = run(&["mirror", "-R", "--size-only", kept_name, &missing]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("0 files") && !said.contains("MFMT"), "{said}");
    assert_eq!(fs::read_to_string(inbox.join("missing/two")).unwrap(), "two");
}

#[test]
fn our_client_mirrors_from_proftpd() {
    let Some(mut proftpd) = peer("usr/sbin/proftpd") else { return };
    let dir = tree();
    let address = own_address();
    let config = dir.path().join("proftpd.conf");
    let here = dir.path().display();
    let text = format!(
        "ServerType standalone\nServerName peer\nDefaultAddress {}\nSocketBindTight on\nPort {}\n\
         User nobody\nGroup nogroup\nScoreboardFile {here}/score\nPidFile {here}/pid\nDelayTable none\nWtmpLog off\n\
         UseReverseDNS off\nUseFtpUsers off\nAuthOrder mod_auth_unix.c\nModulePath {}\n\
         <Anonymous {here}/tree>\nUser nobody\nGroup nogroup\nUserAlias anonymous nobody\nRequireValidShell off\n\
         AnonRequirePassword off\n</Anonymous>\n",
        address.ip(),
        address.port(),
        peers().join("usr/lib/proftpd").display(),
    );
    fs::write(&config, text).unwrap();
    let _running = serve(proftpd.args(["-n", "-c"]).arg(&config), address);
    mirror_from(&format!("ftp://{address}/"), &dir.path().join("tree"));
}

#[test]
fn our_client_mirrors_from_pure_ftpd() {
    let Some(mut pure_ftpd) = peer("usr/sbin/pure-ftpd") else { return };
    let Some(mut pure_pw) = peer("usr/bin/pure-pw") else { return };
    let dir = tree();
    let address = own_address();
    let (users, db) = (dir.path().join("users"), dir.path().join("users.db"));
    pure_pw.args(["useradd", "joe", "-u", "nobody", "-g", "nogroup", "-d"]).arg(dir.path().join("tree"));
    let mut child =
        pure_pw.arg("-f").arg(&users).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"secret\nsecret\n").unwrap();
    assert!(child.wait().unwrap().success());
    let mut pure_pw = peer("usr/bin/pure-pw").unwrap();
    assert!(pure_pw.arg("mkdb").arg(&db).arg("-f").arg(&users).status().unwrap().success());
    pure_ftpd.args(["-S", &format!("{},{}", address.ip(), address.port()), "-E", "-H", "-u", "1"]);
    pure_ftpd.args(["-l", &format!("puredb:{}", db.display()), "-g"]).arg(dir.path().join("pid"));
    let _running = serve(&mut pure_ftpd, address);
    mirror_from(&format!("ftp://joe:secret@{address}/"), &dir.path().join("tree"));
}

/// Wireshark's dissector parses the file of `--pcap`, and every checksum is right.
#[test]
fn tshark_reads_our_capture() {
    let Some(mut tshark) = installed("tshark") else { return };
    let dir = tree();
    let root = dir.path().join("tree");
    let (tcp, udp) = (own_address(), own_address());
    let mut command = our_program();
    command.arg("serve").arg(&root).args(["--listen", &format!("ftp://{tcp}")]);
    let _running = serve(command.args(["--plain", "--listen", &format!("ftp+sctp://{udp}")]), tcp);
    let capture = dir.path().join("packets.pcapng");
    let mut mirror = our_program();
    mirror.args(["mirror", "--plain", &format!("ftp+sctp://{udp}/")]).arg(dir.path().join("copy"));
    let output = mirror.arg("--pcap").arg(&capture).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    tshark.arg("-r").arg(&capture).args(["-d", &format!("udp.port=={},sctp", udp.port())]);
    tshark.args([
        "-o",
        "sctp.checksum:CRC 32c",
        "-T",
        "fields",
        "-e",
        "sctp.checksum.status",
        "-e",
        "sctp.chunk_type",
    ]);
    let output = tshark.output().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines.len() > 50, "{} packets: {}", lines.len(), String::from_utf8_lossy(&output.stderr));
    let wrong: Vec<_> = lines.iter().filter(|line| !line.starts_with("1\t")).collect();
    assert!(wrong.is_empty(), "checksum not good in {wrong:?}");
    // The first packet carries INIT alone.
    assert_eq!(lines[0], "1\t1");
}
