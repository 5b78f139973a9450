//! Shared by the tests of protection: homes of users, servers, and mirrors that succeed or are refused.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;

/// The program as a user with this home.
pub fn braidftp(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
    command.args(args).env("HOME", home).stdin(Stdio::null());
    for variable in
        ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "STATE_DIRECTORY", "BRAIDFTP_USER", "BRAIDFTP_PASSWORD"]
    {
        command.env_remove(variable);
    }
    // Root's own key would be that of the machine.
    command.env("XDG_DATA_HOME", home.join(".local/share"));
    command
}

/// A user's home, and a served folder.
pub struct Room {
    pub folder: TempDir,
}

impl Room {
    pub fn new() -> Self {
        let room = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(room.path("tree")).unwrap();
        fs::write(room.path("tree/f"), "hello").unwrap();
        room
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A server of this user, at this address.
    pub fn serve(&self, listen: &str, more: &[&str]) -> Serving {
        let tree = self.text("tree");
        let args = [&["serve", &tree, "--listen", listen], more].concat();
        let child = braidftp(&self.path("home"), &args).stderr(Stdio::piped()).spawn().unwrap();
        let mut serving =
            Serving { child, key: String::new(), url: String::new(), urls: Vec::new(), said: String::new() };
        let mut lines = BufReader::new(serving.child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let places = 1 + more.iter().filter(|word| **word == "--listen").count();
        while serving.urls.len() < places {
            let line = lines.next().unwrap_or_else(|| panic!("it does not listen: {}", serving.said));
            match line.split_once(' ') {
                Some(("key", rest)) => serving.key = rest.split(' ').next().unwrap().to_owned(),
                Some(("listening", place)) => serving.urls.push(format!("{place}/")),
                _ => serving.said += &line,
            }
        }
        serving.url = serving.urls[0].clone();
        // The output must be read, since a full pipe would stop the server.
        std::thread::spawn(move || lines.for_each(drop));
        serving
    }

    /// Runs a mirror as the user of a home; returns the exit code and standard error.
    pub fn mirror(&self, home: &str, url: &str, more: &[&str]) -> (i32, String) {
        let copy = self.text("copy");
        let _ = fs::remove_dir_all(&copy);
        let args = [&["mirror", url, &copy, "-q", "--timeout", "60"], more].concat();
        let Output { status, stderr, .. } = braidftp(&self.path(home), &args).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        if status.success() {
            assert_eq!(fs::read(self.path("copy/f")).unwrap(), b"hello", "{said}");
        } else {
            assert!(!self.path("copy/f").exists(), "{said}");
        }
        (status.code().unwrap(), said)
    }

    /// A mirror that succeeds.
    pub fn goes(&self, home: &str, url: &str, more: &[&str]) {
        let (code, said) = self.mirror(home, url, more);
        assert_eq!(code, 0, "{more:?}: {said}");
    }

    /// A mirror that is refused for lack of trust, with these words.
    pub fn is_refused(&self, home: &str, url: &str, more: &[&str], words: &[&str]) {
        let (code, said) = self.mirror(home, url, more);
        assert_eq!(code, 3, "{more:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{more:?}: `{word}` in: {said}");
        }
    }
}

pub struct Serving {
    child: Child,
    pub key: String,
    /// The first address, and all addresses.
    pub url: String,
    pub urls: Vec<String>,
    /// The output before the server listened, without the key.
    pub said: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub const ANY: &str = "ftp+sctp://127.0.0.1:0";

/// An authority, written to `ca.pem`, and servers whose certificates it signs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(room: &Room) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(room.path("ca.pem"), authority.pem()).unwrap();
        Self(authority)
    }

    /// A certificate for `localhost` and its key in one file of this name, which replaces an existing one.
    pub fn sign(&self, room: &Room, file: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
        use std::os::unix::fs::PermissionsExt;
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let next = room.path("next");
        fs::write(&next, key.serialize_pem() + &certificate.pem()).unwrap();
        fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&next, room.path(file)).unwrap();
        room.text(file)
    }
}
