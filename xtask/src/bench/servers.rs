//! The programs that transfer a tree in `bench tails` and `bench links`: their servers, their clients, and one timed
//! transfer.
//!
//! A transfer takes from the client's start to its exit, and counts only if the copy has the files of the tree. curl and
//! the HTTP/3 client are given the names of the files, all others list the tree themselves. curl uses HTTP/2 over TLS
//! 1.3, because `curl --parallel` of Debian 12 (7.88.1) fails in clear text (h2c, exit code 16).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::emulated::{Net, Process};
use crate::peers::Proof;
use crate::shell::{capture, quietly};

/// The Debian packages of nginx, curl and rsync, and of the nets.
pub(super) const PACKAGES: &[(Proof, &str)] = &[
    (Proof::File("/usr/sbin/nginx"), "nginx-light"),
    (Proof::Program("curl"), "curl"),
    (Proof::Program("openssl"), "openssl"),
    (Proof::Program("rsync"), "rsync"),
    (Proof::Program("ip"), "iproute2"),
];

/// The time limit for a server to listen.
const START: Duration = Duration::from_secs(20);
/// The polling interval of a client: the resolution of the times.
const POLL: Duration = Duration::from_millis(2);
/// The most files at once of curl.
const PARALLEL: &str = "100";
/// The most files at once of rclone, whose default is 4.
const RCLONE_TRANSFERS: &str = "32";

/// A program that transfers a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// `braidftp mirror --plain`.
    BraidPlain,
    /// `braidftp mirror`, protected.
    Braid,
    /// `curl --parallel` from nginx, HTTP/2 over TLS 1.3.
    Http2,
    /// `bench-peers/src/http3_peer.rs`, HTTP/3 by quinn.
    Http3,
    /// rsync from its daemon, in clear text.
    Rsync,
    /// rclone from nginx, HTTP/1.1 in clear text.
    Rclone,
    /// qcp: QUIC by quinn, arranged over ssh.
    Qcp,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BraidPlain => "braid --plain",
            Self::Braid => "braid",
            Self::Http2 => "curl HTTP/2",
            Self::Http3 => "quinn HTTP/3",
            Self::Rsync => "rsync",
            Self::Rclone => "rclone HTTP/1.1",
            Self::Qcp => "qcp",
        }
    }

    /// Whether the transfer is encrypted.
    pub(super) fn is_protected(self) -> bool {
        matches!(self, Self::Braid | Self::Http2 | Self::Http3 | Self::Qcp)
    }

    /// The server's port, and the table of /proc/net that shows that it listens.
    fn port(self) -> (u16, &'static str) {
        match self {
            Self::BraidPlain | Self::Braid => (9899, "udp"),
            Self::Http2 => (8080, "tcp"),
            Self::Http3 => (4433, "udp"),
            Self::Rsync => (8730, "tcp"),
            Self::Rclone => (8081, "tcp"),
            Self::Qcp => (2222, "tcp"),
        }
    }
}

/// The paths of the programs that no Debian package has.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) braidftp: PathBuf,
    /// `http3_peer`, if it could be built.
    pub(super) http3: Option<PathBuf>,
    /// qcp, if it could be installed.
    pub(super) qcp: Option<PathBuf>,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer<'a> {
    pub(super) program: Program,
    /// The congestion controller, `bbr` or `cubic`, of a program that has its own transport. That of the kernel is set
    /// by [`Net::set_congestion`].
    pub(super) controller: &'a str,
    /// What is transferred.
    pub(super) tree: &'a Path,
    /// A folder for logs, settings and the copy.
    pub(super) dir: &'a Path,
}

impl Programs {
    /// Prints the first line of what each program says about its version.
    pub(super) fn print_versions(&self, debian: &[(&str, &str)]) -> Result<()> {
        let ours = [Some(&self.braidftp), self.qcp.as_ref()];
        let ours = ours.into_iter().flatten().map(|program| (program.as_path(), "--version"));
        for (program, option) in
            ours.chain(debian.iter().map(|(program, option)| (Path::new(program), *option)))
        {
            let said = Command::new(program)
                .arg(option)
                .output()
                .with_context(|| format!("cannot run {}", program.display()))?;
            let said = [said.stdout, said.stderr].concat();
            println!("{}", String::from_utf8_lossy(&said).lines().next().unwrap_or_default());
        }
        Ok(())
    }

    /// Starts a server and waits until it listens.
    pub(super) fn serve(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Process> {
        let Transfer { program, dir, .. } = *transfer;
        let (port, table) = program.port();
        fs::create_dir_all(dir.join("copy"))?;
        let mut command = match program {
            Program::BraidPlain | Program::Braid => self.serve_braid(net, transfer),
            Program::Http2 => serve_nginx(net, transfer)?,
            Program::Http3 => self.serve_http3(net, transfer)?,
            Program::Rsync => serve_rsync(net, transfer)?,
            Program::Rclone => serve_nginx(net, transfer)?,
            Program::Qcp => self.serve_ssh(net, transfer)?,
        };
        let log = fs::File::create(dir.join("server.log"))?;
        let mut server = Process(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?);
        let began = Instant::now();
        loop {
            let sockets =
                String::from_utf8(capture(net.on("server", "cat").arg(format!("/proc/net/{table}")))?)?;
            if listens(&sockets, port) {
                return Ok(server);
            }
            if server.0.try_wait()?.is_some() || began.elapsed() > START {
                let said = fs::read_to_string(dir.join("server.log")).unwrap_or_default();
                bail!("the server of {} does not listen: {}", program.name(), said.trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a client to its end, or until `patience` has passed. Returns the seconds, or why the transfer failed.
    pub(super) fn fetch(
        &self,
        net: &Net<'_>,
        transfer: &Transfer<'_>,
        patience: Duration,
    ) -> Result<std::result::Result<f64, String>> {
        let mut client = match transfer.program {
            Program::BraidPlain | Program::Braid => self.braid(net, transfer),
            Program::Http2 => curl(net, transfer)?,
            Program::Http3 => self.http3(net, transfer)?,
            Program::Rsync => rsync(net, transfer),
            Program::Rclone => rclone(net, transfer),
            Program::Qcp => self.qcp(net, transfer)?,
        };
        let log = fs::File::create(transfer.dir.join("client.log"))?;
        client.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let began = Instant::now();
        let mut client = Process(client.spawn()?);
        let status = loop {
            if let Some(status) = client.0.try_wait()? {
                break status;
            }
            if began.elapsed() > patience {
                return Ok(Err(format!("over {:.0} s", patience.as_secs_f64())));
            }
            std::thread::sleep(POLL);
        };
        let seconds = began.elapsed().as_secs_f64();
        Ok(match status.code() {
            Some(0) if same(transfer.tree, &transfer.dir.join("copy"))? => Ok(seconds),
            Some(0) => Err("exit code 0, but the copy differs".to_owned()),
            Some(code) => Err(format!("exit code {code}")),
            None => Err(status.to_string()),
        })
    }

    fn serve_braid(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Command {
        let mut command = net.on("server", &self.braidftp);
        command.arg("serve").arg(transfer.tree);
        match transfer.program {
            Program::Braid => command.arg("--identity").arg(transfer.dir.join("server")),
            _ => command.arg("--plain"),
        };
        command.args(["--listen", &format!("ftp+sctp://{}/", address(transfer.program))]);
        command.env("HOME", transfer.dir).env("XDG_DATA_HOME", transfer.dir.join("data"));
        command
    }

    fn braid(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Command {
        let mut command = net.on("client", &self.braidftp);
        let trust = if transfer.program == Program::Braid { "--accept-new" } else { "--plain" };
        command.args(["mirror", trust, &format!("ftp+sctp://{}/", address(transfer.program))]);
        command.arg(transfer.dir.join("copy"));
        command.env("HOME", transfer.dir).env("XDG_DATA_HOME", transfer.dir.join("data"));
        command
    }

    fn serve_http3(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
        let mut command = net.on("server", self.http3.as_ref().context("http3_peer was not built")?);
        command.args(["serve", &address(transfer.program)]).arg(transfer.tree);
        command.arg(format!("cc={}", transfer.controller));
        Ok(command)
    }

    fn http3(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
        let list = transfer.dir.join("names");
        fs::write(&list, files(transfer.tree)?.join("\n"))?;
        let mut command = net.on("client", self.http3.as_ref().context("http3_peer was not built")?);
        command.args(["fetch", &address(transfer.program)]).arg(list).arg(transfer.dir.join("copy"));
        command.arg(format!("cc={}", transfer.controller));
        Ok(command)
    }

    /// An ssh server whose subsystem `qcp` starts qcp.
    fn serve_ssh(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
        let (dir, home) = (transfer.dir, transfer.dir.display());
        let qcp = self.qcp.as_ref().context("qcp was not installed")?.display();
        for key in ["host_key", "user_key"] {
            let mut make = Command::new("ssh-keygen");
            quietly(make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join(key)))?;
        }
        let port = transfer.program.port().0;
        let config = format!(
            "ListenAddress 10.1.1.1:{port}\nHostKey {home}/host_key\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nAuthorizedKeysFile {home}/user_key.pub\nSubsystem qcp {qcp} --server\n"
        );
        fs::write(dir.join("sshd_config"), config)?;
        let client = format!(
            "Host *\nPort {port}\nIdentityFile {home}/user_key\nStrictHostKeyChecking no\n\
             UserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        );
        fs::write(dir.join("ssh_config"), client)?;
        // sshd refuses to start without its empty folder.
        fs::create_dir_all("/run/sshd")?;
        let mut command = net.on("server", "/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(dir.join("sshd_config"));
        Ok(command)
    }

    fn qcp(&self, net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
        let mut command = net.on("client", self.qcp.as_ref().context("qcp was not installed")?);
        let copy = transfer.dir.join("copy");
        // With one source and no destination of that name, the contents of the source go into the destination.
        fs::remove_dir_all(&copy)?;
        let config = format!("-F{}", transfer.dir.join("ssh_config").display());
        command.args(["--quiet", "--recurse", "--ssh-subsystem", "--congestion", transfer.controller]);
        command.args(["-S", &config]).arg(format!("root@10.1.1.1:{}", transfer.tree.display())).arg(copy);
        command.env("HOME", transfer.dir);
        Ok(command)
    }
}

/// The address and the port of a program's server.
fn address(program: Program) -> String {
    format!("10.1.1.1:{}", program.port().0)
}

fn serve_nginx(net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
    let (dir, home, tree) = (transfer.dir, transfer.dir.display(), transfer.tree.display());
    let config = dir.join("server.conf");
    let protocol = if transfer.program == Program::Http2 {
        make_certificate(dir)?;
        format!(
            "ssl http2; ssl_protocols TLSv1.3; ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem"
        )
    } else {
        "; autoindex on".to_owned()
    };
    let text = format!(
        "daemon off; master_process off; pid {home}/pid; error_log {home}/error.log;\n\
         events {{}}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; send_timeout 1h; keepalive_timeout 1h; \
         keepalive_requests 1000000;\n\
         client_body_temp_path {home}/body;\n\
         proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi;\n\
         scgi_temp_path {home}/scgi;\n\
         server {{ listen {} {protocol}; root {tree}; }} }}\n",
        address(transfer.program)
    );
    fs::write(&config, text)?;
    let mut command = net.on("server", "/usr/sbin/nginx");
    command.arg("-p").arg(dir).arg("-c").arg(&config);
    Ok(command)
}

/// Makes `cert.pem` and `key.pem` in a folder.
fn make_certificate(dir: &Path) -> Result<()> {
    let [key, cert] = ["key.pem", "cert.pem"].map(|name| dir.join(name));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    make.args(["-days", "2", "-subj", "/CN=bench", "-keyout"]).arg(key).arg("-out").arg(cert);
    quietly(&mut make).context("making a certificate for nginx")
}

fn curl(net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
    let mut text = String::new();
    for file in files(transfer.tree)? {
        let output = transfer.dir.join("copy").join(&file);
        let url = format!("https://{}/{file}", address(transfer.program));
        text += &format!("url = \"{url}\"\noutput = \"{}\"\n", output.display());
    }
    let config = transfer.dir.join("urls");
    fs::write(&config, text)?;
    let mut command = net.on("client", "curl");
    command.args(["--parallel", "--parallel-max", PARALLEL, "--http2", "--insecure"]);
    command.args(["--silent", "--show-error", "--fail", "--create-dirs", "--config"]).arg(config);
    Ok(command)
}

fn serve_rsync(net: &Net<'_>, transfer: &Transfer<'_>) -> Result<Command> {
    let (home, tree) = (transfer.dir.display(), transfer.tree.display());
    let config = transfer.dir.join("server.conf");
    let text = format!(
        "pid file = {home}/pid\nlog file = {home}/rsync.log\nuse chroot = no\nuid = 0\ngid = 0\n\
         [tree]\npath = {tree}\nread only = yes\n"
    );
    fs::write(&config, text)?;
    let mut command = net.on("server", "rsync");
    command.args(["--daemon", "--no-detach", "--address=10.1.1.1"]);
    command
        .arg(format!("--port={}", transfer.program.port().0))
        .arg(format!("--config={}", config.display()));
    Ok(command)
}

fn rsync(net: &Net<'_>, transfer: &Transfer<'_>) -> Command {
    let mut command = net.on("client", "rsync");
    command
        .args(["-a", &format!("rsync://{}/tree/", address(transfer.program))])
        .arg(transfer.dir.join("copy"));
    command
}

fn rclone(net: &Net<'_>, transfer: &Transfer<'_>) -> Command {
    let mut command = net.on("client", "rclone");
    command.args(["copy", "--transfers", RCLONE_TRANSFERS, "--checkers", RCLONE_TRANSFERS]);
    // Without HEAD for each file, and without a file of settings.
    command.args([
        "--config=",
        "--http-no-head",
        "--http-url",
        &format!("http://{}/", address(transfer.program)),
    ]);
    command.arg(":http:");
    command.arg(transfer.dir.join("copy"));
    command
}

/// Whether a table of /proc/net has a socket bound to this port (TCP: listening).
fn listens(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().any(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port)))
}

/// The names of all files in a folder, relative to it.
pub(super) fn files(folder: &Path) -> Result<Vec<String>> {
    let (mut names, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(
                    path.strip_prefix(folder)?.to_str().context("a plain tree has plain names")?.to_owned(),
                );
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Whether both folders hold the same files.
fn same(tree: &Path, copy: &Path) -> Result<bool> {
    for file in files(tree)? {
        let there = fs::read(copy.join(&file)).ok();
        if there != Some(fs::read(tree.join(&file))?) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_port_is_found_in_its_own_column() {
        let table = "  sl  local_address rem_address   st\n   0: 0101010A:26AB 00000000:0000 07\n";
        assert!(listens(table, 9899) && !listens(table, 0) && !listens(table, 8080));
    }
}
