//! The rules of the house as data. ARCHITECTURE.md gives their reasons.

/// Who may import whom. An edge that is not listed does not exist.
pub(super) const IMPORTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("cc", &["base"]),
    ("sctp", &["base", "cc"]),
    ("tcp", &["base", "cc"]),
    ("ftp", &["base"]),
    // The pcapng writer: both drivers and the simulator write such files, and `net` may not import `sim`.
    ("pcap", &["base"]),
    // TLS for the DTLS chunk. rustls draws random numbers and asks for the time of day: it is not pure.
    ("keys", &["base", "sctp"]),
    ("sim", &["base", "cc", "sctp", "tcp", "ftp", "pcap"]),
    ("net", &["base", "cc", "sctp", "pcap", "keys"]),
    ("emu", &["base", "sim", "pcap"]),
    // `emu` for `braidftp demo` alone.
    ("braidftp", &["base", "ftp", "net", "emu", "pcap"]),
    ("lab", &["base", "cc", "sctp", "tcp", "ftp", "sim", "emu", "pcap"]),
    // It runs programs.
    ("xtask", &[]),
];

/// What tests may import beyond that.
pub(super) const IMPORTS_OF_TESTS: &[(&str, &[&str])] = &[
    // One body, run in the simulator and over the kernel; links and wires between it and other stacks.
    ("net", &["sim", "emu"]),
    ("braidftp", &["sctp", "sim"]),
];

/// The crates without clock, socket, thread, global or hash order.
pub(super) const PURE: &[&str] = &["base", "cc", "sctp", "tcp", "ftp", "sim", "pcap"];

/// Words that the sources of a pure crate do not hold, outside comments, and why.
pub(super) const IMPURE: &[(&str, &str)] = &[
    ("Instant", "time is an argument (base::Time)"),
    ("SystemTime", "time is an argument (base::Time)"),
    ("HashMap", "its order differs from run to run; BTreeMap or a table of your own"),
    ("HashSet", "its order differs from run to run; BTreeSet or a table of your own"),
    ("RandomState", "randomness comes from a seed"),
    ("UdpSocket", "datagrams come by handle and go by poll"),
    ("TcpStream", "bytes come by handle and go by poll"),
    ("TcpListener", "bytes come by handle and go by poll"),
    ("std::thread", "a machine has no threads"),
    ("thread_local", "state belongs to a machine, not to a thread"),
    ("static mut", "state belongs to a machine"),
    ("std::fs", "files are the drivers'"),
    ("std::env", "what steers a machine is in its arguments"),
    ("std::process", "a machine does not run programs"),
    ("tokio", "a machine waits for nothing"),
];

/// Lines above which a file is named, as one that wants a joint.
pub(super) const LONG_FILE_LINES: usize = 900;
