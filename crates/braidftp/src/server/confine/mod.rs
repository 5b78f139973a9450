//! Confinement of the server's process on Linux: limits what an attacker can do after taking it over.
//!
//! [`confine`] is called once the sockets are open and keys and users are read, and before the runtime starts
//! its threads: new threads inherit all of it, existing ones do not. The steps, in order:
//!
//! 1. core dumps off (RLIMIT_CORE),
//! 2. change to another user (`--user`) with its groups, irrevocably,
//! 3. capabilities dropped; root without `--user` keeps those that reach files of others,
//! 4. no new privileges (PR_SET_NO_NEW_PRIVS), and memory that other processes of the user cannot read
//!    (PR_SET_DUMPABLE),
//! 5. Landlock: only the folders of [`Confinement::places`] and the TCP ports of [`Confinement::network`],
//! 6. seccomp: only the system calls that the server makes.
//!
//! Features that the kernel lacks are in the [`Report`]; with [`Level::Required`] they are an error. UDP, and
//! so SCTP, is not restricted: Landlock does not support UDP before Linux 7.2, and seccomp prevents new UDP
//! sockets.

mod files;
mod syscalls;
mod user;

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

pub use user::RunAs;

/// The required degree of confinement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// All steps, or the server does not start.
    Required,
    /// As far as the kernel supports it; missing features cause a warning.
    #[default]
    BestEffort,
    /// Only the change of the user: for debuggers, and for file systems that Landlock does not support.
    Off,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "required" => Ok(Self::Required),
            "best-effort" => Ok(Self::BestEffort),
            "off" => Ok(Self::Off),
            other => Err(format!("confine is `required`, `best-effort` or `off`, not `{other}`")),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "required",
            Self::BestEffort => "best-effort",
            Self::Off => "off",
        })
    }
}

/// The rights below a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Files may be read. Folders cannot be listed.
    ReadFiles,
    /// Files may be created and appended to. For logs that are moved away and created again.
    Append,
    /// Files may be read, and folders listed.
    Read,
    /// The same, with all changes.
    ReadWrite,
}

/// A folder that remains accessible, with everything below it, including later entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The folder.
    pub path: PathBuf,
    /// The rights there.
    pub rights: Rights,
}

/// The TCP sockets that may be created from now on. Open sockets are not affected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// None: the server does not use TCP.
    #[default]
    Nothing,
    /// Listening sockets for data connections, at these ports, or at dynamic ports.
    Listen(Option<RangeInclusive<u16>>),
    /// The same, and outgoing connections: active mode, to any port.
    ListenAndConnect(Option<RangeInclusive<u16>>),
    /// The same, and UDP sockets, by which names are resolved: for an object store.
    Everywhere(Option<RangeInclusive<u16>>),
}

/// The requested confinement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The required degree.
    pub level: Level,
    /// The user to change to.
    pub run_as: Option<RunAs>,
    /// The accessible parts of the file system.
    pub places: Vec<Place>,
    /// The permitted use of the network.
    pub network: Network,
}

/// The result of the confinement, one sentence per step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The steps in effect.
    pub holds: Vec<String>,
    /// The steps that failed, with reasons.
    pub missing: Vec<String>,
    /// Features of the server that no longer work.
    pub lost: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.holds.iter().try_for_each(|line| writeln!(f, "confined: {line}"))?;
        self.missing.iter().try_for_each(|line| writeln!(f, "not confined: {line}"))?;
        self.lost.iter().try_for_each(|line| writeln!(f, "out of reach: {line}"))
    }
}

/// Why the process cannot be confined as required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfineError(pub(super) String);

impl fmt::Display for ConfineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfineError {}

/// The result of one step: what is in effect, or why it failed.
type Step = Result<String, String>;

/// Confines this process irrevocably. The process must have a single thread.
///
/// # Errors
///
/// The user cannot be changed; with [`Level::Required`], a step failed. Earlier steps are not undone: the
/// process should exit.
pub fn confine(wanted: &Confinement) -> Result<Report, ConfineError> {
    if let Some(threads) = threads().filter(|threads| *threads > 1) {
        return Err(ConfineError(format!(
            "cannot confine a process of {threads} threads: the others would stay as they are; this is a bug"
        )));
    }
    let mut report = Report::default();
    if wanted.level == Level::Off {
        if let Some(run_as) = &wanted.run_as {
            report.holds.push(run_as.become_user()?);
        }
        report.missing.push("anything else: confine is off".into());
        return Ok(report);
    }
    let mut steps = vec![core_dumps()];
    // Needs a capability that the next step drops.
    let bounded = forget_capabilities();
    if let Some(run_as) = &wanted.run_as {
        report.holds.push(run_as.become_user()?);
    }
    steps.push(bounded.and_then(|()| capabilities()));
    if let Some(run_as) = &wanted.run_as {
        run_as.verify()?;
    }
    steps.extend([no_new_privileges(), memory()]);
    steps.extend(files::restrict(wanted));
    steps.push(syscalls::restrict(&wanted.network));
    for step in steps {
        match step {
            Ok(holds) => report.holds.push(holds),
            Err(missing) => report.missing.push(missing),
        }
    }
    if wanted.level == Level::Required && !report.missing.is_empty() {
        let mut why = String::from("the confinement is required, and this is missing: ");
        let _ = write!(why, "{}", report.missing.join("; "));
        why.push_str("; `--confine best-effort` serves without it");
        return Err(ConfineError(why));
    }
    Ok(report)
}

/// The number of threads of this process; `None` without /proc.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

fn core_dumps() -> Step {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(|error| format!("core dumps cannot be turned off: {error}"))?;
    Ok("no core dumps".into())
}

/// Capabilities of root for access to the files of all users.
const OF_ROOT: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH).union(CapabilitySet::FOWNER);

/// Makes sure that no executed program regains capabilities.
fn forget_capabilities() -> Result<(), String> {
    let wrong = |error| format!("capabilities cannot be dropped: {error}");
    let has = rustix::thread::capabilities(None).map_err(wrong)?;
    if has.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            // An error means that this kernel does not have the capability.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    // Kernels before 4.3 have no ambient capabilities.
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}

fn capabilities() -> Step {
    let wrong = |error| format!("capabilities cannot be dropped: {error}");
    let has = rustix::thread::capabilities(None).map_err(wrong)?;
    let keep = match rustix::process::geteuid().is_root() {
        true => has.permitted & OF_ROOT,
        false => CapabilitySet::empty(),
    };
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(wrong)?;
    Ok(match keep.is_empty() {
        true => "no capabilities".into(),
        false => {
            "no capabilities but those to reach files of all users; give --user to drop these, too".into()
        }
    })
}

fn no_new_privileges() -> Step {
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("privileges could be gained: {error}"))?;
    Ok("no new privileges".into())
}

fn memory() -> Step {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("other processes of this user may read its memory: {error}"))?;
    Ok("memory that no other process of this user reads".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_three_words() {
        for level in [Level::Required, Level::BestEffort, Level::Off] {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!("on".parse::<Level>().unwrap_err().contains("best-effort"));
    }

    #[test]
    fn a_process_of_several_threads_is_not_confined_by_halves() {
        let (_stop, stopped) = std::sync::mpsc::channel::<()>();
        let _other = std::thread::spawn(move || stopped.recv());
        let error = confine(&Confinement::default()).unwrap_err();
        assert!(error.to_string().contains("threads"), "{error}");
    }
}
