//! Commands about the server and the session: FEAT, OPTS (RFC 2389), STAT and HELP.

use super::early::{Early, no, ok};
use crate::hash::HashName;
use crate::listing::FactSet;
use crate::reply::{Code, Reply};
use crate::server::begun::Begun;
use crate::server::session::Session;
use crate::server::state::{Channel, Login};
use crate::server::{Active, Carrier};

impl Session {
    /// OPTS: UTF8, MLST and HASH.
    pub(super) fn begin_options(&mut self, text: &[u8]) -> Early<Begun> {
        let upper = text.to_ascii_uppercase();
        match upper.as_slice() {
            b"UTF8" | b"UTF8 ON" | b"UTF-8" | b"UTF-8 ON" => ok("names are UTF-8 where they are text"),
            upper if upper == b"MLST" || upper.starts_with(b"MLST ") => {
                //= specs/rfc3659.txt#section-7.9
                //# Facts not included in the "OPTS MLST" command MUST NOT be returned by the server.
                self.state.facts = FactSet::named(upper[b"MLST".len()..].trim_ascii());
                ok(self.state.facts.options())
            }
            b"HASH" => ok(self.state.hash.name()),
            upper if upper.starts_with(b"HASH ") => {
                let name = String::from_utf8_lossy(&upper[b"HASH ".len()..]).parse();
                let Ok(hash) = name else {
                    return no(
                        Code::BAD_PARAMETER,
                        format!("unknown hash function; available: {}", self.hashes()),
                    );
                };
                self.state.hash = hash;
                ok(hash.name())
            }
            _ => no(Code::BAD_PARAMETER, "no such option"),
        }
    }

    /// The reply to STAT.
    pub(in crate::server) fn status(&self) -> Reply {
        let user = match &self.state.login {
            Login::In(user) => [b"logged in as ", &user[..]].concat(),
            Login::Nobody | Login::Named(_) | Login::Shown(_) => b"not logged in".to_vec(),
        };
        let carrier = match self.carrier {
            Carrier::Tcp { .. } if self.channel == Channel::Tls => "TCP, protected by TLS",
            Carrier::Tcp { .. } => "TCP",
            Carrier::Naive => "SCTP, naive",
            Carrier::Ms => "SCTP, ms",
            Carrier::Braid { .. } => "SCTP, braid",
        };
        let running = format!("transfers under way: {}", self.transfers_running());
        Reply::multi(Code::SYSTEM_STATUS, "status:", [carrier.as_bytes(), &user, running.as_bytes()], "End")
    }

    /// The reply to FEAT (RFC 2389).
    pub(super) fn features(&self) -> Reply {
        let mut lines: Vec<String> = Vec::new();
        let mut add = |line: &str| lines.push(line.into());
        //= specs/rfc4217.txt#section-6
        //# If a server supports the FEAT command, then it MUST advertise supported AUTH, PBSZ, and PROT commands in the reply,
        //# as described in section 3.2 of [RFC-2389].
        if self.offers_tls() {
            add("AUTH TLS");
        }
        add("CLNT");
        if matches!(self.carrier, Carrier::Naive)
            || (matches!(self.carrier, Carrier::Tcp { .. }) && self.config.active == Active::ToPeer)
        {
            add("EPRT");
        }
        if matches!(self.carrier, Carrier::Tcp { .. }) {
            add("EPSV");
        }
        add(&format!("HASH {}", self.hashes()));
        for line in ["HOST", "LANG EN*", "MDTM", "MFMT", &self.state.facts.feature()] {
            add(line);
        }
        //= specs/rfc3659.txt#section-5.4
        //# it MUST include, in the response to the FEAT command [6], a line containing exactly the string "REST STREAM".
        if self.offers_tls() {
            add("PBSZ");
            add("PROT");
        }
        for line in ["REST STREAM", "SIZE", "TVFS", "UTF8"] {
            add(line);
        }
        add(&format!("PIPELINE {}", self.config.window_commands));
        if let Carrier::Braid { data_streams } = self.carrier {
            add(&format!("XSTREAMS {data_streams}"));
            add("XFRAME 2");
            add("XHASH BLAKE3");
        }
        if !matches!(self.carrier, Carrier::Ms) {
            add("XTREE");
        }
        for line in ["XPART", "XCRC", "XMD5", "XSHA1", "XSHA256", "XSHA512"] {
            add(line);
        }
        Reply::multi(Code::SYSTEM_STATUS, "features:", lines, "End")
    }

    /// The functions of HASH, with a star behind the selected one.
    fn hashes(&self) -> String {
        let star = |hash: HashName| if hash == self.state.hash { "*" } else { "" };
        let names = HashName::ALL.iter().map(|hash| format!("{hash}{}", star(*hash)));
        names.collect::<Vec<_>>().join(";")
    }
}

/// The reply to HELP.
pub(super) fn help() -> Reply {
    let verbs: [&str; 4] = [
        "ABOR ACCT ALLO APPE AUTH CCC CDUP CLNT CWD DELE EPRT EPSV FEAT HASH HELP HOST LANG LIST",
        "MDTM MFMT MKD MLSD MLST MODE NLST NOOP OPTS PASS PASV PBSZ PORT PROT PWD QUIT REIN",
        "REST RETR RMD RNFR RNTO SITE SIZE STAT STOR STOU STRU SYST TYPE USER XCRC XMD5 XPART XSHA1",
        "XSHA256 XSHA512 XTREE",
    ];
    Reply::multi(Code::HELP, "commands:", verbs, "End")
}
