//! FTP over protected associations: trees in both directions, trust, and errors for mismatched sides.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::client_support::{Room, assert_same, awkward_tree, names};
use braidftp::client::Login;
use braidftp::client::{Mode, Options, Protection};
use braidftp::exit::{Error, Exit};
use braidftp::identity::{Files, KnownHosts, OnUnknown, ServerIdentity, Trust};
use braidftp::job::{self, Caller, Delete, Job, Mirror, MirrorDown, MirrorUp, Record};
use braidftp::progress::{Reporter, Style};
use braidftp::server::{self, Handle, Listen, Server, Settings};
use braidftp::store::fs::Root;
use braidftp::users::Access;
use tempfile::TempDir;

/// A server of a folder, protected or plain.
struct Served {
    udp: SocketAddr,
    identity: Option<Arc<ServerIdentity>>,
    handle: Handle,
    _keys: TempDir,
}

impl Served {
    async fn new(dir: &Path, is_protected: bool) -> Self {
        let keys = tempfile::tempdir().unwrap();
        let files = Files::one(keys.path().join("server.pem"));
        let identity = is_protected.then(|| ServerIdentity::load_or_make(files, &[]).unwrap());
        let settings = Settings {
            protection: server::Protection { identity: identity.clone(), ..server::Protection::default() },
            ..Settings::default()
        };
        let builder = Server::builder(Root::open(dir).unwrap()).access(Access::Writable).settings(settings);
        let server = builder.listen(Listen::SctpUdp(vec!["127.0.0.1:0".parse().unwrap()])).bind().unwrap();
        let Listen::SctpUdp(at) = server.local_addrs().remove(0) else { panic!("it listens on UDP") };
        let handle = server.handle();
        tokio::spawn(server.run());
        Self { udp: at[0], identity, handle, _keys: keys }
    }

    fn job(&self, mode: Mode, trust: Option<&Arc<Trust>>) -> Job {
        let protection = trust.cloned().map_or(Protection::Plain, Protection::Required);
        let options = Options { protection, ..Options::new(mode) };
        Job {
            url: format!("ftp+sctp://{}/", self.udp).parse().unwrap(),
            login: Login { user: b"anonymous".to_vec(), password: b"braidftp@".to_vec() },
            options,
            retries: 0,
            retry_for: None,
            reporter: Reporter::new(Style::Quiet, mode),
            record: Record::default(),
            caller: Caller::Command,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

fn trust(known_hosts: &Path, on_unknown: OnUnknown) -> Arc<Trust> {
    Arc::new(Trust { on_unknown, ..Trust::new(KnownHosts::at(known_hosts.join("known_hosts"))) })
}

fn whole() -> Mirror {
    Mirror::all(Delete::No).unwrap()
}

async fn mirror_down(job: Job, to: &Path) -> Result<(), Error> {
    let down = MirrorDown { mirror: whole(), to: to.to_owned() };
    job.run("mirror", |client| job::mirror_down(client, job.clone(), down.clone())).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_are_transferred_both_ways_in_each_single_association_mode() {
    for mode in [Mode::Braid, Mode::MsCp, Mode::Ms] {
        let room = Room::new();
        let served_tree = room.folder("served");
        awkward_tree(&served_tree);
        let served = Served::new(&served_tree, true).await;
        let known = tempfile::tempdir().unwrap();
        let trust = trust(known.path(), OnUnknown::Accept);
        let to = room.path("down");
        mirror_down(served.job(mode, Some(&trust)), &to).await.unwrap();
        assert_same(&served_tree, &to);
        let job = served.job(mode, Some(&trust));
        let up = MirrorUp { mirror: whole(), from: to.clone() };
        let url: braidftp::url::Url = format!("ftp+sctp://{}/again", served.udp).parse().unwrap();
        let job = Job { url, ..job };
        let (_, result) = job.run("mirror", |client| job::mirror_up(client, job.clone(), up.clone())).await;
        result.unwrap();
        assert_same(&to, &served_tree.join("again"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_server_is_refused_before_anything_is_sent() {
    let room = Room::new();
    let served_tree = room.folder("served");
    awkward_tree(&served_tree);
    let served = Served::new(&served_tree, true).await;
    let known = tempfile::tempdir().unwrap();
    let to = room.path("down");
    let error = mirror_down(served.job(Mode::Braid, Some(&trust(known.path(), OnUnknown::Refuse))), &to)
        .await
        .unwrap_err();
    let fingerprint = served.identity.as_ref().unwrap().fingerprint().to_string();
    assert_eq!(error.exit, Exit::Trust, "{error}");
    assert!(error.to_string().contains(&fingerprint), "{error}");
    assert!(names(&to).is_empty());
    // A known server is trusted, and another server in its place is not.
    let accepting = trust(known.path(), OnUnknown::Accept);
    mirror_down(served.job(Mode::Braid, Some(&accepting)), &to).await.unwrap();
    let known_now = trust(known.path(), OnUnknown::Refuse);
    mirror_down(served.job(Mode::Braid, Some(&known_now)), &to).await.unwrap();
    // Created again: a task of the previous client may hold the trust settings for a moment longer.
    let another = Trust {
        on_unknown: OnUnknown::Refuse,
        pins: vec!["SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap()],
        ..Trust::new(KnownHosts::at(known.path().join("known_hosts")))
    };
    let error = mirror_down(served.job(Mode::Braid, Some(&Arc::new(another))), &to).await.unwrap_err();
    assert_eq!(error.exit, Exit::Trust, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_falls_back_to_plain_silently() {
    let room = Room::new();
    let served_tree = room.folder("served");
    awkward_tree(&served_tree);
    let known = tempfile::tempdir().unwrap();
    let trust = trust(known.path(), OnUnknown::Accept);
    let to = room.path("down");
    let protected = Served::new(&served_tree, true).await;
    for mode in [Mode::Braid, Mode::Ms, Mode::Naive] {
        let error = mirror_down(protected.job(mode, None), &to).await.unwrap_err();
        assert_eq!(error.exit, Exit::Trust, "{mode}: {error}");
        assert!(
            error.to_string().contains("the server accepts only protected associations"),
            "{mode}: {error}"
        );
    }
    let plain = Served::new(&served_tree, false).await;
    let error = mirror_down(plain.job(Mode::Braid, Some(&trust)), &to).await.unwrap_err();
    assert_eq!(error.exit, Exit::Trust, "{error}");
    assert!(error.to_string().contains("the server offers no protection"), "{error}");
    let error = mirror_down(protected.job(Mode::Naive, Some(&trust)), &to).await.unwrap_err();
    assert_eq!(error.exit, Exit::Usage, "{error}");
    assert!(names(&to).is_empty());
}
