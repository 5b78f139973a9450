//! `braidlab net` from the command line. Skipped with a message without root and /dev/net/tun.

use std::process::{Command, Output};

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).arg("net").args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_net_comes_up_carries_programs_and_leaves_nothing_behind() {
    let name = format!("t{}", std::process::id());
    let up = || lab(&["up", &name, "--path", "delay=1ms", "--path", "delay=2ms/delay=3ms,loss=0.1"]);
    let first = up();
    if !first.status.success() {
        eprintln!("SKIPPED: {}", said(&first));
        assert!(said(&first).contains("root") || said(&first).contains("TUN"), "{}", said(&first));
        return;
    }
    assert!(said(&first).contains("path 2: client 10.1.2.2"), "{}", said(&first));
    let second = up();
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second).contains("already exists"), "{}", said(&second));

    let addresses = lab(&["exec", &name, "client", "ip", "-br", "address"]);
    assert!(said(&addresses).contains("path1") && said(&addresses).contains("10.1.2.2/24"));
    assert!(said(&lab(&["show"])).contains(&name));
    assert!(said(&lab(&["show", &name])).contains(r#""config":"rate=unlimited,delay=3ms"#));

    // Programs that still run there end with the net.
    let mut left = Command::new(env!("CARGO_BIN_EXE_braidlab"))
        .args(["net", "exec", &name, "server", "sleep", "1000"])
        .spawn()
        .unwrap();
    // The same process executes `ip` and then `sleep`.
    while std::fs::read_to_string(format!("/proc/{}/comm", left.id())).unwrap() != "sleep\n" {
        assert!(left.try_wait().unwrap().is_none(), "it ended at once");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let down = lab(&["down", &name]);
    assert!(down.status.success(), "{}", said(&down));
    assert!(!left.wait().unwrap().success());
    assert!(!std::path::Path::new(&format!("/run/netns/{name}-client")).exists());
    assert!(!std::path::Path::new(&format!("/run/braidlab/{name}")).exists());
    let again = lab(&["down", &name]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("is up ("), "{}", said(&again));
}

#[test]
fn a_net_whose_links_were_killed_is_reported_and_can_be_removed() {
    let name = format!("k{}", std::process::id());
    let up = || lab(&["up", &name, "--path", "delay=1ms"]);
    let first = up();
    if !first.status.success() {
        eprintln!("SKIPPED: {}", said(&first));
        return;
    }
    let state = std::fs::read_to_string(format!("/run/braidlab/{name}/state")).unwrap();
    let process: serde_json::Value = serde_json::from_str(&state).unwrap();
    let process = process["process"].to_string();
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    while std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let second = up();
    assert!(said(&second).contains("left over from a crashed run"), "{}", said(&second));
    let down = lab(&["down", &name]);
    assert!(down.status.success(), "{}", said(&down));
    assert!(up().status.success());
    assert!(lab(&["down", &name]).status.success());
}

#[test]
fn errors_are_reported_with_a_hint() {
    for (words, wanted) in [
        (&["up", "A", "--path", "delay=1ms"][..], "a to z"),
        (&["up", "a", "--path", "speed=1"], "a link has no property `speed`"),
        (&["up", "a"], "--path"),
        (&["exec", "nosuchnet", "client", "true"], "no net nosuchnet is up"),
        (&["exec", "nosuchnet", "router", "true"], "client, server"),
        (&["down", "nosuchnet"], "no net nosuchnet is up"),
    ] {
        let output = lab(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(said(&output).contains(wanted), "{words:?}: {}", said(&output));
    }
}
