//! usrsctp's own example programs, as Debian ships them, built unchanged against this library: among themselves, and with the
//! same programs on usrsctp. Client and server are on separate hosts (network namespaces, which require root), because usrsctp
//! opens raw sockets and answers the packets of others.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use braidftp_emu::wires::{End, Wire, Wires};

/// Where Debian's libusrsctp-dev has them.
const EXAMPLES: &str = "/usr/share/doc/libusrsctp-dev/examples";

/// Far longer than any of the programs takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// How often a client is started.
const TRIES: u32 = 50;
/// The UDP ports of server and client.
const UDP: [&str; 2] = ["11111", "22222"];

/// A library to build a program with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Ours,
    Usrsctp,
}

/// Prints that a test is skipped, and why; fails instead where all requirements must be met.
fn left_out(why: &str) {
    assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "BRAIDFTP_REQUIRE_PEERS is set: {why}");
    eprintln!("LEFT OUT: {why}");
}

/// Whether the examples are installed.
fn are_there() -> bool {
    let there = Path::new(EXAMPLES).join("client.c").exists();
    if !there {
        left_out(&format!("{EXAMPLES} is missing (Debian: apt install gcc libusrsctp-dev)"));
    }
    there
}

/// Two hosts; `None` without the privilege.
fn hosts() -> Option<Wires> {
    Wires::up(&[Wire::v4(1)], None).map_err(|error| eprintln!("LEFT OUT: {error}")).ok()
}

/// The folder of the shared library: that of this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles these sources into a program of this name.
fn compile(name: &str, library: Library, sources: &[PathBuf]) -> Program {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Several tests compile the same program at a time.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = format!("capi_{name}_{}_{count}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-DINET", "-DINET6", "-Wall", "-Werror", "-o"]).arg(&program).args(sources);
    cc.arg("-I").arg(root.join("tests/c"));
    match library {
        Library::Ours => {
            let libraries = libraries();
            cc.arg("-I").arg(root.join("include")).arg("-L").arg(&libraries).arg("-lbraidsctp");
            cc.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Library::Usrsctp => {
            cc.args(["-lusrsctp"]);
        }
    }
    let output = cc.arg("-lpthread").output().unwrap();
    assert!(output.status.success(), "{name} {library:?}: {}", String::from_utf8_lossy(&output.stderr));
    Program(program)
}

/// A compiled program, which is removed with this.
struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        // Best effort: it is in cargo's folder for such files.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn example(name: &str, library: Library) -> Program {
    let source = |name: &str| Path::new(EXAMPLES).join(name);
    compile(name, library, &[source(&format!("{name}.c")), source("programs_helper.c")])
}

/// A program at work. It ends with this.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    /// Runs a program on a host, its output line by line.
    fn start(hosts: &Wires, on: End, program: &Program, args: &[&str]) -> Self {
        let mut command = hosts.command(on, "stdbuf");
        command.arg("-oL").arg(&program.0).args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
        Self { stdin: child.stdin.take(), child, lines, said: Vec::new() }
    }

    /// Waits until a line of its output contains `words`. Returns that line.
    fn says(&mut self, words: &str) -> &str {
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(error) => panic!("`{words}` does not come ({error}): {:#?}", self.said),
            };
            let is_it = line.contains(words);
            self.said.push(line);
            if is_it {
                return self.said.last().unwrap();
            }
        }
    }

    /// Waits for its end.
    fn end(&mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.said.extend(std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()));
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The client sends lines over UDP to a server, which prints or returns them, and shuts down.
fn lines_go_to(server: &str, port: &str, [client, at]: [Library; 2]) {
    if !are_there() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let (server_program, client_program) = (example(server, at), example("client", client));
    let mut server = Running::start(&hosts, End::Server, &server_program, &[UDP[0], UDP[1]]);
    let args = ["10.1.1.1", port, "0", UDP[1], UDP[0]];
    // A server that does not listen yet refuses the association.
    let mut client = (0..TRIES)
        .map(|_| Running::start(&hosts, End::Client, &client_program, &args))
        .find_map(|mut client| client.says("Association change").contains("SCTP_COMM_UP").then_some(client))
        .expect("the server listens");
    for n in 1..=3 {
        let line = format!("line {n}");
        writeln!(client.stdin.as_mut().unwrap(), "{line}").unwrap();
        server.says("Msg of length 7 received from ::ffff:10.1.1.2:");
        if port == "7" {
            client.says(&line);
        }
    }
    let end = client.end();
    assert!(end.success(), "{end}: {:#?}", client.said);
    // Its main thread prints the addresses in pieces, between which the notification of its other thread may come.
    for words in ["Peer addresses: ", "10.1.1.1", "SCTP_SHUTDOWN_COMP"] {
        assert!(client.said.iter().any(|line| line.contains(words)), "{words}: {:#?}", client.said);
    }
    assert!(
        server.said.iter().all(|line| !line.contains("context") || line.contains("context 47, complete 1"))
    );
}

#[test]
fn our_client_and_our_discard_server() {
    lines_go_to("discard_server", "9", [Library::Ours; 2]);
}

#[test]
fn our_client_and_our_echo_server() {
    lines_go_to("echo_server", "7", [Library::Ours; 2]);
}

#[test]
fn our_client_and_discard_server_of_usrsctp() {
    lines_go_to("discard_server", "9", [Library::Ours, Library::Usrsctp]);
}

#[test]
fn our_client_and_echo_server_of_usrsctp() {
    lines_go_to("echo_server", "7", [Library::Ours, Library::Usrsctp]);
}

#[test]
fn client_of_usrsctp_and_our_discard_server() {
    lines_go_to("discard_server", "9", [Library::Usrsctp, Library::Ours]);
}

#[test]
fn client_of_usrsctp_and_our_echo_server() {
    lines_go_to("echo_server", "7", [Library::Usrsctp, Library::Ours]);
}

/// Programs that send 20 messages of 1 MiB to themselves by functions, and sleep for most of their time: all at once, with
/// checksums by the library and by the program.
#[test]
fn ekr_loop_and_ekr_loop_upcall() {
    if !are_there() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let programs = ["ekr_loop", "ekr_loop_upcall"].map(|name| example(name, Library::Ours));
    let args = [["9900", "9901", "0"], ["9902", "9903", "1"]];
    let runs = programs.iter().flat_map(|program| args.map(|args| (program, args)));
    let ends = [End::Client, End::Client, End::Server, End::Server];
    let started = ends.into_iter().zip(runs);
    let started: Vec<_> =
        started.map(|(end, (program, args))| Running::start(&hosts, end, program, &args)).collect();
    for mut program in started {
        let end = program.end();
        assert!(end.success(), "{end}: {:#?}", program.said);
        let length = |line: &String| {
            let (_, rest) = line.split_once("length ")?;
            rest.split_once(',')?.0.parse::<usize>().ok()
        };
        let received = program.said.iter().filter(|line| line.contains("MSG RCV"));
        let (messages, bytes) = received.fold((0, 0), |(messages, bytes), line| {
            (messages + usize::from(line.contains(", EOR")), bytes + length(line).unwrap_or(0))
        });
        assert_eq!((messages, bytes), (20, 20 << 20), "{:#?}", program.said);
    }
}

/// The others that need no network to be of use: they build.
#[test]
fn the_other_examples_build() {
    if !are_there() {
        return;
    }
    let others = [
        "chargen_server_upcall",
        "client_upcall",
        "daytime_server",
        "daytime_server_upcall",
        "discard_server_upcall",
        "echo_server_upcall",
        "ekr_client",
        "ekr_peer",
        "ekr_server",
        "http_client",
        "http_client_upcall",
        "rtcweb",
        "tsctp",
        "tsctp_upcall",
    ];
    for name in others {
        drop(example(name, Library::Ours));
    }
}

/// Every constant, and the place and size of every field, in both headers.
#[test]
fn the_header_has_the_values_and_layouts_of_usrsctp() {
    if !are_there() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("include/braidsctp.h")).unwrap();
    let mut body = String::new();
    let mut within: Option<&str> = None;
    for line in header.lines() {
        let mut words = line.split([' ', ';', '[', '*']).filter(|word| !word.is_empty());
        let all: Vec<&str> = words.by_ref().collect();
        match all.as_slice() {
            ["#define", name, value] if value.parse::<i64>().is_ok() => {
                body += &format!("printf(\"{name} %lld\\n\", (long long){name});\n");
            }
            ["struct", name, "{"] if *name != "sctpstat" => {
                within = Some(name);
                body += &format!("printf(\"{name} %zu\\n\", sizeof(struct {name}));\n");
            }
            ["}", ..] => within = None,
            [_, .., _] if line.starts_with("  ") && line.ends_with(';') => {
                let Some(name) = within else { continue };
                let field = all.iter().rfind(|word| !word.ends_with(']')).unwrap();
                body += &format!("printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));\n");
            }
            _ => {}
        }
    }
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layout_{}.c", std::process::id()));
    let head = "#define SCTP_DEBUG 1\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <usrsctp.h>\n";
    std::fs::write(&source, format!("{head}int main(void) {{\n{body}return 0;\n}}\n")).unwrap();
    let [ours, theirs] = [Library::Ours, Library::Usrsctp].map(|library| {
        let program = compile("layout", library, std::slice::from_ref(&source));
        let output = Command::new(&program.0).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    std::fs::remove_file(source).unwrap();
    assert!(ours.lines().count() > 300, "{ours}");
    let differ: Vec<_> = ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs).collect();
    assert!(differ.is_empty() && ours.len() == theirs.len(), "{differ:#?}");
}

/// What cbindgen.toml declares by hand exists.
#[test]
fn every_sysctl_of_the_header_links() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("include/braidsctp.h")).unwrap();
    let names =
        header.lines().filter_map(|line| line.strip_prefix("USRSCTP_SYSCTL_DECL(")?.strip_suffix(')'));
    let calls: String = names
        .map(|name| format!("if (usrsctp_sysctl_set_{name}(usrsctp_sysctl_get_{name}()) != 0) return 1;\n"))
        .collect();
    assert!(calls.lines().count() > 20);
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sysctl_{}.c", std::process::id()));
    std::fs::write(&source, format!("#include <usrsctp.h>\nint main(void) {{\n{calls}return 0;\n}}\n"))
        .unwrap();
    let program = compile("sysctl", Library::Ours, std::slice::from_ref(&source));
    assert!(Command::new(&program.0).status().unwrap().success());
    std::fs::remove_file(source).unwrap();
}
