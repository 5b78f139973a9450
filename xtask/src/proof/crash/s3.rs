//! Crash rounds of servers before a bucket of moto (`s3_server.py`): at a random moment of a mirror down or up the client is killed, one
//! server of two and the client, or the only server, which starts again. Then the client of the first two reruns through the other server.
//!
//! No object may ever have other contents than the source's or the former ones, the rerun must complete the tree, and must send nothing
//! again that was whole when it began. Time is not judged: moto does one request at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::actors::{Finished, Running, Server, free_tcp_port};
use super::super::compare::{Times, differences};
use super::super::{Bench, remove};
use super::{Cell, Direction, Moment, OLD, RUN_LIMIT, does_the_work, each_file, old_content};
use crate::shell::root;
use crate::tree::{Kind as Files, Shape, make};

/// The kinds of crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    Client,
    /// The client, and the server that it uses, of two.
    Server,
    /// The only server, which starts again; the client keeps running.
    ServerAlone,
}

pub(super) const CRASHES: [(&str, Crash); 3] =
    [("s3-client", Crash::Client), ("s3-server", Crash::Server), ("s3-server-alone", Crash::ServerAlone)];

/// Clean runs before the first round of a cell.
const CLEAN_RUNS: usize = 3;
/// The number of attempts until a crash comes before the end of the job.
const TRIES: u64 = 3;
/// The time for a server to remove the parts of a client that was killed.
const REMOVED_IN: Duration = Duration::from_secs(120);

/// moto, with one bucket.
struct Store {
    _running: Running,
    address: SocketAddr,
}

/// What all rounds share.
struct Ground<'a> {
    bench: &'a Bench,
    store: Store,
    tree: std::path::PathBuf,
    servers: [Server; 2],
    seed: u64,
}

/// An object: its bytes and the time of its file.
type Objects = BTreeMap<String, (Vec<u8>, Option<i64>)>;

pub(super) fn run(bench: &mut Bench, name: &str, crash: Crash, rounds: u64, seed: u64) -> Result<()> {
    let mut cells = Vec::new();
    for mode in bench.modes(&["braid", "tcp"]) {
        let cell = |direction| Cell { slow: None, ..Cell::new(mode, direction) };
        cells.extend([Direction::Up, Direction::Down].map(cell));
    }
    let count = cells.len() as u64;
    for (at, cell) in cells.iter_mut().enumerate() {
        let share = (rounds + count - 1 - at as u64) / count;
        let mut ground = Ground::new(bench, seed)?;
        for number in 0..CLEAN_RUNS {
            ground.clean_run(cell, number)?;
        }
        for number in 0..share * TRIES {
            if cell.rounds >= share {
                break;
            }
            ground.round(crash, cell, number)?;
        }
        drop(ground);
        cell.tell(bench, name, share);
    }
    Ok(())
}

impl Ground<'_> {
    fn new(bench: &Bench, seed: u64) -> Result<Ground<'_>> {
        let tree = bench.dir.join("s3-tree");
        remove(&tree)?;
        make(&tree, &Shape { files: 60, seed: 1, big: 40_000_000, kind: Files::Plain { size: 20_000 } })?;
        let middle = Shape { files: 8, seed: 2, big: 0, kind: Files::Plain { size: 2_000_000 } };
        make(&tree.join("middle"), &middle)?;
        let store = Store::start(&bench.dir)?;
        let servers = [serve(bench, &store, 0, None)?, serve(bench, &store, 1, None)?];
        let ground = Ground { bench, store, tree, servers, seed };
        let mut command = ground.command("braid");
        command.arg("-R").arg(&ground.tree).arg(format!("{}tree", ground.servers[0].url("braid", None)));
        let filled = Running::start(&mut command, &bench.dir, "fill")?.finish(RUN_LIMIT)?;
        if filled.code() != 0 {
            bail!("the bucket cannot be filled: {}", filled.stderr);
        }
        Ok(ground)
    }

    fn command(&self, mode: &str) -> Command {
        let mut command = self.bench.programs.braidftp();
        command.env("XDG_STATE_HOME", self.bench.dir.join("state"));
        command.args(["mirror", "--plain", "--json", "--mode", mode]);
        command
    }

    /// Starts a mirror through one of the servers.
    fn start(&self, cell: &Cell, server: usize, name: &str) -> Result<Running> {
        let mut command = self.command(cell.mode);
        let url = self.servers[server].url(cell.mode, None);
        match cell.direction {
            Direction::Up => command.arg("-R").arg(&self.tree).arg(format!("{url}{name}")),
            Direction::Down => command.arg(format!("{url}tree")).arg(self.bench.dir.join(name)),
        };
        Running::start(&mut command, &self.bench.dir, "client")
    }

    /// Creates a receiver's tree with older versions of some files.
    fn prepare(&self, cell: &Cell, name: &str) -> Result<()> {
        let copy = self.bench.dir.join(name);
        remove(&copy)?;
        if cell.direction == Direction::Down {
            fs::create_dir_all(&copy)?;
        }
        for (at, entry) in super::sorted(&self.tree)?.into_iter().enumerate() {
            if at % 4 != 0 || !self.tree.join(&entry).is_file() {
                continue;
            }
            let old = old_content(&entry);
            if cell.direction == Direction::Up {
                self.store.put(&format!("home/{name}/{}", entry.to_string_lossy()), old.as_bytes())?;
            } else {
                fs::write(copy.join(&entry), &old)?;
                let changed = std::time::UNIX_EPOCH + Duration::from_secs(OLD as u64);
                fs::File::options().write(true).open(copy.join(&entry))?.set_modified(changed)?;
            }
        }
        Ok(())
    }

    /// The receiver's files under their final names.
    fn received(&self, cell: &Cell, name: &str) -> Result<Objects> {
        if cell.direction == Direction::Up {
            return self.store.objects(&format!("home/{name}/"));
        }
        let mut found = Objects::new();
        let copy = self.bench.dir.join(name);
        each_file(&copy, &mut |path| {
            if !path.to_string_lossy().ends_with(super::PART) {
                let inner = path.strip_prefix(&copy)?.to_string_lossy().into_owned();
                let bytes = fs::read(path)?;
                found.insert(inner, (bytes, Some(fs::metadata(path)?.mtime())));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The names of files that a mirror takes for finished, and a sentence for each one with contents that never were a file's.
    fn look(&self, found: &Objects) -> Result<(BTreeSet<String>, Vec<String>)> {
        let (mut whole, mut wrong) = (BTreeSet::new(), Vec::new());
        each_file(&self.tree, &mut |path| {
            let inner = path.strip_prefix(&self.tree)?.to_string_lossy().into_owned();
            let Some((bytes, changed)) = found.get(&inner) else { return Ok(()) };
            let here = fs::read(path)?;
            if *bytes == here {
                if *changed == Some(fs::metadata(path)?.mtime()) {
                    whole.insert(inner);
                }
            } else if *bytes != old_content(path.file_name().unwrap_or_default()).into_bytes() {
                wrong.push(format!("{inner} has {} wrong bytes", bytes.len()));
            }
            Ok(())
        })?;
        Ok((whole, wrong))
    }

    /// What differs after a complete run.
    fn differences(&self, cell: &Cell, name: &str) -> Result<Vec<String>> {
        if cell.direction == Direction::Down {
            return differences(&self.tree, &self.bench.dir.join(name), Times::Compared);
        }
        let found = self.received(cell, name)?;
        let (whole, mut differ) = self.look(&found)?;
        let mut count = 0;
        each_file(&self.tree, &mut |path| {
            count += 1;
            let inner = path.strip_prefix(&self.tree)?.to_string_lossy().into_owned();
            if !whole.contains(&inner) {
                differ.push(format!("{inner} is missing or differs"));
            }
            Ok(())
        })?;
        if found.keys().filter(|name| !name.is_empty() && !name.ends_with('/')).count() != count {
            differ.push(format!("there are other objects than the {count} files"));
        }
        Ok(differ)
    }

    fn clean_run(&self, cell: &mut Cell, number: usize) -> Result<()> {
        let name = format!("clean-{number}");
        self.prepare(cell, &name)?;
        let start = Instant::now();
        let finished = self.start(cell, 0, &name)?.finish(RUN_LIMIT)?;
        let seconds = start.elapsed().as_secs_f64();
        let found = self.differences(cell, &name)?;
        cell.clean(seconds, &finished, &found)?;
        self.forget(cell, &name)
    }

    fn round(&mut self, crash: Crash, cell: &mut Cell, number: u64) -> Result<()> {
        // A client that has never reached a server gives up at once, by design.
        let earliest = if crash == Crash::ServerAlone { 0.3 } else { 0.0 };
        let Moment { part, told, .. } =
            Moment::draw(self.seed, crash as u64, cell.direction, number, earliest);
        let name = format!("round-{number}");
        self.prepare(cell, &name)?;
        let mut client = self.start(cell, 0, &name)?;
        sleep(Duration::from_secs_f64(cell.clean_median() * part));
        if client.ended()?.is_some() {
            cell.too_late += 1;
            return self.forget(cell, &name);
        }
        cell.rounds += 1;
        let start = Instant::now();
        let (found, finished): (Objects, Finished) = match crash {
            Crash::Client | Crash::Server => {
                if crash == Crash::Server {
                    does_the_work(&self.servers[0].running)?;
                    self.servers[0].running.kill()?;
                } else {
                    does_the_work(&client)?;
                }
                client.kill()?;
                let found = self.received(cell, &name)?;
                let finished = self.start(cell, 1, &name)?.finish(RUN_LIMIT)?;
                if crash == Crash::Server {
                    self.restart()?;
                } else if !self.store.has_no_parts(REMOVED_IN)? {
                    cell.wrong.push(format!("{told}: parts of the killed client's upload remain"));
                }
                (found, finished)
            }
            Crash::ServerAlone => {
                does_the_work(&self.servers[0].running)?;
                self.servers[0].running.kill()?;
                // At once: over TCP a client waits for no server whose port refuses connections.
                self.restart()?;
                (self.received(cell, &name)?, client.finish(RUN_LIMIT)?)
            }
        };
        cell.reruns.push(start.elapsed().as_secs_f64());
        let (whole, wrong) = self.look(&found)?;
        cell.wrong.extend(wrong.into_iter().map(|wrong| format!("{told}: {wrong}")));
        let differ = self.differences(cell, &name)?;
        cell.judge(&told, &finished, &differ);
        // The report of a client that went on names what it had sent before.
        if crash != Crash::ServerAlone {
            cell.judge_sent(&told, &finished, &whole);
        }
        self.forget(cell, &name)
    }

    /// Starts the first server again, on its ports.
    fn restart(&mut self) -> Result<()> {
        self.servers[0] = serve(self.bench, &self.store, 0, Some(&self.servers[0]))?;
        Ok(())
    }

    fn forget(&self, cell: &Cell, name: &str) -> Result<()> {
        if cell.direction == Direction::Down {
            return remove(&self.bench.dir.join(name));
        }
        for key in self.store.keys(&format!("home/{name}/"))? {
            self.store.ask(&format!("DELETE /box/{key}"), "", b"")?;
        }
        Ok(())
    }
}

/// Starts a server before the bucket, on the ports of a previous one.
fn serve(bench: &Bench, store: &Store, number: usize, before: Option<&Server>) -> Result<Server> {
    let dir = bench.dir.join(format!("server-{number}"));
    fs::create_dir_all(&dir)?;
    let place = format!(
        "s3://box/home?endpoint=http://{}&region=us-east-1&access_key_id=key&secret_access_key=secret",
        store.address
    );
    let ports = before.map(|server| (server.tcp, server.udp));
    Server::start_at(&bench.programs, Path::new(&place), &dir, &["--writable"], ports)
}

impl Store {
    fn start(dir: &Path) -> Result<Self> {
        let address = free_tcp_port()?;
        let mut command = Command::new(crate::s3::moto()?);
        command.arg(root().join(crate::s3::SERVER)).arg(address.port().to_string());
        let mut running = Running::start(&mut command, dir, "moto")?;
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if running.ended()?.is_some() || start.elapsed() > RUN_LIMIT {
                bail!("moto does not start: {}", running.stderr_tail()?);
            }
            sleep(Duration::from_millis(50));
        }
        let store = Self { _running: running, address };
        store.ask("PUT /box", "", b"")?;
        Ok(store)
    }

    /// The head and the body of the answer to a request.
    fn ask(&self, request: &str, headers: &str, body: &[u8]) -> Result<(String, Vec<u8>)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(RUN_LIMIT))?;
        let key = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let (address, length) = (self.address, body.len());
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {key}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end =
            answer.windows(4).position(|four| four == b"\r\n\r\n").context("an answer without a head")?;
        let body = answer.split_off(end + 4);
        let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        match head.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok((head, body)),
            _ => bail!("{request}: {head}"),
        }
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.ask(&format!("PUT /box/{key}"), &format!("x-amz-meta-mtime: {OLD}\r\n"), bytes).map(drop)
    }

    /// The keys that begin with a prefix. None of them needs an escape.
    fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let (_, body) = self.ask(&format!("GET /box?list-type=2&prefix={prefix}"), "", b"")?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if text.contains("<IsTruncated>true") {
            bail!("there are too many objects for one listing");
        }
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        Ok(keys.map(str::to_owned).collect())
    }

    /// The objects below a prefix.
    fn objects(&self, prefix: &str) -> Result<Objects> {
        let mut found = Objects::new();
        for key in self.keys(prefix)? {
            // It may be replaced meanwhile; each answer is one of both.
            let (head, body) = self.ask(&format!("GET /box/{key}"), "", b"")?;
            let time = head.lines().find_map(|line| line.strip_prefix("x-amz-meta-mtime:"));
            let time = time.and_then(|time| time.trim().split('.').next()?.parse().ok());
            found.insert(key[prefix.len()..].to_owned(), (body, time));
        }
        Ok(found)
    }

    /// Whether there are no parts of unfinished uploads, within a time.
    fn has_no_parts(&self, within: Duration) -> Result<bool> {
        let start = Instant::now();
        loop {
            let (_, body) = self.ask("GET /box?uploads", "", b"")?;
            if !String::from_utf8_lossy(&body).contains("<UploadId>") {
                return Ok(true);
            }
            if start.elapsed() > within {
                return Ok(false);
            }
            sleep(Duration::from_millis(100));
        }
    }
}
