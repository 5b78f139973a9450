//! Runs the packet scripts with the program `pkt`, and checks that altered scripts fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All scripts, by name.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let inside = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = inside(folder).filter(|path| path.is_dir()).flat_map(inside).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "pkt"));
    scripts.sort();
    scripts
}

/// The output of `pkt --strict` for `scripts`.
fn pkt(scripts: &[PathBuf]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pkt")).arg("--strict").args(scripts).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Writes `texts` as scripts into a folder of their own.
fn written(folder: &str, texts: &[String]) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).unwrap();
    let paths = (0..texts.len()).map(|index| folder.join(format!("{index}.pkt"))).collect::<Vec<_>>();
    for (path, text) in paths.iter().zip(texts) {
        fs::write(path, text).unwrap();
    }
    paths
}

/// Asserts that none of `texts` passes.
fn none_passes(folder: &str, texts: &[String]) {
    let said = pkt(&written(folder, texts));
    let passed: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_suffix(": pass"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert!(passed.is_empty(), "{} of {} pass; the first:\n{}", passed.len(), texts.len(), passed[0]);
}

/// For each script and each line that expects a packet: the script with that line replaced by each of
/// `alter`'s results.
fn altered(alter: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut texts = Vec::new();
    for script in scripts() {
        let text = fs::read_to_string(script).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| expects_a_packet(line)) {
            for altered in alter(line) {
                let mut lines = lines.clone();
                lines[index] = &altered;
                texts.push(lines.join("\n"));
            }
        }
    }
    assert!(!texts.is_empty());
    texts
}

/// Whether the line expects a packet from the stack.
fn expects_a_packet(line: &str) -> bool {
    line.contains("sctp") && line.split_once(" > ").is_some_and(|(time, _)| !time.trim().contains(' '))
}

#[test]
fn every_script_passes() {
    let scripts = scripts();
    assert!(scripts.len() >= 80);
    let said = pkt(&scripts);
    let count = scripts.len();
    assert!(said.ends_with(&format!("{count} scripts: {count} pass, 0 fail, 0 not supported\n")), "{said}");
}

#[test]
fn a_script_that_expects_each_packet_twice_fails() {
    none_passes(
        "twice",
        &altered(|line| vec![format!("{line}\n+0.0 > {}", line.split(" > ").nth(1).unwrap())]),
    );
}

#[test]
fn a_script_that_expects_each_packet_a_second_later_fails() {
    none_passes(
        "later",
        &altered(|line| match line.strip_prefix("+0.0 ") {
            Some(rest) => vec![format!("+1.0 {rest}")],
            None => Vec::new(),
        }),
    );
}

#[test]
fn a_script_with_a_changed_number_fails() {
    none_passes(
        "number",
        &altered(|line| {
            // The script may choose any number for the stack's tag and first TSN.
            let free = |key: &str| line.contains("INIT") && matches!(key, "tag" | "tsn");
            let mut texts = Vec::new();
            for (at, _) in line.match_indices('=') {
                let digits = line[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
                let behind = line[at + 1 + digits..].bytes().next();
                let key = line[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap();
                if digits == 0 || !matches!(behind, Some(b',' | b']' | b')')) || free(key) {
                    continue;
                }
                let number: u64 = line[at + 1..at + 1 + digits].parse().unwrap();
                texts.push(format!("{}={}{}", &line[..at], number ^ 4, &line[at + 1 + digits..]));
            }
            texts
        }),
    );
}

#[test]
fn a_script_fails_with_changed_settings_or_icmp_messages() {
    let changes = [
        ("nr-sack/sysctl.pkt", "nr_sack_on_off=1", "nr_sack_on_off=0"),
        ("rfc8899/4.6-packet-too-big.pkt", "plpmtud_enable=1", "plpmtud_enable=0"),
        ("rfc8899/4.6-packet-too-big.pkt", "min_mtu=576", "min_mtu=1250"),
        ("rfc8899/4.6-packet-too-big.pkt", "mtu 1320 [sctp(3)]", "mtu 1320 [sctp(2)]"),
        ("rfc8899/4.6-packet-too-big.pkt", "host_unreachable", "frag_needed mtu 1290"),
        ("rfc8899/4.6-packet-too-big.pkt", "frag_needed mtu 1300 [sctp(2)]", "host_unreachable [sctp(2)]"),
        ("rfc8899/4.6-packet-too-big.pkt", "mtu 1240", "mtu 1260"),
        ("rfc8899/4.6-packet-too-big-ipv6.pkt", "--ip_version=ipv6", "--ip_version=ipv4"),
        ("rfc8899/4.6-packet-too-big-ipv6.pkt", "ipv6_min_mtu=1280", "ipv6_min_mtu=1300"),
        ("rfc8899/4.6-packet-too-big-ipv6.pkt", "mtu 1279", "mtu 1308"),
        ("rfc8899/4.6-packet-too-big-ipv6.pkt", "mtu 1300", "mtu 1304"),
        ("rfc8899/4.6-packet-too-big-unused.pkt", "use_ptb=0", "use_ptb=1"),
        ("rfc8899/4.6-packet-too-big-unused.pkt", "raise_time=5000", "raise_time=6000"),
        ("rfc8899/5.3-search-by-steps.pkt", "algorithm=1", "algorithm=2"),
        ("rfc8899/5.3-search-largest-ipv6.pkt", "algorithm=2", "algorithm=1"),
        ("rfc9260/10-icmp.pkt", "port_unreachable", "protocol_unreachable"),
        ("rfc9260/10-icmp.pkt", "protocol_unreachable [sctp(1)]", "protocol_unreachable [sctp(2)]"),
        ("rfc9260/10-icmp.pkt", "protocol_unreachable [sctp(0)]", "protocol_unreachable [sctp(2)]"),
        ("rfc9260/10-icmp.pkt", "protocol_unreachable [sctp(2)]", "net_unreachable [sctp(2)]"),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let texts = changes.map(|(script, from, to)| {
        let text = fs::read_to_string(folder.join(script)).unwrap();
        assert!(text.contains(from), "{script} has no {from}");
        text.replace(from, to)
    });
    none_passes("settings", &texts);
}

#[test]
fn an_unsupported_script_neither_passes_nor_fails() {
    let texts = [
        "+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
        "+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3\n+0 setsockopt(3, IPPROTO_SCTP, SCTP_NO_SUCH, [1], 4) = 0",
        "+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3\n+0 ioctl(3, 1, 2) = 0",
        "+0 < icmp unreachable frag_needed mtu 1200 [udp(100)]",
        "+0 < icmp router_advertisement mtu 1492 [sctp(1)]",
        "+0 `sysctl -w net.inet.sctp.plpmtud_max_probes=4`",
        "+0 < S 0:0(0) win 1000",
        "+0 `rm -rf x`",
        "+0 `sysctl -w net.inet.sctp.no_such_setting=1`",
        "--wire_server\n+0 close(3) = 0",
    ];
    let said = pkt(&written("unsupported", &texts.map(str::to_owned)));
    let count = said.lines().filter(|line| line.contains(": not supported: ")).count();
    assert_eq!(count, texts.len(), "{said}");
    assert!(said.contains(": the option SCTP_NO_SUCH"), "{said}");
    assert!(said.contains(": the call ioctl"), "{said}");
    assert!(said.contains(": an ICMP message (unreachable) that quotes no SCTP packet"), "{said}");
}

#[test]
fn a_failure_names_the_line_and_the_difference() {
    let text = "+0 socket(..., SOCK_SEQPACKET, IPPROTO_SCTP) = 3\n+0 sctp_sendmsg(3, ..., 1, ..., ..., 0, 0, 0, 0, 0) = 1\n\
                +0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=7, is=..., tsn=1, ...]";
    let said = pkt(&written("failure", &[text.to_owned()]));
    assert!(said.contains("0.pkt:3: fail: os: expected 7, got 10\n"), "{said}");
    assert!(said.contains("expected  +0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=7,"), "{said}");
    assert!(said.contains("got       0.000000 > sctp: INIT[flgs=0, tag=1, a_rwnd=1048576, os=10,"), "{said}");
}
