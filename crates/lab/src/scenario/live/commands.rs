//! The command lines of live runs: braidftp's, and those of the programs that a transport names.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::transports::Given;
use crate::compare::live::name;
use crate::compare::programs::{bound, bound_with_children};

/// The port of servers over TCP.
pub(super) const TCP_PORT: u16 = 2_121;
/// The bytes of an IPv4 header, which every live packet has.
pub(super) const IP_BYTES: usize = 20;
/// The UDP header, without which SCTP is carried by IP itself.
const UDP_BYTES: usize = 8;
/// The time-out of clients, longer than any silence of an emulated link.
const SILENT_SECONDS: &str = "600";

/// What the command lines of a transfer need.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// The program braidftp.
    pub(super) braidftp: PathBuf,
    /// The transport.
    pub(super) given: &'a Given,
    /// The mode of transfer.
    pub(super) mode: &'static str,
    /// The addresses of client and server on each path.
    pub(super) paths: Vec<[Ipv4Addr; 2]>,
    /// The bytes of headers around SCTP's packets.
    pub(super) overhead_bytes: usize,
    /// The server's files.
    pub(super) files: PathBuf,
    /// Their number.
    pub(super) count: usize,
    /// A folder of this run alone.
    pub(super) folder: PathBuf,
}

/// Whether packets with headers of so many bytes are SCTP over UDP.
pub(super) fn is_over_udp(overhead_bytes: usize) -> bool {
    overhead_bytes == IP_BYTES + UDP_BYTES
}

impl Job<'_> {
    /// The folder of the client.
    pub(super) fn received(&self) -> PathBuf {
        self.folder.join("received")
    }

    /// braidftp's server and client.
    pub(super) fn braidftp(&self) -> [Command; 2] {
        let (root, query) = self.url();
        let mut server = bound(&self.braidftp);
        server.arg("serve").arg(&self.files).args(["--listen", &format!("{root}{query}")]);
        let mut client = bound(&self.braidftp);
        client.args(["get", "--json", "-vv", "--mode", self.mode, "--timeout", SILENT_SECONDS]);
        client.arg("--output").arg(self.received());
        if self.given.is_protected {
            server.arg("--identity").arg(self.folder.join("identity"));
            client.args(["--accept-new", "--protect", "--known-hosts"]).arg(self.folder.join("known_hosts"));
        } else {
            server.arg("--plain");
            client.arg("--plain");
        }
        if self.mode == "tcp" {
            // The simulated client has one session.
            client.args(["--parallel", "1"]);
        } else {
            for command in [&mut server, &mut client] {
                command.args(["--profile", self.given.profile.as_deref().unwrap_or("modern")]);
                // Without it braidftp uses several paths in mode braid, a scenario does not.
                command.args(["--multipath", self.given.multipath.as_deref().unwrap_or("off")]);
                command.args(self.given.controller.iter().flat_map(|name| ["--cc", name]));
            }
            for [here, there] in &self.paths {
                client.args(["--path", &format!("{here}={there}")]);
            }
        }
        client.arg(format!("{root}*{query}"));
        [server, client]
    }

    /// The URL of the server's folder, and the query with its other addresses.
    fn url(&self) -> (String, String) {
        let [_, first] = self.paths[0];
        if self.mode == "tcp" {
            return (format!("ftp://{first}:{TCP_PORT}/"), String::new());
        }
        let (scheme, port) = match is_over_udp(self.overhead_bytes) {
            true => ("ftp+sctp", 9_899),
            false => ("ftp+sctp-ip", 21),
        };
        let others: Vec<String> = self.paths[1..].iter().map(|[_, there]| format!("addr={there}")).collect();
        let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        (format!("{scheme}://{first}:{port}/"), query)
    }

    /// The server and the client that the transport names.
    pub(super) fn named(&self, [server, client]: &[Vec<String>; 2], lasts: Duration) -> [Command; 2] {
        let fill = |words: &[String]| -> Vec<String> {
            let repeated = words.iter().flat_map(|word| match word.contains("{file}") {
                true => (0..self.count).map(|number| word.replace("{file}", &name(number))).collect(),
                false => vec![word.clone()],
            });
            repeated
                .map(|word| {
                    word.replace("{address}", &self.paths[0][1].to_string())
                        .replace("{port}", &TCP_PORT.to_string())
                        .replace("{folder}", &self.files.display().to_string())
                        .replace("{to}", &self.received().display().to_string())
                        .replace("{seconds}", &lasts.as_secs().max(1).to_string())
                })
                .collect()
        };
        [server, client].map(|words| {
            let words = fill(words);
            let mut command = bound_with_children(Path::new(&words[0]));
            command.args(&words[1..]).current_dir(&self.folder);
            command
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job<'a>(given: &'a Given, mode: &'static str, overhead_bytes: usize) -> Job<'a> {
        Job {
            braidftp: "/bin/braidftp".into(),
            given,
            mode,
            paths: vec![
                [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2)],
                [Ipv4Addr::new(10, 1, 1, 1), Ipv4Addr::new(10, 1, 1, 2)],
            ],
            overhead_bytes,
            files: "/files".into(),
            count: 2,
            folder: "/run".into(),
        }
    }

    fn words(command: &Command) -> String {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn braidftp_gets_what_the_transport_names_on_all_paths() {
        let given = Given {
            controller: Some("cubic".into()),
            multipath: Some("plain".into()),
            profile: Some("rfc9260".into()),
            ..Given::default()
        };
        let [server, client] = job(&given, "braid", 20).braidftp().each_ref().map(words);
        for said in
            ["serve /files", "--listen ftp+sctp-ip://10.1.0.2:21/?addr=10.1.1.2", "--plain", "--cc cubic"]
        {
            assert!(server.contains(said), "{server}");
        }
        for said in [
            "--mode braid",
            "--profile rfc9260",
            "--multipath plain",
            "--path 10.1.0.1=10.1.0.2 --path 10.1.1.1=10.1.1.2",
            "--output /run/received",
            "ftp+sctp-ip://10.1.0.2:21/*?addr=10.1.1.2",
        ] {
            assert!(client.contains(said), "{client}");
        }
        assert!(words(&job(&given, "ms", 28).braidftp()[1]).contains("ftp+sctp://10.1.0.2:9899/*"));
        let single = words(&job(&Given::default(), "braid", 20).braidftp()[1]);
        assert!(single.contains("--multipath off"), "as in the simulator: {single}");
        let tcp = words(&job(&given, "tcp", 20).braidftp()[1]);
        assert!(tcp.contains("--parallel 1"), "the simulated client has one session: {tcp}");
        assert!(tcp.contains("ftp://10.1.0.2:2121/*") && !tcp.contains("--cc"), "{tcp}");
        let given = Given { is_protected: true, ..Given::default() };
        let protected = words(&job(&given, "braid", 28).braidftp()[1]);
        assert!(protected.contains("--accept-new") && !protected.contains("--plain"), "{protected}");
    }

    #[test]
    fn placeholders_are_filled_and_words_with_file_are_repeated() {
        let given = Given::default();
        let list = |text: &str| text.split(' ').map(str::to_owned).collect();
        let program = [
            list("httpd {folder} {address}:{port}"),
            list("curl --output-dir {to} -O http://{address}/{file}"),
        ];
        let [server, client] =
            job(&given, "tcp", 20).named(&program, Duration::from_secs(7)).each_ref().map(words);
        assert!(server.ends_with("httpd /files 10.1.0.2:2121"), "{server}");
        let all = "curl --output-dir /run/received -O http://10.1.0.2/f0000 http://10.1.0.2/f0001";
        assert!(client.ends_with(all), "{client}");
    }
}
