//! The output of `braidftp serve --check`.

use super::*;

#[test]
fn check_prints_the_effective_limits_and_problems() {
    let (folder, room) = (Folder::new(), Room::new());
    let dir = folder.path("");
    let serve = |more: &[&str]| {
        let mut command: Command = client_support::braidftp(&room.home());
        command.args(["serve", dir.to_str().unwrap(), "--check"]).args(more);
        client_support::run(&mut command)
    };
    let here = ["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"];
    let (code, out, err) = serve(&here);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for words in [
        "user anonymous: read, list in .",
        "can listen: ftp://127.0.0.1:",
        "sessions at once: 200 [max-sessions]",
        "limits of the client",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    // Every row is printed.
    assert!(Row::ALL.iter().all(|row| out.contains(row.entry().what)), "{out}");

    let config = room.path("serve.toml");
    // Uploads to an object store have memory of their own.
    std::fs::write(&config, "max-sessions = 10000000").unwrap();
    let memory = |place: &str| {
        let mut command: Command = client_support::braidftp(&room.home());
        command.args(["serve", place, "--check", "--config", config.to_str().unwrap()]).args(here);
        let (_, _, err) = client_support::run(&mut command);
        let words = err.split(" sessions may take ").nth(1).unwrap_or_else(|| panic!("{err}"));
        words.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let bucket = memory("s3://box?endpoint=http://127.0.0.1:1&region=x&access_key_id=k&secret_access_key=s");
    let uploads = limit(Row::BucketUploads, &quick()) >> 20;
    assert!(memory(dir.to_str().unwrap()).abs_diff(bucket - uploads) <= 1, "{bucket}");
    let with = |text: &str| {
        std::fs::write(&config, text).unwrap();
        serve(&[&here[..], &["--config", config.to_str().unwrap()]].concat())
    };
    for (text, code, words) in [
        ("max-sessions = 0", 1, "nobody could log in"),
        ("max-sessions = 10", 1, "one address could take all"),
        ("max-sessions = 10000000", 1, "lower max-sessions"),
        ("passive-ports = '50000-50009'", 1, "has 10 ports"),
        ("stall-seconds = 0", 1, "every session would end at once"),
        ("users = '/nowhere'", 1, "/nowhere"),
        ("max-session = 1", 1, "max-session"),
    ] {
        let (found, _, err) = with(text);
        assert!(found == code && err.contains(words), "{text}: {found}: {err}");
    }
    // Two problems are reported by two sentences.
    let (_, _, err) = with("max-sessions = 10\nstall-seconds = 0\n");
    assert_eq!(err.lines().filter(|line| line.starts_with("braidftp: ")).count(), 2, "{err}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, _, err) = serve(&["--listen", &format!("ftp://{}", taken.local_addr().unwrap())]);
    assert!(code == 2 && err.contains("another program has TCP port"), "{code}: {err}");

    let users = room.path("users.toml");
    let hash = cheap_hash(b"x");
    std::fs::write(&users, format!("[[user]]\nname = 'anna'\nhash = '{hash}'\nhome = 'gone'\n")).unwrap();
    let (code, _, err) = serve(&[&here[..], &["--users", users.to_str().unwrap()]].concat());
    assert!(code == 6 && err.contains("the home of user anna"), "{code}: {err}");
}
