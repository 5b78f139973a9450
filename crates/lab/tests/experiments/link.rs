//! `braidlab link` from the command line.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn braidlab(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_braidlab"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn fails(args: &[&str]) -> (i32, String) {
    let output = braidlab(args).wait_with_output().unwrap();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn it_relays_until_a_signal_and_then_prints_counters() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let to = server.local_addr().unwrap().to_string();
    let mut child = braidlab(&[
        "link",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
        "--rate",
        "3mbit",
        "--delay",
        "1ms",
        "--queue",
        "100p",
        "--seed",
        "7",
        "--forward",
        "lose=1",
        "--back",
        "loss=3%",
    ]);
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let listen = line.split("listens on ").nth(1).unwrap().split(',').next().unwrap();

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..3 {
        client.send_to(&[number; 500], listen).unwrap();
    }
    let mut buffer = [0; 600];
    for expected in [0, 2] {
        assert_eq!(server.recv(&mut buffer).unwrap(), 500);
        assert_eq!(buffer[0], expected);
    }
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut stdout = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut stdout).unwrap();
    assert!(child.wait().unwrap().success());

    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["seed"], 7);
    assert_eq!(report["forward"]["config"], "rate=3mbit,delay=1ms,queue=100p,lose=1");
    assert_eq!(report["back"]["config"], "rate=3mbit,delay=1ms,queue=100p,loss=0.03");
    assert_eq!(report["forward"]["in"], 3);
    assert_eq!(report["forward"]["out"], 2);
    assert_eq!(report["forward"]["dropped_loss"], 1);
    assert_eq!(report["forward"]["bytes_out"], 2 * 528);
    assert_eq!(report["clients"], 1);
}

#[test]
fn it_stops_after_the_given_time() {
    let output = braidlab(&["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--for", "0.01"]);
    let output = output.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "one object on one line");
}

#[test]
fn a_wrong_command_line_exits_with_1_and_says_what_is_valid() {
    let base = ["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    for (more, said) in [
        (&["--rate", "3furlongs"][..], "--rate: `3furlongs` is not a rate: write a number and bit, kbit"),
        (&["--delay", "5"], "--delay: `5` is not a delay"),
        (&["--loss", "7"], "--loss: `7` is not a probability"),
        (&["--queue", "100"], "--queue: `100` is not a queue"),
        (&["--back", "speed=1"], "--back: a link has no property `speed`; there are rate"),
        (&["--for", "-1"], "--for"),
        (&["--loss", "0.1", "--burst-loss", "0.1,0.1"], "cannot be used with"),
        (&["--colour", "red"], "unexpected argument"),
    ] {
        let (code, stderr) = fails(&[&base[..], more].concat());
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
    let (code, stderr) = fails(&["link", "--listen", "7000", "--to", "127.0.0.1:9"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("write HOST:PORT"), "{stderr}");
    assert_eq!(fails(&[]).0, 1);
}

#[test]
fn a_port_in_use_exits_with_2_and_a_bad_capture_file_with_6() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stderr) = fails(&["link", "--listen", &address, "--to", "127.0.0.1:9"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("another program has that port"), "{stderr}");
    let args =
        ["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--pcap", "/no/such/folder/x.pcapng"];
    assert_eq!(fails(&args).0, 6);
}
