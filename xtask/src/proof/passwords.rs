//! Password guessing on a live server, over TCP from several addresses and over SCTP at once: measures how
//! many guesses are checked.
//!
//! The guessers use parallel sessions, log in to other accounts between their guesses, change USER, and vary
//! the spelling of the name. A reply that the password is wrong counts as a check; a reply that there were
//! too many guesses does not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};

use super::Bench;
use super::actors::{Programs, Running, Server};

/// The limit of checks per address.
const ADDRESS_MAX: usize = 20;
/// The limit of checks of one user's passwords.
const USER_MAX: usize = 100;
/// From how many addresses the guesses come, besides the one that SCTP and TCP share: so many that the limit
/// of one address does not limit all of them together. The delays of an address grow with its failures, so
/// guesses from many addresses, a few each, are the fastest.
const ADDRESSES: u8 = 40;
/// The number of concurrent sessions from each address.
const SESSIONS: usize = 3;
/// The number of concurrent sessions from an address that uses as many as it can.
const MANY_SESSIONS: usize = 12;
/// The duration of the guessing.
const LASTS: Duration = Duration::from_secs(60);
/// The time limit of a reply; delays of replies are part of the defence.
const REPLY: Duration = Duration::from_secs(60);
/// The time limit of a client over SCTP for its guess.
const CLIENT: Duration = Duration::from_secs(90);

const NAME: &str = "anna";
const PASSWORD: &str = "the right one";
/// The spellings of the name.
const SPELLINGS: [&str; 6] = [NAME, NAME, NAME, "Anna", "anna ", "ANNA"];
/// The address from which the user logs in.
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 4, 0, 1));
/// An address without earlier logins.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 5, 0, 1));
/// The server's reply to a password that it does not check.
const NOT_CHECKED: &str = "or for this user";

/// The number of checked guesses, by address and name.
type Checks = Mutex<BTreeMap<(IpAddr, String), usize>>;

/// Runs the guessers.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let hash = hash(&bench.programs)?;
    let users = bench.dir.join("users.toml");
    let text = format!(
        "[[user]]\nname = '{NAME}'\nhash = '{hash}'\n[[user]]\nname = 'mine'\nhash = '{hash}'\n[[user]]\nname = 'anonymous'\n"
    );
    std::fs::write(&users, text)?;
    let served = bench.dir.join("guessed");
    std::fs::create_dir_all(&served)?;
    let users = users.to_str().context("the folder's name is not UTF-8")?;
    let server =
        Server::start(&bench.programs, &served, &bench.dir, &["--users", users, "--allow-plain-passwords"])?;
    let says = |from, name: &str, password: &str| -> Result<String> {
        Session::open(server.tcp, from)?.log_in(name, password)
    };
    let right = |from, name: &str| Ok::<_, anyhow::Error>(says(from, name, PASSWORD)?.starts_with("230"));
    bench.verdict(right(HOME, NAME)?, "passwords: the right one is taken before anybody guesses");
    let (checks, hung) = guess_for_a_while(bench, &server);
    bench.verdict(
        hung.is_empty(),
        &format!("passwords: {} clients did not end: {}", hung.len(), hung.join("; ")),
    );
    judge_checks(bench, &checks);
    // An address that nobody has used yet.
    let fresh = says(ELSEWHERE, NAME, "a guess")?;
    bench.verdict(
        fresh.contains(NOT_CHECKED),
        &format!("passwords: one more guess, from a new address: {}", fresh.trim()),
    );
    bench.verdict(
        right(ELSEWHERE, "mine")?,
        "passwords: another user's right one is taken from a new address",
    );
    bench.verdict(
        right(HOME, NAME)?,
        "passwords: the right one is taken from where the user logged in before",
    );
    Ok(())
}

/// Guesses over TCP and SCTP, from one address and from many, until the time is over. Returns how many guesses were checked, by
/// address and name, and the errors of clients that did not end.
fn guess_for_a_while(bench: &Bench, server: &Server) -> (BTreeMap<(IpAddr, String), usize>, Vec<String>) {
    let checks = Checks::default();
    let hung = Mutex::new(Vec::new());
    let until = Instant::now() + LASTS;
    let here = server.tcp.ip();
    let (programs, dir) = (&bench.programs, &bench.dir);
    thread::scope(|scope| {
        let addresses = (1..=ADDRESSES).map(|host| IpAddr::from([127, 3, 0, host]));
        let few = addresses.flat_map(|address| (0..SESSIONS).map(move |nth| (address, nth)));
        let many = (0..MANY_SESSIONS).map(|nth| (here, nth));
        for (address, nth) in few.chain(many) {
            let checks = &checks;
            let to = server.tcp;
            scope.spawn(move || {
                while Instant::now() < until {
                    // The session ends when the server closes it.
                    let _ = guess(to, address, nth, until, checks);
                    thread::sleep(Duration::from_millis(50));
                }
            });
        }
        for nth in 0..SESSIONS {
            let (checks, hung, udp) = (&checks, &hung, server.udp);
            scope.spawn(move || {
                while Instant::now() < until {
                    match guess_over_sctp(programs, dir, nth, udp) {
                        Ok(true) => count(checks, here, NAME),
                        Ok(false) => {}
                        Err(error) => {
                            hung.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"))
                        }
                    }
                }
            });
        }
    });
    (checks.into_inner().unwrap_or_default(), hung.into_inner().unwrap_or_default())
}

/// Whether no more guesses were checked than may be, of one address and of one user.
fn judge_checks(bench: &mut Bench, checks: &BTreeMap<(IpAddr, String), usize>) {
    let sum = |wanted: &dyn Fn(&(IpAddr, String)) -> bool| -> usize {
        checks.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count).sum()
    };
    let most = checks.keys().map(|(address, _)| sum(&|key| key.0 == *address)).max().unwrap_or(0);
    let of_user = sum(&|key| key.1 == NAME);
    let secs = LASTS.as_secs();
    bench.verdict(
        (1..=ADDRESS_MAX).contains(&most),
        &format!(
            "passwords: {most} checked in {secs} s from one address, over TCP and SCTP (may be {ADDRESS_MAX})"
        ),
    );
    bench.verdict(
        (1..=USER_MAX).contains(&of_user),
        &format!(
            "passwords: {of_user} checked of one user from {} addresses (may be {USER_MAX})",
            ADDRESSES + 1
        ),
    );
}

fn count(checks: &Checks, from: IpAddr, name: &str) {
    if let Ok(mut checks) = checks.lock() {
        *checks.entry((from, name.to_owned())).or_default() += 1;
    }
}

/// The guesses of one session.
fn guess(to: SocketAddr, from: IpAddr, nth: usize, until: Instant, checks: &Checks) -> Result<()> {
    let mut session = Session::open(to, from)?;
    for turn in nth.. {
        if Instant::now() >= until {
            break;
        }
        let name = SPELLINGS[turn % SPELLINGS.len()];
        let reply = session.log_in(name, "a guess")?;
        if reply.starts_with("530") || reply.contains("too many wrong passwords, goodbye") {
            count(checks, from, name);
        }
        // A successful login must not reset the count of another name.
        match turn % 3 {
            0 => session.log_in("anonymous", "x")?,
            1 => session.log_in("mine", PASSWORD)?,
            _ => session.ask("USER somebody")?,
        };
    }
    Ok(())
}

/// One guess by the client; whether it was checked.
fn guess_over_sctp(programs: &Programs, dir: &Path, nth: usize, udp: SocketAddr) -> Result<bool> {
    let mut command = programs.braidftp();
    command.args(["ls", &format!("ftp+sctp://{NAME}:wrong@{udp}/"), "--retries", "0", "--plain"]);
    let finished = Running::start(&mut command, dir, &format!("guesser-{nth}"))?.finish(CLIENT)?;
    Ok(finished.stderr.contains("530"))
}

/// The hash of the right password.
fn hash(programs: &Programs) -> Result<String> {
    let mut command: Command = programs.braidftp();
    command.args(["serve", "--hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    writeln!(child.stdin.take().context("a pipe was asked for")?, "{PASSWORD}")?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    let hash =
        text.split_whitespace().map(|word| word.trim_matches('"')).find(|word| word.starts_with("$argon2"));
    hash.map(str::to_owned).with_context(|| format!("no hash in `{text}`"))
}

/// A control connection.
struct Session {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Session {
    fn open(to: SocketAddr, from: IpAddr) -> Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket.connect_timeout(&to.into(), REPLY)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(REPLY))?;
        let mut session = Self { reader: BufReader::new(stream.try_clone()?), stream };
        let greeting = session.reply()?;
        if greeting.starts_with("220") { Ok(session) } else { bail!("{greeting}") }
    }

    fn reply(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => bail!("the server ended the session"),
            _ => Ok(line),
        }
    }

    fn ask(&mut self, line: &str) -> Result<String> {
        write!(self.stream, "{line}\r\n")?;
        self.reply()
    }

    /// Sends USER and PASS; returns the reply to the password.
    fn log_in(&mut self, name: &str, password: &str) -> Result<String> {
        let reply = self.ask(&format!("USER {name}"))?;
        if !reply.starts_with("331") {
            return Ok(reply);
        }
        self.ask(&format!("PASS {password}"))
    }
}
