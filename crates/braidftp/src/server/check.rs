//! `braidftp serve --check`: tests whether a server with this configuration would start and keep its limits on this machine.
//!
//! It opens what the server would open and closes it again, without writing anything. Each problem is a sentence.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use braidftp_net::machine_memory_bytes;
use rustix::process::{Resource, getrlimit};

use super::error::ServeError;
use super::hosts::HostPlan;
use super::parts;
use super::plan::{Plan, RunsHooks, cannot_open, processors, runtime, usual};
use super::systemd::Passed;
use super::tcp::{DYNAMIC_PORTS, ENDING_MAX};
use super::transfers::{TRANSFERS_ALWAYS, TRANSFERS_MAX};
use super::{ADMISSIONS_WAITING_MAX, HELD_ALL_BYTES, Listen, OUT_BYTES, Settings};
use crate::budget::{self, Effective};
use crate::identity::folder_of;
use crate::store::Tree;
use crate::store::bucket::{Bucket, UPLOADS_BYTES};
use crate::store::fs::{FOLDERS_ALWAYS, FOLDERS_MAX, POOL_BYTES, Root, SESSION_BYTES, SMALLEST_BYTES};
use crate::tls::server::SESSIONS_BYTES;
use crate::tls::{MESSAGE_BYTES, UNSENT_BYTES};
use crate::users::{Account, Users};

/// Open files of a transfer: the folders that a listing of a tree may open in any case.
const FILES_PER_TRANSFER: u64 = FOLDERS_ALWAYS as u64;
/// Open files of a session: its control connection, a listening socket, a data connection, connections whose TLS ends, and the
/// files of the transfers that it may have in any case.
const FILES_PER_SESSION: u64 = 3 + ENDING_MAX as u64 + TRANSFERS_ALWAYS as u64 * FILES_PER_TRANSFER;
/// Other open files of the process: those of the runtime and the standard streams, connections that wait to be admitted, the
/// shared transfers of all sessions, and further folders of listings.
const FILES_BESIDES: u64 =
    32 + ADMISSIONS_WAITING_MAX as u64 + TRANSFERS_MAX as u64 * FILES_PER_TRANSFER + FOLDERS_MAX as u64;

/// Memory of TLS for a session over TCP, in bytes: an incomplete handshake message, resumable sessions, and unsent bytes of its
/// control connection, its data connection, and connections whose TLS ends.
const TLS_BYTES_PER_SESSION: usize = MESSAGE_BYTES + SESSIONS_BYTES + (2 + ENDING_MAX) * UNSENT_BYTES;

/// The problems that were found, and the exit code of the first.
#[derive(Debug, Default)]
struct Findings {
    sentences: Vec<String>,
    code: u8,
}

impl Findings {
    fn add(&mut self, code: u8, sentence: String) {
        if self.sentences.is_empty() {
            self.code = code;
        }
        self.sentences.push(sentence);
    }
}

/// Checks a plan and prints a summary of it. Opens the sockets and confines the process as `serve` would, so that folders are
/// tested as the final user and within the final confinement.
///
/// # Errors
/// [`ServeError::Check`]: the problems. The summary is on standard output in any case.
pub(super) fn check(mut plan: Plan) -> Result<(), ServeError> {
    // A check writes no captures.
    (plan.settings.pcap, plan.settings.packet_log, plan.settings.qlog) = (None, None, None);
    if plan.listen.is_empty() {
        plan.listen = usual();
    }
    let mut findings = Findings::default();
    let mut said = String::new();
    let writers = plan.users.accounts().filter(|account| account.rights.may_change()).count();
    let _ = writeln!(said, "folder: {}", Tree::shown(&plan.dir).display());
    for account in plan.users.accounts() {
        let _ = writeln!(said, "user {}", describe_user(&account));
    }
    plan.hosts.iter().for_each(|host| said.push_str(&host.describe()));
    for sentence in plan.hosts.iter().flat_map(HostPlan::missing_homes) {
        findings.add(6, sentence);
    }
    match plan.protection.load_only() {
        Ok(loaded) => {
            said.push_str(&plan.protection.describe(&loaded));
            if let Some(complaint) = loaded.complaint() {
                findings.add(3, complaint);
            }
            plan.settings.protection = loaded;
        }
        Err(error) => findings.add(error.exit as u8, error.to_string()),
    }
    describe(&mut said, &plan.settings);
    let is_bucket = Tree::is_address(&plan.dir) || !plan.hosts.iter().all(HostPlan::is_folder);
    let uploads = if is_bucket { UPLOADS_BYTES } else { 0 };
    check_limits(&mut findings, &plan.listen, &plan.settings, uploads);
    let (dir, settings) = (plan.dir.clone(), plan.settings.clone());
    let homes: Vec<(String, PathBuf)> = plan
        .users
        .accounts()
        .filter(|account| !account.home.as_os_str().is_empty())
        .map(|account| (account.name.escape_debug().to_string(), account.home.to_owned()))
        .collect();
    let of_hosts = plan.hosts.iter().map(|host| &host.users);
    let weak: Vec<String> =
        std::iter::once(&plan.users).chain(of_hosts).flat_map(Users::weaknesses).collect();
    let processors = processors();
    match plan.open(Passed::default(), RunsHooks::No) {
        Ok((opened, report, _)) => {
            let _ = write!(said, "{report}");
            for place in opened.local_addrs() {
                let _ = writeln!(said, "can listen: {place}");
            }
        }
        Err(error) => findings.add(error.exit_code(), error.to_string()),
    }
    match settings.audit.path() {
        Some(log) => check_audit(&mut findings, &mut said, &log),
        None => said.push_str("audit log: with the lines of --verbose\n"),
    }
    match Tree::open(&dir) {
        Ok(Tree::Folder(root)) => {
            if writers > 0 {
                check_disk(&mut findings, &mut said, &root, &settings);
            }
            runtime(processors)?.block_on(check_folder(&mut findings, &root, &dir, writers));
            for (name, home) in homes {
                if let Err(error) = root.beneath(&home) {
                    findings.add(6, format!("the home of user {name} cannot be opened: {error}"));
                }
            }
        }
        Ok(Tree::Bucket(bucket)) => {
            runtime(processors)?.block_on(check_bucket(&mut findings, &mut said, &bucket));
        }
        // Reported before.
        Err(_) => {}
    }
    weak.into_iter().for_each(|sentence| findings.add(1, sentence));
    let _ = write!(said, "\n{}", budget::text(&Effective::of(&settings)));
    // A closed standard output is no error.
    let _ = std::io::Write::write_all(&mut std::io::stdout().lock(), said.as_bytes());
    match findings.sentences.is_empty() {
        true => Ok(()),
        false => Err(ServeError::Check { sentences: findings.sentences, code: findings.code }),
    }
}

/// A user's home, rights and limits, on one line.
fn describe_user(account: &Account<'_>) -> String {
    let home = if account.home.as_os_str().is_empty() { Path::new(".") } else { account.home };
    let mut said = format!("{}: {} in {}", account.name.escape_debug(), account.rights, home.display());
    let limits = account.limits;
    if let Some(quota) = limits.quota {
        let _ = write!(said, ", quota {}", budget::Amount::Bytes(quota));
    }
    if let Some(rate) = limits.rate {
        let _ = write!(said, ", rate {rate}");
    }
    if let Some(sessions) = limits.sessions {
        let _ = write!(said, ", sessions {sessions}");
    }
    for key in account.keys {
        let _ = write!(said, ", key {key}");
    }
    said
}

fn check_audit(findings: &mut Findings, said: &mut String, log: &Path) {
    let _ = writeln!(said, "audit log: {}", log.display());
    let folder = folder_of(log);
    let there = if log.exists() { log } else { &folder };
    if let Err(error) = rustix::fs::access(there, rustix::fs::Access::WRITE_OK) {
        findings.add(1, cannot_open(log, &error.into()));
    }
}

fn check_disk(findings: &mut Findings, said: &mut String, root: &Root, settings: &Settings) {
    let (Ok(disk), Ok(free)) = (root.disk_bytes(), root.free_bytes()) else { return };
    let reserve = parts::reserve_bytes(settings, disk);
    let bytes = |bytes| budget::Amount::Bytes(bytes);
    let _ = writeln!(
        said,
        "disk: {}, {} of it free; uploads leave {} free, and unfinished ones in a home keep at most {}",
        bytes(disk),
        bytes(free),
        bytes(reserve),
        bytes(parts::quota_bytes(settings, disk))
    );
    if free < reserve {
        findings.add(
            6,
            format!(
                "the disk has {} free, less than disk-reserve, which is {}: every upload would be refused",
                bytes(free),
                bytes(reserve)
            ),
        );
    }
}

fn describe(said: &mut String, settings: &Settings) {
    let session = &settings.session;
    let _ = writeln!(said, "durability: {:?}", settings.durability);
    let _ = writeln!(said, "active data connections: {:?}", session.active);
    match &settings.passive_ports {
        Some(ports) => {
            let _ = writeln!(said, "passive ports: {}-{}", ports.start(), ports.end());
        }
        None => {
            let _ = writeln!(
                said,
                "passive ports: {}-{}, or one that the system chooses if these are taken",
                DYNAMIC_PORTS.start(),
                DYNAMIC_PORTS.end()
            );
        }
    }
    let _ = writeln!(said, "congestion control: {}", settings.sctp.congestion.control);
    let _ = writeln!(
        said,
        "several paths at once: {}",
        if settings.sctp.paths.multipath.is_some() { "yes" } else { "no" }
    );
}

async fn check_folder(findings: &mut Findings, root: &Root, dir: &Path, writers: usize) {
    match root.list(Path::new("")).await {
        Err(error) => findings.add(6, error.to_string()),
        Ok(mut lister) => {
            if let Err(error) = lister.next_chunk().await {
                findings.add(6, error.to_string());
            }
        }
    }
    if writers > 0 && rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        findings.add(
            6,
            format!(
                "users may write, and this process cannot write to the folder {}: change its permissions, or leave out `writable`",
                dir.display()
            ),
        );
    }
}

/// Lists an object store, within the confinement, and says what it lacks.
async fn check_bucket(findings: &mut Findings, said: &mut String, bucket: &Bucket) {
    let first = async { bucket.list(Path::new("")).await?.next_chunk().await };
    if let Err(error) = first.await {
        findings.add(6, format!("the object store {}: {error}", bucket.shown()));
    }
    let renames =
        if bucket.renames() { "are renamed by the store" } else { "are renamed by a copy and a deletion" };
    let remains = if bucket.has_conditions() { "first" } else { "last" };
    let parts = match bucket.can_remove_parts() {
        true => "removed after parts-kept-days",
        false => "not removed: a rule of the bucket should",
    };
    let _ = writeln!(
        said,
        "object store: files {renames}; no symbolic links, no permission bits; an interrupted upload begins again; of two uploads to \
         one name the one that ends {remains} remains; parts that a killed server left are {parts}"
    );
}

/// Reports limits that contradict each other, or that exceed the resources of this machine. `uploads` is the memory for uploads to
/// object stores.
fn check_limits(findings: &mut Findings, listen: &[Listen], settings: &Settings, uploads: usize) {
    let (sessions, from_one) = (settings.max_sessions, settings.max_sessions_per_address);
    if sessions == 0 || from_one == 0 {
        findings.add(1, "max-sessions or max-sessions-per-address is 0: nobody could log in".into());
    }
    if from_one > sessions {
        findings.add(
            1,
            format!("max-sessions-per-address is {from_one}, more than max-sessions, which is {sessions}: one address could take all"),
        );
    }
    if settings.session.idle.is_zero() || settings.stall.is_zero() {
        findings.add(1, "idle-seconds or stall-seconds is 0: every session would end at once".into());
    }
    if let Some(ports) = &settings.passive_ports {
        let ports = ports.len();
        if ports < sessions {
            findings.add(
                1,
                format!("passive-ports has {ports} ports, and there may be {sessions} sessions: widen it, or lower max-sessions"),
            );
        }
    }
    let endpoints = listen.iter().filter(|place| !matches!(place, Listen::Tcp(_) | Listen::Tls(_))).count();
    let tls = if listen.iter().any(Listen::is_tcp) { TLS_BYTES_PER_SESSION } else { 0 };
    let each =
        settings.session.window_bytes + settings.session.replies_bytes + OUT_BYTES + SESSION_BYTES + tls;
    let files = POOL_BYTES + (TRANSFERS_MAX + TRANSFERS_ALWAYS * sessions) * SMALLEST_BYTES;
    let sctp = super::sctp_limits(settings).memory_bytes.saturating_mul(endpoints);
    let memory = sctp
        .saturating_add(HELD_ALL_BYTES + files + uploads)
        .saturating_add(sessions.saturating_mul(each)) as u64;
    if let Some(machine) = machine_memory_bytes().filter(|machine| memory > machine / 2) {
        findings.add(
            1,
            format!(
                "{sessions} sessions may take {} MiB, and this machine, or the control group, has {} MiB: lower max-sessions",
                memory >> 20,
                machine >> 20
            ),
        );
    }
    let files = (sessions as u64)
        .saturating_mul(FILES_PER_SESSION)
        .saturating_add(FILES_BESIDES + listen.len() as u64);
    if let Some(may) = getrlimit(Resource::Nofile).maximum.filter(|may| files > *may) {
        findings.add(
            1,
            format!("{sessions} sessions may open {files} files, and this process may open {may}: raise `ulimit -Hn`, or lower max-sessions"),
        );
    }
}
