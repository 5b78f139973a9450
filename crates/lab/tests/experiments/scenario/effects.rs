//! Scenarios that cannot end, or in which something has no effect, are refused before anything runs.

use braidftp_lab::scenario;

use super::edited;

/// A valid scenario with two links and one flow that lasts 5 s, with texts replaced.
fn flow(replaced: &[(&str, &str)]) -> Result<scenario::Scenario, String> {
    let text = r#"
title = "t"
hosts = ["client", "server"]
lasts = "5 s"

[links.near]
rate = "10 Mbit/s"
delay = "10 ms"

[links.far]
delay = "$delay"

[[path]]
via = ["near", "far"]

[transports.one]
protocol = "sctp"

[[workload]]
kind = "bulk"
transport = "one"

[[axis]]
name = "delay"
values = ["1 ms", "2 ms"]

[[event]]
at = "1 s"
link = "near"
set = { rate = "5 Mbit/s" }
"#;
    scenario::parse("my", &edited(text, replaced)).map_err(|error| error.to_string())
}

/// Notes what is said of a scenario that is not refused with these words.
fn refused(replaced: &[(&str, &str)], said: &str, others: &mut Vec<String>) {
    match flow(replaced) {
        Err(error) if error.contains(said) => {}
        Err(error) => others.push(format!("{said}: {error}")),
        Ok(_) => others.push(format!("{said}: accepted")),
    }
}

#[test]
fn what_never_happens_in_a_run_is_refused() {
    assert!(flow(&[]).is_ok());
    let (bulk, lasts, near) = ("kind = \"bulk\"", "lasts = \"5 s\"", "rate = \"10 Mbit/s\"");
    let requests = (bulk, "kind = \"requests\"\ncount = 5");
    let mut others = Vec::new();
    for (replaced, said) in [
        (&[("\"far\"]", "\"far\", \"near\"]")][..], "my.toml:14:23: link `near` is in this path twice"),
        (&[("\"server\"]", "\"client\"]")], "my.toml:3:20: there is another host `client`"),
        (
            &[("at = \"1 s\"", "at = \"5 s\"")],
            "my.toml:28:6: this event changes nothing: the run ends at 5 s",
        ),
        (
            &[(lasts, "runs = 1"), requests, ("at = \"1 s\"", "at = \"1000 h\"")],
            "my.toml:29:6: this event changes nothing: a run lasts 30 days at most",
        ),
        (
            &[(bulk, "kind = \"bulk\"\nstarts = \"6 s\"")],
            "my.toml:21:10: this workload never begins: the run ends at 5 s",
        ),
        (
            &[requests, ("count = 5", "count = 5\nstarts = \"6 s\"")],
            "my.toml:22:10: this workload never begins",
        ),
        (
            &[(bulk, "kind = \"arrivals\"\nlist = [{ at = \"7 s\", size = \"1 kB\" }]")],
            "my.toml:21:8: this workload never begins",
        ),
        (
            &[(bulk, "kind = \"web\"\nevery = \"1 s\"\nstarts = \"3 s\"\nends = \"2 s\"")],
            "my.toml:23:8: it ends before it begins",
        ),
        (
            &[(near, "rate = \"10 Mbit/s\"\ndown = [[\"1 s\", \"2 s\"], [\"6 s\", \"7 s\"]]")],
            "my.toml:8:25: this cut changes nothing: the run ends at 5 s",
        ),
        (
            &[(near, "rate = \"10 Mbit/s\"\nback = { down = [[\"6 s\", \"7 s\"]] }")],
            "my.toml:8:18: this cut changes nothing",
        ),
        (&[(lasts, "lasts = \"5 s\"\nquick = \"delay > 2 ms\"")], "my.toml:5:9: no point fulfils `quick`"),
        (
            &[(lasts, "lasts = \"5 s\"\nexpect = [\"goodput > 1 kbit/s at delay > 2 ms\"]")],
            "my.toml:5:11: no point fulfils the condition of this claim",
        ),
        (
            &[("[[event]]", "[plot]\nx = \"delay\"\nby = \"delay\"\n[[event]]")],
            "my.toml:29:6: `by` and `x` are the same axis",
        ),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
}

/// Runs of 5 s and of 9 s.
const LASTS: (&str, &str) = ("lasts = \"5 s\"", "lasts = \"$a\"");
const TWICE: (&str, &str) = ("[[axis]]", "[[axis]]\nname = \"a\"\nvalues = [\"5 s\", \"9 s\"]\n\n[[axis]]");

#[test]
fn what_no_workload_uses_is_refused() {
    let via = "via = [\"near\", \"far\"]";
    let apart = (via, "via = [\"near\"]\n\n[[path]]\nvia = [\"far\"]");
    let more = (via, "name = \"a\"\nvia = [\"near\", \"far\"]\n\n[[path]]\nname = \"b\"\nvia = [\"far\"]");
    let only = |path| ("transport = \"one\"", path);
    let tcp = ("protocol = \"sctp\"", "protocol = \"tcp\"");
    let mut others = Vec::new();
    for (replaced, said) in [
        (&[(via, "via = [\"near\"]")][..], "my.toml:10:8: link `far` is in no path: name it in the `via`"),
        (
            &[apart, only("transport = \"one\"\npaths = [\"near\"]")],
            "my.toml:10:8: no workload uses a path over link `far`",
        ),
        (&[apart, tcp], "my.toml:10:8: no workload uses a path over link `far`"),
        (&[more, only("transport = \"one\"\npaths = [\"a\"]")], "my.toml:17:1: no workload uses path `b`"),
        (&[more, tcp], "my.toml:17:1: nothing is sent on path `b`: TCP uses the first path of a workload"),
        (
            &[("[[workload]]", "[transports.two]\nprotocol = \"tcp\"\n\n[[workload]]")],
            "my.toml:19:13: no workload uses transport `two`",
        ),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
    // An axis may choose. Here each path is used at a point; the event changes its link or the other one.
    let chosen = |values: &str| {
        let axis = format!("[[axis]]\nname = \"use\"\nvalues = [{values}]\n\n[[axis]]");
        let event = ("link = \"near\"", "link = \"$use.link\"");
        flow(&[apart, only("transport = \"one\"\npaths = \"$use.path\""), event, ("[[axis]]", &axis)])
    };
    let same = "{ name = \"x\", path = [\"near\"], link = \"near\" }, { name = \"y\", path = [\"far\"], link = \"far\" }";
    assert!(chosen(same).is_ok());
    let crossed = "{ name = \"x\", path = [\"near\"], link = \"far\" }, { name = \"y\", path = [\"far\"], link = \"near\" }";
    let said = "my.toml:29:49: this event changes nothing: no workload uses a path over link `far`";
    assert!(chosen(crossed).is_err_and(|error| error.contains(said)), "{:?}", chosen(crossed).err());
}

#[test]
fn what_happens_after_the_end_of_every_run_is_refused() {
    let near = "rate = \"10 Mbit/s\"";
    let steps = (near, r#"rate = [{ rate = "10 Mbit/s" }, { rate = "5 Mbit/s", from = "7 s" }]"#);
    let back = (near, r#"back = { rate = [{ rate = "10 Mbit/s" }, { rate = "5 Mbit/s", from = "7 s" }] }"#);
    let set = "set = { rate = \"5 Mbit/s\" }";
    let (cut, later) = (
        (set, "set = { down = [[\"7 s\", \"8 s\"]] }"),
        (set, r#"set = { rate = [{ rate = "1 Mbit/s" }, { rate = "5 Mbit/s", from = "7 s" }] }"#),
    );
    let mut others = Vec::new();
    for (replaced, said) in [
        (&[steps][..], "my.toml:7:61: this rate changes nothing: the run ends at 5 s"),
        (&[back], "my.toml:7:70: this rate changes nothing: the run ends at 5 s"),
        (&[later], "my.toml:30:68: this rate changes nothing: the run ends at 5 s"),
        (&[cut], "my.toml:30:17: this cut changes nothing: the run ends at 5 s"),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
    // The longer run has them.
    for late in [steps, back, later, cut, ("at = \"1 s\"", "at = \"7 s\"")] {
        assert!(flow(&[late, LASTS, TWICE]).is_ok(), "{late:?}: {:?}", flow(&[late, LASTS, TWICE]).err());
    }
}

#[test]
fn runs_without_end_are_refused() {
    let (bulk, lasts, near) = ("kind = \"bulk\"", "lasts = \"5 s\"", "rate = \"10 Mbit/s\"");
    let event = "\n[[event]]\nat = \"1 s\"\nlink = \"near\"\nset = { rate = \"5 Mbit/s\" }\n";
    let requests = (bulk, "kind = \"requests\"\ncount = 5");
    let free = ("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n", "");
    let (no_event, still) = ((event, ""), ("\"1 ms\", ", "\"0 ms\", "));
    let mut others = Vec::new();
    for (replaced, said) in [
        (
            &[free, no_event, still][..],
            "my.toml:17:1: a run of this scenario cannot end: packets of bulk flows take no time over path `near`",
        ),
        (
            &[(lasts, "lasts = \"5 s\"\nsample-every = \"100 us\""), ("\"5 s\"", "\"1 h\"")],
            "my.toml:5:16: there are 10000000 samples at most",
        ),
        (
            &[("\"5 s\"", "\"700 h\""), ("\"10 Mbit/s\"", "\"100 Gbit/s\"")],
            "my.toml:20:8: this would be about 21000000 million packets, and 10000 million are possible",
        ),
        (
            &[(
                "protocol = \"sctp\"",
                "protocol = \"sctp\"\nrto-max = \"0 s\"\nrto-min = \"0 s\"\nrto-initial = \"0 s\"",
            )],
            "my.toml:20:15: `rto-initial` and `rto-max` are 1 ms at least",
        ),
        (
            &[(lasts, "runs = 1"), requests, (near, "burst-loss = { to-bad = 1, to-good = 0 }"), no_event],
            "my.toml:19:1: a run of this scenario cannot end: link `near` loses every packet in its bad state",
        ),
        (
            &[(lasts, "runs = 1"), requests, (near, "down = [[\"0 s\", \"1000 h\"]]"), no_event],
            "my.toml:19:1: a run of this scenario cannot end: link `near` is cut from the beginning to the end",
        ),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
    // With a window that a round trip limits, time passes.
    assert!(flow(&[(near, ""), no_event]).is_ok());
}

#[test]
fn a_scenario_that_cannot_end_is_refused_before_it_runs() {
    let base = |link: &str, files: &str| {
        format!(
            "title = \"t\"\n[links.l]\n{link}\n[transports.s]\nprotocol = \"sctp\"\npacket = \"1480 B\"\n\
             [[workload]]\nkind = \"ftp\"\nmode = \"braid\"\ntransport = \"s\"\nfiles = [\"{files}\"]\n"
        )
    };
    assert!(scenario::parse("my", &base("rate = \"1 Mbit/s\"", "1 MB")).is_ok());
    for (link, files, said) in [
        ("loss = 1", "1 MB", "cannot end: link `l` loses every packet"),
        ("back = { loss = 1 }", "1 MB", "cannot end: link `l` loses every packet"),
        ("corrupt = 1", "1 MB", "cannot end: link `l` corrupts every packet"),
        (
            "mtu = \"1000 B\"",
            "1 MB",
            "those of this transport are up to 1500 bytes with the link's `overhead`: give a larger `mtu`, or the transport a smaller `packet`",
        ),
        ("rate = \"1 kbit/s\"", "1 GB", "this would take 93 days at the rate of its links"),
        ("flap = { period = \"1 s\", down = \"1 s\" }", "1 MB", "a cut is shorter than its period"),
    ] {
        let error = scenario::parse("my", &base(link, files)).expect_err(link).to_string();
        assert!(error.contains(said), "{link}: {error}");
    }
}

#[test]
fn an_mtu_below_the_shortest_packets_of_discovery_is_refused_and_the_shortest_one_carries_data() {
    let text = |mtu: &str, more: &str| {
        format!(
            "title = \"t\"\nlasts = \"60 s\"\nmeasure-from = \"30 s\"\n[links.l]\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\n\
             mtu = \"{mtu}\"\n[transports.s]\nprotocol = \"sctp\"\n[[workload]]\nkind = \"bulk\"\ntransport = \"s\"\n{more}"
        )
    };
    let said = "my.toml:10:1: no packet of this workload arrives: link `l` drops packets that are longer than its `mtu`, and \
                those of this transport become no shorter than 532 bytes with the link's `overhead`: give a larger `mtu`";
    // An event that leaves the MTU as it is changes nothing about this.
    let slower = "[[event]]\nat = \"1 s\"\nlink = \"l\"\nset = { rate = \"2 Mbit/s\" }\n";
    for (mtu, more) in [("500 B", ""), ("531 B", ""), ("500 B", slower)] {
        let error = scenario::parse("my", &text(mtu, more)).expect_err(mtu).to_string();
        assert!(error.contains(said), "{mtu}: {error}");
    }
    let larger = "[[event]]\nat = \"1 s\"\nlink = \"l\"\nset = { mtu = \"1000 B\" }\n";
    assert!(scenario::parse("my", &text("500 B", larger)).is_ok());
    for mtu in ["532 B", "576 B", "1000 B"] {
        let scenario = scenario::parse("my", &text(mtu, "")).unwrap_or_else(|error| panic!("{error}"));
        let sweep = scenario.figure.sweep().unwrap();
        let goodput = (sweep.run)(&sweep.points()[0], 1).0[0];
        assert!(goodput > 0.8e6, "{mtu}: {goodput} bit/s");
    }
}
