//! Pairs of hosts on this machine joined by an emulated link (`braidlab net`; root), one pair for each concurrent run of a
//! benchmark. They and all files are removed when the benchmark ends, however it ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

use super::in_memory;
use crate::shell::{capture, root};

/// The names of the nets of a benchmark, and the folder of its files.
pub(super) struct Lab {
    braidlab: PathBuf,
    /// A folder in memory if there is one: braid syncs files, its peers do not.
    pub(super) dir: PathBuf,
    nets: Vec<String>,
    _guard: Guard,
}

/// A shell that removes the nets and the files as soon as its standard input is closed: when this program
/// ends, by Ctrl-C or a kill too. It has its own process group, which Ctrl-C does not reach.
struct Guard(Child, Option<ChildStdin>);

impl Guard {
    fn new(braidlab: &Path, dir: &Path, nets: &[String]) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        // A `net up` interrupted by Ctrl-C ends within a second.
        let script = "trap '' INT TERM HUP; lab=$1; dir=$2; shift 2; cat >/dev/null; sleep 1; \
            for net; do \"$lab\" net down \"$net\"; done; rm -rf \"$dir\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(braidlab).arg(dir).args(nets).process_group(0);
        let mut shell = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run sh")?;
        let input = shell.stdin.take();
        Ok(Self(shell, input))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.1 = None;
        let _ = self.0.wait();
    }
}

impl Lab {
    /// Makes the folder of the benchmark of this name; `jobs` is the most runs at once.
    pub(super) fn new(bench: &str, braidlab: PathBuf, jobs: usize) -> Result<Self> {
        let process = std::process::id();
        let dir =
            in_memory().unwrap_or_else(|| root().join("target")).join(format!("bench-{bench}-{process}"));
        let nets: Vec<_> = (0..jobs).map(|job| format!("{}{process}-{job}", &bench[..1])).collect();
        let guard = Guard::new(&braidlab, &dir, &nets)?;
        fs::create_dir_all(&dir)?;
        // The module may be built in, or modprobe may be missing; setting the controller shows whether it is
        // available.
        let _ = Command::new("modprobe").arg("tcp_bbr").output();
        Ok(Self { braidlab, dir, nets, _guard: guard })
    }

    /// Runs all tasks, `jobs` at once; each call of `run` has the name of a net that no other call uses. The first
    /// error ends the rest.
    pub(super) fn all<T: Sync, R: Send>(
        &self,
        tasks: &[T],
        jobs: usize,
        run: impl Fn(&T, &str) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let next = AtomicUsize::new(0);
        let done: Mutex<BTreeMap<usize, Result<R>>> = Mutex::default();
        std::thread::scope(|scope| {
            for net in self.nets.iter().take(jobs) {
                let (next, done, run) = (&next, &done, &run);
                scope.spawn(move || {
                    while let Some((n, task)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, tasks.get(n)?)))
                    {
                        let outcome = run(task, net);
                        let failed = outcome.is_err();
                        let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        done.insert(n, outcome);
                        if done.len() % 30 == 0 {
                            eprintln!("{} of {} runs", done.len(), tasks.len());
                        }
                        if failed {
                            next.store(tasks.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
    }

    /// Creates the hosts and their link. All random decisions of the link follow from the seed.
    pub(super) fn up<'a>(&'a self, name: &'a str, seed: u64, path: &str) -> Result<Net<'a>> {
        let mut up = Command::new(&self.braidlab);
        capture(up.args(["net", "up", name, "--seed", &seed.to_string(), "--path", path]))
            .context("this requires root and network namespaces")?;
        Ok(Net { lab: self, name })
    }

    /// An empty folder for the files of a run on the net of this name.
    pub(super) fn clean_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// Two hosts, `client` (10.1.1.2) and `server` (10.1.1.1); dropping this also ends their programs.
pub(super) struct Net<'a> {
    lab: &'a Lab,
    name: &'a str,
}

impl Net<'_> {
    /// A command that runs a program on a host.
    pub(super) fn on(&self, host: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(&self.lab.braidlab);
        command.args(["net", "exec", self.name, host]).arg(program);
        command
    }

    /// Sets the congestion controller of TCP on both hosts, as a property of the route: outside the first
    /// namespace, the kernel permits as a default only the controllers of `tcp_allowed_congestion_control`.
    pub(super) fn set_congestion(&self, controller: &str) -> Result<()> {
        for host in ["client", "server"] {
            let mut route = self.on(host, "ip");
            route.args(["route", "replace", "10.1.1.0/24", "dev", "path1", "congctl", controller]);
            capture(&mut route).with_context(|| {
                format!("the kernel has no `{controller}`; `modprobe tcp_{controller}` loads it where there is one")
            })?;
        }
        Ok(())
    }
}

impl Drop for Net<'_> {
    fn drop(&mut self) {
        let _ = Command::new(&self.lab.braidlab).args(["net", "down", self.name]).output();
    }
}

/// A process that is killed when it is dropped.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
