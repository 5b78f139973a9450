//! Commands of login and protection: USER, PASS, REIN (RFC 959 §4.1.1), HOST (RFC 7151), and AUTH, PBSZ, PROT
//! and CCC (RFC 4217).

use super::early::{Early, no, ok};
use crate::command::Secret;
use crate::reply::{Code, Reply};
use crate::server::begun::{Barrier, Begun, Touches, What};
use crate::server::hosts::{Choice, HostId};
use crate::server::session::Session;
use crate::server::state::{After, Channel, DataChannel, Login};
use crate::server::{Carrier, Config, Do, Tls};

impl Session {
    /// USER: restarts the login; the previous user is logged out.
    pub(super) fn begin_user(&mut self, name: bytes::Bytes) -> Early<Begun> {
        if self.channel == Channel::Clear && !self.config.unprotected.allows(&name) {
            self.give(Do::NoteUnprotected { user: name });
            return self.refuse_unprotected();
        }
        let was_in = matches!(self.state.login, Login::In(_));
        let begun = if self.is_vouched(&name) {
            self.state.login = Login::Shown(name.clone());
            let touches = Touches { barrier: Barrier::Yes, ..Touches::default() };
            let what = What::Authenticate(Do::Admit { user: name });
            Begun { what, touches, after: After::Nothing }
        } else {
            self.state.login = Login::Named(name);
            Begun::reply(Reply::new(Code::NEED_PASSWORD, "send the password"))
        };
        self.state.first_files = None;
        if was_in {
            // The previous user is logged out before any further command begins.
            self.give(Do::LogOut);
        }
        Ok(begun)
    }

    /// PASS: checks the password of the user that USER named.
    pub(super) fn begin_login(&mut self, password: Secret) -> Early<Begun> {
        let user = match &self.state.login {
            Login::Named(user) => user,
            // PASS was sent together with USER, before the client received the reply to USER.
            Login::In(user) if self.is_vouched(user) => {
                return no(Code::SUPERFLUOUS, "your key has logged you in");
            }
            Login::Nobody | Login::Shown(_) | Login::In(_) => return no(Code::BAD_SEQUENCE, "USER first"),
        };
        let todo = Do::Authenticate { user: user.clone(), password };
        let touches = Touches { barrier: Barrier::Yes, ..Touches::default() };
        Ok(Begun { what: What::Authenticate(todo), touches, after: After::Nothing })
    }

    pub(super) fn begin_reinitialize(&mut self) -> Early<Begun> {
        // RFC 4217 §13 does not permit keeping TLS, and leaving it helps no client.
        if self.channel == Channel::Tls {
            return no(Code::NOT_IMPLEMENTED, "not available inside TLS: send USER to log in again");
        }
        //= specs/rfc7151.txt#section-3.2.1
        //# The effect of a HOST command MUST be reset if a REIN command is
        //# performed, and a new HOST command MUST be issued afterwards in order
        //# to connect to a virtual host.
        self.host = None;
        self.state.reset(self.carrier);
        self.give(Do::LogOut);
        Ok(Begun::reply(Reply::new(Code::READY, "ready for a new user")))
    }

    /// HOST: selects a virtual host (RFC 7151).
    pub(super) fn begin_host(&mut self, name: &[u8]) -> Early<Begun> {
        //= specs/rfc7151.txt#section-3
        //# Server-FTP processes
        //# MUST treat a situation in which the HOST command is issued after the
        //# user has been authenticated as an erroneous sequence of commands and
        //# return a 503 reply.
        if !matches!(self.state.login, Login::Nobody) {
            return no(Code::BAD_SEQUENCE, "HOST must precede USER");
        }
        let Config { hosts, host, greeting, .. } = &*self.config;
        let (own, server_name) = (host.as_deref(), self.server_name.as_ref());
        //= specs/rfc7151.txt#section-3
        //# Server-FTP processes MUST treat a situation in which the HOST command
        //# is issued more than once before the user has been authenticated as
        //# though only the last HOST command had been sent, and return the
        //# appropriate reply for the last HOST command.
        let chosen = Choice { hosts, own, carrier: self.carrier, server_name }.choose(name);
        let greeting = match &chosen {
            Ok(Some(HostId(number))) => hosts.get(*number).map_or(greeting, |host| &host.greeting),
            _ => greeting,
        };
        let welcome = Reply::new(Code::READY, greeting);
        // A refused HOST leaves no host selected, because the client does not mean the previous one.
        self.host = *chosen.as_ref().unwrap_or(&None);
        chosen.map(|_| Begun::reply(welcome))
    }

    /// AUTH: TLS begins after the reply (RFC 4217 §4).
    pub(super) fn begin_auth(&mut self, mechanism: &[u8]) -> Early<Begun> {
        if !self.offers_tls() {
            return no(Code::NOT_IMPLEMENTED, "protection is not available");
        }
        if self.channel == Channel::Tls {
            return no(Code::BAD_SEQUENCE, "TLS is on");
        }
        //= specs/rfc4217.txt#section-17
        //# To maintain backward compatibility with older versions of this document, the server SHOULD accept 'TLS-C' as a
        //# synonym for 'TLS'.
        // SSL and TLS-P mean implicitly protected data connections, which no
        // RFC defines.
        if !mechanism.eq_ignore_ascii_case(b"TLS") && !mechanism.eq_ignore_ascii_case(b"TLS-C") {
            return no(Code::NOT_FOR_THAT_PARAMETER, "the only mechanism is TLS");
        }
        // "All other transfer parameters must be reset, almost as if a REIN command was issued" (RFC 4217
        // §4.2).
        if matches!(self.state.login, Login::In(_)) {
            self.give(Do::LogOut);
        }
        self.state.reset(self.carrier);
        let reply = Reply::new(Code::SECURITY_ACCEPTED, "begin TLS");
        Ok(Begun { what: What::Reply(reply), touches: Touches::default(), after: After::StartTls })
    }

    /// PBSZ: required before PROT, and always 0 with TLS (RFC 4217 §9).
    pub(super) fn begin_protection_buffer(&mut self, size: &[u8]) -> Early<Begun> {
        //= specs/rfc4217.txt#section-9
        //# the PROT command MUST be preceded by a PBSZ command, and a PBSZ command MUST be preceded by a successful
        //# security data exchange (the TLS negotiation in this case).
        if self.channel != Channel::Tls {
            return no(Code::BAD_SEQUENCE, "AUTH TLS first");
        }
        let is_size = size.len() <= 10 && size.iter().all(u8::is_ascii_digit);
        if !is_size {
            return no(Code::BAD_PARAMETER, "use PBSZ 0 with TLS");
        }
        if self.state.data_channel == DataChannel::Clear {
            self.state.data_channel = DataChannel::Sized;
        }
        ok("PBSZ=0")
    }

    /// PROT: only P, protected data connections, is accepted (RFC 4217 §9).
    pub(super) fn begin_protection(&mut self, level: &[u8]) -> Early<Begun> {
        if self.channel != Channel::Tls {
            return no(Code::BAD_SEQUENCE, "AUTH TLS first");
        }
        if self.state.data_channel == DataChannel::Clear {
            return no(Code::BAD_SEQUENCE, "PBSZ 0 first");
        }
        match level.to_ascii_uppercase().as_slice() {
            //= specs/rfc4217.txt#section-9
            //# Once a PROT command has been issued by the client and accepted by the server returning the '200' reply, the
            //# security of subsequent data connections MUST be at that level until another PROT command is issued and
            //# accepted; the session ends and a REIN command is issued, or the security of the session (via an AUTH command)
            //# is re-negotiated.
            b"P" => {
                self.state.data_channel = DataChannel::Private;
                ok("data connections are protected")
            }
            b"C" => no(Code::POLICY_DENIED, "data connections must be protected inside TLS"),
            b"S" | b"E" => no(Code::PROTECTION_UNSUPPORTED, "TLS supports PROT P only"),
            _ => no(Code::NOT_FOR_THAT_PARAMETER, "PROT P"),
        }
    }

    /// CCC: a session never leaves TLS.
    pub(super) fn begin_clear_channel(&self) -> Early<Begun> {
        match (self.offers_tls(), self.channel) {
            (false, _) => no(Code::NOT_IMPLEMENTED, "not offered"),
            (true, Channel::Tls) => no(Code::POLICY_DENIED, "commands stay protected"),
            (true, _) => no(Code::PROTECTION_DENIED, "the connection is not protected"),
        }
    }

    /// Whether TLS is available on this carrier.
    pub(super) fn offers_tls(&self) -> bool {
        matches!(self.carrier, Carrier::Tcp { .. }) && self.config.tls == Tls::Offered
    }

    /// The reply to USER for a user who may not log in without TLS.
    fn refuse_unprotected(&self) -> Early<Begun> {
        match self.offers_tls() {
            true => no(Code::NOT_LOGGED_IN, "log in inside TLS: AUTH TLS first"),
            false if matches!(self.carrier, Carrier::Tcp { .. }) => no(
                Code::NOT_LOGGED_IN,
                "passwords are refused without protection, which is not available here",
            ),
            false => {
                no(Code::NOT_LOGGED_IN, "passwords are refused without protection: connect with protection")
            }
        }
    }

    /// Whether the client has proved possession of a key of this user at the session's host.
    fn is_vouched(&self, user: &bytes::Bytes) -> bool {
        self.vouched.contains(&(self.host, user.clone()))
    }
}
