//! A path failure does not stop a job while another path works: two wires between two network namespaces; one
//! is cut in the middle and restored, and then the other is cut. `cargo xtask proof --only path-cut` does the
//! same at length.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::path_support::{LIMIT, PROGRAM, Running, serve};
use braidftp_emu::wires::{Cut, End, Wire, Wires};

const FILES: usize = 150;
const FILE_BYTES: usize = 100_000;
/// With this rate the job takes 3 s over one wire.
const RATE: &str = "40mbit";

fn wires(wires: &[Wire]) -> Option<Wires> {
    match Wires::up(wires, Some(RATE)) {
        Ok(net) => Some(net),
        Err(error) => {
            eprintln!("LEFT OUT: {error}");
            None
        }
    }
}

fn content(file: usize) -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at * 7 + at / 251 + file * 13) as u8).collect()
}

fn a_job_survives(scheme: &str, between: [Wire; 2], cut: Cut) {
    let Some(net) = wires(&between) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (tree, copy) = (folder.path().join("tree"), folder.path().join("copy"));
    std::fs::create_dir(&tree).unwrap();
    for file in 0..FILES {
        std::fs::write(tree.join(file.to_string()), content(file)).unwrap();
    }
    let first = match between[0].server {
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    let url = format!("{scheme}://{first}/?addr={}", between[1].server);
    let (_server, key) = serve(&net, &tree, &url);
    let mut mirror = net.command(End::Client, PROGRAM);
    mirror.args(["mirror", &url]).arg(&copy).args(["-q", "--pin", &key]);
    for wire in between {
        mirror.args(["--path", &wire.client.to_string()]);
    }
    let mut client = Running::start(&mut mirror);
    let start = Instant::now();
    let until = |share: usize| {
        while count(&copy) < FILES * share / 100 {
            assert!(start.elapsed() < LIMIT, "{} of {FILES} files are there", count(&copy));
            sleep(Duration::from_millis(10));
        }
    };
    until(20);
    net.cut(0, cut).unwrap();
    until(45);
    net.mend(0, cut).unwrap();
    until(70);
    net.cut(1, cut).unwrap();
    let status = client.ended(|| format!("{} of {FILES} files are there", count(&copy)));
    assert!(status.success(), "{status}");
    for file in 0..FILES {
        assert!(std::fs::read(copy.join(file.to_string())).unwrap() == content(file), "file {file}");
    }
    assert_eq!(count(&copy), FILES);
}

/// The number of files in a folder, including temporary ones.
fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_silent_path_failure_over_udp_does_not_stop_the_job() {
    a_job_survives("ftp+sctp", [Wire::v4(1), Wire::v4(2)], Cut::Silent);
}

#[test]
fn an_interface_failure_over_ip_does_not_stop_the_job() {
    a_job_survives("ftp+sctp-ip", [Wire::v6(1), Wire::v4(2)], Cut::Down(End::Server));
}
