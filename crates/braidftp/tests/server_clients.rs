//! The server over TCP with third-party clients: lftp, curl, tnftp, Python's ftplib. A missing one is skipped
//! with a message.

mod server_support;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use server_support::{Folder, assert_same_tree, pattern, run, run_well, serve};

/// A tree with names that break file transfer programs.
fn sources() -> Folder {
    let folder = Folder::new();
    folder.put("plain.txt", "one\ntwo\n");
    folder.put("empty", "");
    folder.put("with space/and another.txt", "spaces");
    folder.put(" leading and trailing ", "spaces around");
    folder.put("grüße/日本語.txt", "UTF-8");
    folder.put("-dash", "dash");
    folder.put("[brackets]*?", "signs");
    folder.put("a\"quote'", "quotes");
    folder.put("a/b/c/d/e/f/g/h/i/j/k/l/deep", "twelve levels");
    folder.put("large.bin", pattern(3_000_001));
    folder
}

#[test]
fn lftp_mirrors_a_tree_down_and_up() {
    let folder = sources();
    let served = serve(folder.root());
    let here = tempfile::tempdir().unwrap();
    let url = format!("ftp://127.0.0.1:{}", served.address.port());
    let script =
        "set net:max-retries 2; set net:timeout 120; set mirror:parallel-transfer-count 4; mirror / down";
    let Some(_) = run_well("lftp", &["-c", &format!("open {url}; {script}")], here.path(), "") else {
        return;
    };
    assert_same_tree(&here.path().join("down"), &folder.path(""));
    // lftp sets the times of MLSD or MDTM.
    let modified = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let whole =
        |path: &Path| modified(path).duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(whole(&here.path().join("down/large.bin")), whole(&folder.path("large.bin")));

    let target = Folder::new();
    let served = serve(target.root());
    let url = format!("ftp://127.0.0.1:{}", served.address.port());
    let script = "set net:max-retries 2; set net:timeout 120; mirror -R down /";
    run_well("lftp", &["-c", &format!("open {url}; {script}")], here.path(), "").unwrap();
    assert_same_tree(&target.path(""), &here.path().join("down"));
}

#[test]
fn lftp_resumes_a_download_and_runs_the_small_commands() {
    let folder = sources();
    let served = serve(folder.root());
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("large.bin"), &pattern(3_000_001)[..1_234_567]).unwrap();
    let script = format!(
        "open ftp://127.0.0.1:{}; set net:max-retries 2; set net:timeout 120; get -c large.bin; mkdir -p new/folder; \
         put -O new/folder large.bin; mv new/folder/large.bin new/moved; chmod 600 new/moved; cat plain.txt; \
         rm empty; rmdir new/folder; cls -1",
        served.address.port()
    );
    let Some(out) = run_well("lftp", &["-c", &script], here.path(), "") else { return };
    assert!(out.starts_with("one\ntwo\n"), "{out}");
    assert!(out.contains("with space/"), "{out}");
    assert!(std::fs::read(here.path().join("large.bin")).unwrap() == pattern(3_000_001));
    assert!(folder.read("new/moved") == pattern(3_000_001));
    assert!(!folder.path("empty").exists() && !folder.path("new/folder").exists());
}

#[test]
fn curl_gets_puts_and_resumes() {
    let folder = sources();
    let served = serve(folder.root());
    let here = tempfile::tempdir().unwrap();
    let url = |path: &str| format!("ftp://127.0.0.1:{}/{path}", served.address.port());
    let curl = |arguments: &[&str]| {
        let all: Vec<&str> = ["-sS", "--max-time", "120"].iter().chain(arguments).copied().collect();
        run_well("curl", &all, here.path(), "")
    };
    let Some(out) = curl(&[&url("plain.txt")]) else { return };
    assert_eq!(out, "one\ntwo\n");
    assert_eq!(curl(&[&url("gr%C3%BC%C3%9Fe/%E6%97%A5%E6%9C%AC%E8%AA%9E.txt")]).unwrap(), "UTF-8");
    assert_eq!(curl(&[&url("%20leading%20and%20trailing%20")]).unwrap(), "spaces around");
    // An active session requests facts first, the other sends the path directly.
    assert_eq!(curl(&["--ftp-method", "nocwd", &url("with%20space/and%20another.txt")]).unwrap(), "spaces");
    assert_eq!(curl(&["--disable-epsv", &url("-dash")]).unwrap(), "dash", "PASV");
    assert_eq!(curl(&[&url("plain.txt;type=a")]).unwrap(), "one\ntwo\n", "curl takes the CRs of TYPE A off");
    assert_eq!(curl(&["-r", "1-2", &url("plain.txt")]).unwrap(), "ne");
    assert!(curl(&["-I", &url("plain.txt")]).unwrap().contains("Content-Length: 8"));
    assert!(curl(&["-l", &url("")]).unwrap().lines().any(|name| name == "large.bin"));

    std::fs::write(here.path().join("part"), &pattern(3_000_001)[..1_000_000]).unwrap();
    curl(&["-C", "-", "-o", "part", &url("large.bin")]).unwrap();
    assert!(std::fs::read(here.path().join("part")).unwrap() == pattern(3_000_001));

    curl(&["--ftp-create-dirs", "-T", "part", &url("up/load/file")]).unwrap();
    assert!(folder.read("up/load/file") == pattern(3_000_001));
    // Resuming an upload: curl sends SIZE, then appends the rest.
    std::fs::write(folder.path("up/load/file"), &pattern(3_000_001)[..2_000_000]).unwrap();
    curl(&["-C", "-", "-T", "part", &url("up/load/file")]).unwrap();
    assert!(folder.read("up/load/file") == pattern(3_000_001));
    curl(&["-a", "-T", "part", &url("plain.txt")]).unwrap();
    assert_eq!(folder.read("plain.txt").len(), 8 + 3_000_001);

    let missing = run("curl", &["-sS", &url("none")], here.path(), "").unwrap();
    assert_eq!(missing.status.code(), Some(78), "CURLE_REMOTE_FILE_NOT_FOUND");
    let bytes_url = url("%E4%F6");
    std::fs::write(folder.path(std::ffi::OsStr::from_bytes(b"\xe4\xf6")), "bytes").unwrap();
    assert_eq!(curl(&[&bytes_url]).unwrap(), "bytes", "a name that is not UTF-8");
}

#[test]
fn tnftp_gets_and_puts() {
    let folder = sources();
    let served = serve(folder.root());
    let here = tempfile::tempdir().unwrap();
    let url = format!("ftp://127.0.0.1:{}/large.bin", served.address.port());
    let Some(_) = run_well("tnftp", &["-V", "-o", "got", &url], here.path(), "") else { return };
    assert!(std::fs::read(here.path().join("got")).unwrap() == pattern(3_000_001));
    let script = format!(
        "open 127.0.0.1 {}\nuser anonymous x@\nbinary\nput got sent\ncd \"with space\"\nget \"and another.txt\"\n\
         cdup\nls\nmkdir made\nrename plain.txt renamed\nrestart 2999999\nget large.bin tail\nquit\n",
        served.address.port()
    );
    let out = run_well("tnftp", &["-n", "-V", "-i"], here.path(), &script).unwrap();
    assert!(folder.read("sent") == pattern(3_000_001), "{out}");
    assert_eq!(std::fs::read(here.path().join("and another.txt")).unwrap(), b"spaces");
    assert!(folder.path("made").is_dir() && folder.path("renamed").exists(), "{out}");
}

#[test]
fn ftplib_parses_facts_and_names_in_any_encoding() {
    let folder = sources();
    std::fs::write(folder.path(std::ffi::OsStr::from_bytes(b"\xff \xfe")), "bytes").unwrap();
    let served = serve(folder.root());
    let here = tempfile::tempdir().unwrap();
    let script = format!(
        r#"
import ftplib, io
ftp = ftplib.FTP(encoding='latin-1', timeout=120)
ftp.connect('127.0.0.1', {})
ftp.login()
facts = dict(ftp.mlsd('/', facts=['type', 'size', 'modify']))
assert facts['large.bin']['size'] == '3000001', facts['large.bin']
assert facts['with space']['type'] == 'dir'
assert facts[' leading and trailing ']['size'] == '13'
got = io.BytesIO()
ftp.retrbinary('RETR \xff \xfe', got.write)
assert got.getvalue() == b'bytes'
ftp.storbinary('STOR \xfe\xff', io.BytesIO(b'back'))
assert 'plain.txt' in ftp.nlst()
lines = []
ftp.retrlines('LIST', lines.append)
assert any(line.endswith(' large.bin') for line in lines), lines
ftp.voidcmd('TYPE I')
assert ftp.size('large.bin') == 3000001
ftp.set_pasv(True)
ftp.cwd('with space')
assert ftp.pwd() == '/with space', ftp.pwd()
try:
    ftp.size('none')
    raise SystemExit('SIZE of nothing succeeded')
except ftplib.error_perm:
    pass
ftp.quit()
"#,
        served.address.port()
    );
    let Some(_) = run_well("python3", &["-c", &script], here.path(), "") else { return };
    assert_eq!(folder.read(std::ffi::OsStr::from_bytes(b"\xfe\xff")), b"back");
}
