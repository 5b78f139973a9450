//! The rules that `tidy` checks, as data. ARCHITECTURE.md gives their reasons.

/// The allowed imports between crates. Any other import is an error.
pub(crate) const IMPORTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("cc", &["base"]),
    ("sctp", &["base", "cc"]),
    ("tcp", &["base", "cc"]),
    ("ftp", &["base"]),
    // The pcapng writer: both drivers and the simulator write pcapng files, and `net` may not import `sim`.
    ("pcap", &["base"]),
    // The qlog writer, for the same reason. It reads packets and statistics of the core.
    ("qlog", &["base", "sctp"]),
    // TLS for the DTLS chunk. rustls draws random numbers and reads the clock, so it is not pure.
    ("keys", &["base", "sctp"]),
    // A driver of the core that reads script files.
    ("pkt", &["base", "cc", "sctp"]),
    // `keys` is not pure, but protected associations use the key management of real transfers. Only the bytes
    // of ciphertexts differ from run to run, and no link looks at them.
    ("sim", &["base", "cc", "sctp", "tcp", "ftp", "pcap", "qlog", "keys"]),
    ("net", &["base", "cc", "sctp", "pcap", "qlog", "keys"]),
    ("emu", &["base", "sim", "pcap"]),
    // `emu` for `braidftp demo` only.
    ("braidftp", &["base", "ftp", "net", "emu", "pcap"]),
    // `net`: SCTP of live runs.
    ("lab", &["base", "cc", "sctp", "tcp", "ftp", "sim", "net", "emu", "pcap"]),
    // The C library: `net`, under other names.
    ("capi", &["net"]),
    // The Python package: types of other crates as Python classes.
    ("python", &["base", "cc", "ftp", "braidftp", "lab"]),
    // Runs programs.
    ("xtask", &[]),
];

/// Additional imports allowed in tests.
pub(crate) const IMPORTS_OF_TESTS: &[(&str, &[&str])] = &[
    // The same test body runs in the simulator and with the kernel, with links and wires between it and other
    // stacks.
    ("net", &["sim", "emu"]),
    ("braidftp", &["sctp", "sim"]),
    // Wires between it and usrsctp.
    ("capi", &["emu"]),
];

/// The pure crates: no clock, socket, thread, global or hash order.
pub(crate) const PURE: &[&str] = &["base", "cc", "sctp", "tcp", "ftp", "sim", "pcap", "qlog"];

/// Whether a crate is pure.
pub(crate) fn is_pure(name: &str) -> bool {
    PURE.contains(&name)
}

/// Words forbidden in the sources of pure crates outside comments, with reasons.
pub(crate) const IMPURE: &[(&str, &str)] = &[
    ("Instant", "time is an argument (base::Time)"),
    ("SystemTime", "time is an argument (base::Time)"),
    ("HashMap", "its order differs from run to run; use BTreeMap or a sorted table"),
    ("HashSet", "its order differs from run to run; use BTreeSet or a sorted table"),
    ("RandomState", "randomness comes from a seed"),
    ("UdpSocket", "datagrams come by handle and go by poll"),
    ("TcpStream", "bytes come by handle and go by poll"),
    ("TcpListener", "bytes come by handle and go by poll"),
    ("std::thread", "a state machine has no threads"),
    ("thread_local", "state belongs to a state machine, not to a thread"),
    ("static mut", "state belongs to a state machine"),
    ("std::fs", "only drivers access files"),
    ("std::env", "a state machine is configured by arguments"),
    ("std::process", "a state machine runs no programs"),
    ("tokio", "a state machine does not wait"),
];

/// Files with more lines are reported as candidates for splitting.
pub(crate) const LONG_FILE_LINES: usize = 900;

/// A group of modules of `sctp::association`.
pub(crate) struct Room {
    /// Its name.
    pub name: &'static str,
    /// Its modules, without their submodules.
    pub modules: &'static [&'static str],
    /// The other rooms that its modules may import.
    pub may_import: &'static [&'static str],
}

/// The rooms of `sctp::association`. Sending and paths know nothing of receiving.
pub(crate) const ROOMS: &[Room] = &[
    Room {
        name: "lifecycle",
        modules: &["check", "handshake", "memory", "settings", "shutdown", "state", "timers", "violation"],
        may_import: &["sending", "receiving", "paths", "extensions"],
    },
    Room {
        name: "sending",
        modules: &[
            "loss",
            "pacing",
            "permit",
            "reduction",
            "reordering",
            "scheduler",
            "send_order",
            "send_queue",
            "sent",
            "transmit",
            "undo",
        ],
        may_import: &["paths", "extensions", "lifecycle"],
    },
    Room {
        name: "receiving",
        modules: &["inbox", "reassembly", "receive", "receive_buffer", "received"],
        may_import: &["sending", "paths", "extensions", "lifecycle"],
    },
    Room {
        name: "paths",
        modules: &["expiry", "pairing", "path", "refused"],
        may_import: &["sending", "extensions", "lifecycle"],
    },
    Room {
        name: "extensions",
        modules: &[
            "asconf",
            "auth",
            "dtls",
            "ecn",
            "interleaved",
            "mtu_probes",
            "multipath",
            "partial",
            "pmtu",
            "port_unreachable",
            "reset",
        ],
        may_import: &["sending", "receiving", "paths", "lifecycle"],
    },
];

/// The modules that may import an extension of `sctp::association`, besides `association` itself.
pub(crate) const DOORS: &[(&str, &[&str])] = &[
    // The handshake negotiates it; the state is needed once it is active.
    ("asconf", &["handshake", "state"]),
    ("auth", &["handshake"]),
    ("dtls", &["handshake"]),
    ("ecn", &[]),
    // I-DATA replaces the reassembly of DATA.
    ("interleaved", &["reassembly"]),
    ("mtu_probes", &[]),
    // It selects paths, permits and couples: everywhere a path is chosen.
    ("multipath", &["expiry", "handshake", "loss", "pacing", "path", "receive", "state", "transmit"]),
    // Each message has a reliability, and each chunk has that of its message.
    ("partial", &["handshake", "receive", "send_queue", "sent", "state"]),
    ("pmtu", &["mtu_probes", "path"]),
    ("port_unreachable", &[]),
    ("reset", &["handshake", "receive", "shutdown", "state"]),
];
