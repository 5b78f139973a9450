//! Executes commands: maps a command and the session's state to a reply or a job.

use std::net::SocketAddr;

use super::answer::{Answer, DigestForm, PassiveReply, path_reply, quoted};
use super::begun::{Barrier, Begun, Touches, What};
use super::hosts::{Choice, HostId};
use super::session::Session;
use super::state::{After, Channel, DataChannel, EpsvAll, Login};
use super::{
    Active, Carrier, Change, Config, Do, Extent, Form, JobId, Query, Sink, Source, Tls, Write, protocol,
};
use crate::command::{Command, CommandError, Epsv, PathArg, Secret, Site, Type};
use crate::hash::HashName;
use crate::listing::FactSet;
use crate::mapping::{DataPath, TransferNumber};
use crate::path::SafePath;
use crate::reply::{Code, Reply};

/// Functions that may end early with a reply.
type Early<T> = Result<T, Reply>;

fn ok(text: impl AsRef<[u8]>) -> Early<Begun> {
    Ok(Begun::reply(Reply::new(Code::OK, text)))
}

fn no<T>(code: Code, text: impl AsRef<[u8]>) -> Early<T> {
    Err(Reply::new(code, text))
}

impl Session {
    pub(super) fn begin(
        &mut self,
        job: JobId,
        command: Result<Command, CommandError>,
        transfer: Option<TransferNumber>,
    ) -> Begun {
        let rename_from = self.state.rename_from.take();
        // REST and ALLO apply to the next transfer only, even if it is refused.
        let restart = if transfer.is_some() { std::mem::take(&mut self.state.restart) } else { 0 };
        let begun = command.map_err(refuse_line).and_then(|command| {
            if !matches!(self.state.login, Login::In(_)) && !is_before_login(&command) {
                return no(Code::NOT_LOGGED_IN, "log in with USER and PASS first");
            }
            match transfer {
                //= specs/rfc4217.txt#section-10.2
                //# The server SHOULD only check the status of the data protection level (for options 3 and 4 above) on the
                //# actual command that will initiate the data transfer (and not on the PORT or PASV).
                Some(_)
                    if self.channel == Channel::Tls && self.state.data_channel != DataChannel::Private =>
                {
                    no(
                        Code::DATA_UNPROTECTED,
                        "data connections must be protected inside TLS: send PBSZ 0 and PROT P first",
                    )
                }
                Some(transfer) => self.begin_transfer(job, command, transfer, restart),
                None => self.begin_other(job, command, rename_from),
            }
        });
        begun.unwrap_or_else(Begun::reply)
    }

    fn begin_transfer(
        &mut self,
        job: JobId,
        command: Command,
        transfer: TransferNumber,
        restart: u64,
    ) -> Early<Begun> {
        let allocated = if command.is_upload() { self.state.allocated.take() } else { None };
        match command {
            Command::Retrieve(path) => {
                let path = self.resolve(&path)?;
                let mut extent = Extent::ToEnd;
                if matches!(self.carrier, Carrier::Ms) {
                    //= specs/ftp-over-sctp.md#section-4.2
                    //# A RETR for whose path no number is remembered MUST be refused with 503.
                    let Some(told) = self.state.told.told(&path) else {
                        return no(
                            Code::BAD_SEQUENCE,
                            "SIZE must come first: it gives the length of the file",
                        );
                    };
                    let Some(rest) = told.checked_sub(restart) else {
                        return no(Code::BAD_RESTART, "restart position is beyond the end of the file");
                    };
                    //= specs/ftp-over-sctp.md#section-4.2
                    //# RETR MUST send exactly as many bytes as SIZE last told in this session for that path
                    extent = Extent::Exactly(rest);
                }
                let representation = self.representation(restart)?;
                let source = Source::File { path: path.clone(), offset: restart, representation, extent };
                let todo = Do::Send { job, data: self.data_path(transfer)?, source };
                Ok(Begun::job(todo, Answer::Transfer { path: path.clone() }, Touches::reading(path)))
            }
            Command::List(path) => self.begin_listing(job, transfer, Form::List, path.as_ref()),
            Command::NameList(path) => self.begin_listing(job, transfer, Form::Names, path.as_ref()),
            Command::MachineList(path) => {
                self.begin_listing(job, transfer, Form::Facts(self.state.facts), path.as_ref())
            }
            Command::Tree(_) if matches!(self.carrier, Carrier::Ms) => {
                no(Code::NOT_IMPLEMENTED, "XTREE is not available in this mode")
            }
            Command::Tree(path) => self.begin_listing(job, transfer, Form::Tree, path.as_ref()),
            Command::Store(path) => {
                let write = if restart == 0 { Write::Replace } else { Write::From(restart) };
                let path = self.resolve(&path)?;
                self.begin_upload(Upload { job, transfer, path, write, restart, allocated })
            }
            Command::Append(path) => {
                let path = self.resolve(&path)?;
                self.begin_upload(Upload { job, transfer, path, write: Write::Append, restart: 0, allocated })
            }
            Command::StoreUnique(_) => {
                // The server may choose a name in the current folder (RFC 1123 §4.1.2.9).
                let path = self.state.cwd.clone();
                self.begin_upload(Upload { job, transfer, path, write: Write::Unique, restart: 0, allocated })
            }
            _ => no(Code::NOT_IMPLEMENTED, "not a transfer"),
        }
    }

    fn begin_upload(&mut self, upload: Upload) -> Early<Begun> {
        let Upload { job, transfer, path, write, restart, allocated } = upload;
        if path.is_root() && write != Write::Unique {
            return no(Code::FILE_UNAVAILABLE, "the root is a folder");
        }
        let mut length = None;
        if matches!(self.carrier, Carrier::Ms) {
            //= specs/ftp-over-sctp.md#section-4.3
            //# A STOR, APPE or STOU without ALLO before it MUST be refused with 503
            let Some(allocated) = allocated else {
                return no(Code::BAD_SEQUENCE, "ALLO must come first: it gives the length of the file");
            };
            length = Some(allocated);
        }
        let representation = self.representation(restart)?;
        // The size on the wire is the file's size only for a complete file of type I.
        let is_whole = representation == Type::Image && matches!(write, Write::Replace | Write::From(_));
        // Some clients send `ALLO 0` before every upload, which has no meaning.
        let told = allocated.filter(|size| *size > 0);
        let announced_size =
            if is_whole && matches!(self.carrier, Carrier::Tcp { .. }) { told } else { None };
        let sink = Sink { path: path.clone(), write, representation, length, announced_size };
        let todo = Do::Receive { job, data: self.data_path(transfer)?, sink };
        Ok(Begun::job(todo, Answer::Transfer { path: path.clone() }, Touches::writing([path])))
    }

    fn begin_listing(
        &mut self,
        job: JobId,
        transfer: TransferNumber,
        form: Form,
        path: Option<&PathArg>,
    ) -> Early<Begun> {
        let mut argument = path.map_or(&b""[..], PathArg::as_bytes);
        let mut pattern = None;
        if matches!(form, Form::List | Form::Names) {
            argument = without_flags(argument);
            let at = argument.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            if argument[at..].iter().any(|byte| b"*?[".contains(byte)) {
                pattern = Some(bytes::Bytes::copy_from_slice(&argument[at..]));
                argument = &argument[..at];
            }
        }
        let path = self.resolve_bytes(argument)?;
        let source = Source::Listing { path: path.clone(), form, pattern };
        let todo = Do::Send { job, data: self.data_path(transfer)?, source };
        let answer = match form {
            Form::Facts(_) => Answer::FolderTransfer { path: path.clone() },
            _ => Answer::Transfer { path: path.clone() },
        };
        Ok(Begun::job(todo, answer, Touches::reading(path)))
    }

    fn begin_other(&mut self, job: JobId, command: Command, rename_from: Option<SafePath>) -> Early<Begun> {
        match command {
            Command::User(name) => self.begin_user(name),
            Command::Password(password) => self.begin_login(password),
            Command::Account(_) => no(Code::SUPERFLUOUS, "no account is needed"),
            Command::Quit => {
                let reply = Reply::new(Code::CLOSING, "goodbye");
                Ok(Begun { what: What::Reply(reply), touches: Touches::default(), after: After::Close })
            }
            Command::Reinitialize => self.begin_reinitialize(),
            Command::Noop => ok("okay"),
            Command::System => Ok(Begun::reply(Reply::new(Code::SYSTEM_TYPE, "UNIX Type: L8"))),
            Command::Status(None) => Ok(Begun::reply(self.status())),
            Command::Status(Some(_)) => no(Code::NOT_IMPLEMENTED, "use MLST or LIST"),
            Command::Help(_) => Ok(Begun::reply(help())),
            Command::Features => Ok(Begun::reply(self.features())),
            Command::Options(text) => self.begin_options(&text),
            Command::Host(name) => self.begin_host(&name),
            Command::Language(tag) => match tag.to_ascii_uppercase().as_slice() {
                b"" | b"EN" | b"EN-US" | b"EN-GB" => ok("replies are in English"),
                _ => no(Code::NOT_FOR_THAT_PARAMETER, "only English is available"),
            },
            Command::ClientName(_) => ok("noted"),
            Command::Auth(mechanism) => self.begin_auth(&mechanism),
            Command::ProtectionBuffer(size) => self.begin_protection_buffer(&size),
            Command::Protection(level) => self.begin_protection(&level),
            Command::ClearCommandChannel => self.begin_clear_channel(),
            Command::Type(_)
            | Command::Mode(_)
            | Command::Structure(_)
            | Command::Allocate(_)
            | Command::Restart(_)
            | Command::Passive
            | Command::ExtendedPassive(_)
            | Command::Port(_)
            | Command::ExtendedPort(_) => self.begin_parameter(job, command),
            Command::Abort(_) => Ok(Begun::reply(Reply::new(Code::TRANSFER_COMPLETE, "abort done"))),
            Command::PrintDirectory
            | Command::ToParent
            | Command::ChangeDirectory(_)
            | Command::RenameFrom(_)
            | Command::RenameTo(_)
            | Command::Size(_)
            | Command::ModifiedTime(_)
            | Command::MachineFacts(_)
            | Command::Partial(_)
            | Command::Hash(_)
            | Command::Crc32(_)
            | Command::Md5(_)
            | Command::Sha1(_)
            | Command::Sha256(_)
            | Command::Sha512(_)
            | Command::MakeDirectory(_)
            | Command::RemoveDirectory(_)
            | Command::Delete(_)
            | Command::SetModifiedTime(_, _) => self.begin_file(job, command, rename_from),
            Command::Site(site) => self.begin_site(job, site),
            // Transfers are numbered and handled elsewhere.
            Command::Retrieve(_)
            | Command::Store(_)
            | Command::StoreUnique(_)
            | Command::Append(_)
            | Command::List(_)
            | Command::NameList(_)
            | Command::MachineList(_)
            | Command::Tree(_) => no(Code::NOT_IMPLEMENTED, "not numbered"),
        }
    }

    /// USER: restarts the login; the previous user is logged out.
    fn begin_user(&mut self, name: bytes::Bytes) -> Early<Begun> {
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
        if was_in {
            // The previous user is logged out before any further command begins.
            self.give(Do::LogOut);
        }
        Ok(begun)
    }

    fn begin_reinitialize(&mut self) -> Early<Begun> {
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

    /// CCC: a session never leaves TLS.
    fn begin_clear_channel(&self) -> Early<Begun> {
        match (self.offers_tls(), self.channel) {
            (false, _) => no(Code::NOT_IMPLEMENTED, "not offered"),
            (true, Channel::Tls) => no(Code::POLICY_DENIED, "commands stay protected"),
            (true, _) => no(Code::PROTECTION_DENIED, "the connection is not protected"),
        }
    }

    /// Parameters of transfers (RFC 959 §4.1.2), and preparations for the next transfer.
    fn begin_parameter(&mut self, job: JobId, command: Command) -> Early<Begun> {
        match command {
            Command::Type(kind) => match (kind, self.is_braid()) {
                //= specs/ftp-over-sctp.md#section-6.1
                //# `TYPE I` is accepted, any other TYPE is refused with 504.
                (Type::Ascii, true) => no(Code::NOT_FOR_THAT_PARAMETER, "only TYPE I is supported"),
                (kind, _) => {
                    self.state.representation = kind;
                    ok(if kind == Type::Image { "type is I" } else { "type is A" })
                }
            },
            Command::Mode(b'S') => ok("mode is S"),
            Command::Structure(b'F') => ok("structure is F"),
            Command::Mode(_) | Command::Structure(_) => no(Code::NOT_FOR_THAT_PARAMETER, "not offered"),
            Command::Allocate(bytes) => {
                if !matches!(self.carrier, Carrier::Ms | Carrier::Tcp { .. }) {
                    return no(Code::SUPERFLUOUS, "no need");
                }
                self.state.allocated = Some(bytes);
                ok("so many bytes are expected")
            }
            Command::Restart(offset) => {
                self.state.restart = offset;
                Ok(Begun::reply(Reply::new(Code::NEED_MORE, format!("the next transfer begins at {offset}"))))
            }
            Command::Passive => self.begin_passive(job, PassiveReply::Classic, None),
            Command::ExtendedPassive(Epsv::All) => {
                self.needs_connections(Code::BAD_SEQUENCE)?;
                self.state.epsv_all = EpsvAll::Yes;
                ok("EPSV alone from now on")
            }
            Command::ExtendedPassive(Epsv::Same) => self.begin_passive(job, PassiveReply::Extended, None),
            Command::ExtendedPassive(Epsv::Ipv4) => self.begin_passive(job, PassiveReply::Extended, Some(1)),
            Command::ExtendedPassive(Epsv::Ipv6) => self.begin_passive(job, PassiveReply::Extended, Some(2)),
            Command::Port(address) | Command::ExtendedPort(address) => self.begin_port(address),
            _ => no(Code::NOT_IMPLEMENTED, "not a parameter"),
        }
    }

    /// Folders, and files as a whole: current folder, metadata, changes (RFC 959 §4.1.3, RFC 3659).
    fn begin_file(&mut self, job: JobId, command: Command, rename_from: Option<SafePath>) -> Early<Begun> {
        match command {
            Command::PrintDirectory => Ok(Begun::reply(Reply::new(
                Code::PATH_CREATED,
                [&quoted(&self.state.cwd)[..], b" is the current folder"].concat(),
            ))),
            Command::ToParent => {
                let path = self.state.cwd.parent().unwrap_or_default();
                Ok(self.begin_query(job, path, Query::Followed, Answer::ChangeDirectory).behind_a_barrier())
            }
            Command::ChangeDirectory(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Followed, Answer::ChangeDirectory).behind_a_barrier())
            }
            Command::RenameFrom(path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_query(job, path, Query::Facts, Answer::RenameFrom).behind_a_barrier())
            }
            Command::RenameTo(path) => {
                let Some(from) = rename_from else { return no(Code::BAD_SEQUENCE, "RNFR first") };
                let to = self.resolve_not_root(&path)?;
                Ok(self.begin_change(job, Change::Rename { from, to }, Reply::new(Code::FILE_OK, "renamed")))
            }
            Command::Size(_) if self.state.representation == Type::Ascii => {
                // The size of an ASCII transfer requires reading the file.
                //= specs/rfc3659.txt#section-4
                //# Estimates of the file transfer size MUST NOT be returned; only precise information is acceptable.
                no(Code::FILE_UNAVAILABLE, "SIZE is for TYPE I")
            }
            Command::Size(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Followed, Answer::Size))
            }
            Command::ModifiedTime(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Followed, Answer::Modified))
            }
            Command::MachineFacts(path) => {
                let path = self.resolve_bytes(path.as_ref().map_or(&b""[..], PathArg::as_bytes))?;
                Ok(self.begin_query(job, path, Query::Facts, Answer::Facts))
            }
            Command::Partial(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Partial, Answer::Partial))
            }
            Command::Hash(path) => self.begin_digest(job, &path, self.state.hash, DigestForm::Hash),
            Command::Crc32(path) => self.begin_digest(job, &path, HashName::Crc32, DigestForm::Alone),
            Command::Md5(path) => self.begin_digest(job, &path, HashName::Md5, DigestForm::Alone),
            Command::Sha1(path) => self.begin_digest(job, &path, HashName::Sha1, DigestForm::Alone),
            Command::Sha256(path) => self.begin_digest(job, &path, HashName::Sha256, DigestForm::Alone),
            Command::Sha512(path) => self.begin_digest(job, &path, HashName::Sha512, DigestForm::Alone),
            Command::MakeDirectory(path) => {
                let path = self.resolve_not_root(&path)?;
                let reply = Reply::new(Code::PATH_CREATED, [&quoted(&path)[..], b" made"].concat());
                Ok(self.begin_change(job, Change::MakeDirectory(path), reply))
            }
            Command::RemoveDirectory(path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_change(
                    job,
                    Change::RemoveDirectory(path),
                    Reply::new(Code::FILE_OK, "removed"),
                ))
            }
            Command::Delete(path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_change(job, Change::Remove(path), Reply::new(Code::FILE_OK, "deleted")))
            }
            Command::SetModifiedTime(stamp, path) => {
                let path = self.resolve(&path)?;
                let text = [format!("Modify={stamp}; ").as_bytes(), &path.to_absolute()].concat();
                let reply = Reply::new(Code::FILE_STATUS, text);
                Ok(self.begin_change(job, Change::SetModified(path, stamp), reply))
            }
            _ => no(Code::NOT_IMPLEMENTED, "not a file command"),
        }
    }

    /// Commands of SITE.
    fn begin_site(&mut self, job: JobId, site: Site) -> Early<Begun> {
        match site {
            Site::Help => Ok(Begun::reply(Reply::multi(
                Code::HELP,
                "SITE knows:",
                ["CHMOD", "DELPARTS", "HELP", "PARTS", "SYMLINK", "UTIME"],
                "End",
            ))),
            Site::Chmod(mode, path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_change(job, Change::SetUnixMode(path, mode), Reply::new(Code::OK, "mode set")))
            }
            Site::Utime(stamp, path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_change(job, Change::SetModified(path, stamp), Reply::new(Code::OK, "time set")))
            }
            Site::Symlink(target, path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_change(
                    job,
                    Change::Symlink { path, target },
                    Reply::new(Code::OK, "link made"),
                ))
            }
            Site::Parts(path) => {
                let path = self.resolve_bytes(path.as_ref().map_or(&b""[..], PathArg::as_bytes))?;
                let answer = Answer::Parts { path: path.clone(), words: "kept" };
                let todo = Do::Query { job, path: path.clone(), query: Query::Parts };
                Ok(Begun::job(todo, answer, Touches::reading(path)).behind_a_barrier())
            }
            Site::RemoveParts(path) => {
                let path = self.resolve(&path)?;
                let answer = Answer::Parts { path: path.clone(), words: "removed" };
                let todo = Do::Change { job, change: Change::RemoveParts(path.clone()) };
                Ok(Begun::job(todo, answer, Touches::writing([path])).behind_a_barrier())
            }
        }
    }

    fn begin_login(&mut self, password: Secret) -> Early<Begun> {
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

    /// Whether TLS is available on this carrier.
    fn offers_tls(&self) -> bool {
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

    fn begin_auth(&mut self, mechanism: &[u8]) -> Early<Begun> {
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

    fn begin_protection_buffer(&mut self, size: &[u8]) -> Early<Begun> {
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

    fn begin_protection(&mut self, level: &[u8]) -> Early<Begun> {
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

    /// Whether the client has proved possession of a key of this user at the session's host.
    fn is_vouched(&self, user: &bytes::Bytes) -> bool {
        self.vouched.contains(&(self.host, user.clone()))
    }

    fn begin_host(&mut self, name: &[u8]) -> Early<Begun> {
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

    fn begin_options(&mut self, text: &[u8]) -> Early<Begun> {
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

    /// The functions of HASH, with a star behind the selected one.
    fn hashes(&self) -> String {
        let star = |hash: HashName| if hash == self.state.hash { "*" } else { "" };
        let names = HashName::ALL.iter().map(|hash| format!("{hash}{}", star(*hash)));
        names.collect::<Vec<_>>().join(";")
    }

    fn begin_passive(&self, job: JobId, reply: PassiveReply, family: Option<u8>) -> Early<Begun> {
        let Carrier::Tcp { local, .. } = self.carrier else {
            self.needs_connections(Code::NOT_IMPLEMENTED)?;
            return no(Code::NOT_IMPLEMENTED, "use EPRT: the server opens the data association");
        };
        if reply == PassiveReply::Classic && self.state.epsv_all == EpsvAll::Yes {
            return no(Code::BAD_SEQUENCE, "refused after EPSV ALL");
        }
        if reply == PassiveReply::Classic && local.is_ipv6() && local.ip().to_canonical().is_ipv6() {
            return no(Code::CANNOT_OPEN_DATA, "PASV is for IPv4: use EPSV");
        }
        let own = protocol(local.ip().to_canonical());
        if family.is_some_and(|family| family != own) {
            return no(Code::BAD_PROTOCOL, format!("network protocol not supported, use ({own})"));
        }
        let touches = Touches { barrier: Barrier::Yes, ..Touches::default() };
        Ok(Begun::job(Do::Listen { job }, Answer::Listening(reply), touches))
    }

    fn begin_port(&mut self, address: SocketAddr) -> Early<Begun> {
        let data = match self.carrier {
            Carrier::Tcp { peer, .. } => {
                //= specs/rfc2428.txt#section-3
                //# Upon receipt of an EPSV ALL command, the server MUST reject all data connection setup commands other than
                //# EPSV (i.e., EPRT, PORT, PASV, et al.).
                if self.state.epsv_all == EpsvAll::Yes {
                    return no(Code::BAD_SEQUENCE, "refused after EPSV ALL");
                }
                if self.config.active == Active::Refused {
                    return no(Code::NOT_IMPLEMENTED, "active mode is disabled: use EPSV");
                }
                // Only the client's own address, and no well-known port (RFC 2577 §3).
                if address.ip().to_canonical() != peer.ip().to_canonical() || address.port() < 1024 {
                    return no(
                        Code::BAD_PARAMETER,
                        "the address must be your own, and the port at least 1024",
                    );
                }
                DataPath::TcpActive(address)
            }
            //= specs/ftp-over-sctp.md#section-3.1
            //# of EPRT and PORT it uses the port alone
            Carrier::Naive if address.port() != 0 => DataPath::Association { port: address.port() },
            Carrier::Naive => return no(Code::BAD_PARAMETER, "port 0 is none"),
            Carrier::Ms | Carrier::Braid { .. } => {
                self.needs_connections(Code::BAD_SEQUENCE)?;
                return no(
                    Code::BAD_SEQUENCE,
                    "data connections are not used: data travels in this association",
                );
            }
        };
        self.state.data = Some(data);
        ok("the server will connect there")
    }

    fn begin_query(&self, job: JobId, path: SafePath, query: Query, answer: fn(SafePath) -> Answer) -> Begun {
        let todo = Do::Query { job, path: path.clone(), query };
        Begun::job(todo, answer(path.clone()), Touches::reading(path))
    }

    fn begin_digest(&self, job: JobId, path: &PathArg, hash: HashName, form: DigestForm) -> Early<Begun> {
        let path = self.resolve(path)?;
        let todo = Do::Query { job, path: path.clone(), query: Query::Digest(hash) };
        let answer = Answer::Digest { path: path.clone(), hash, form };
        Ok(Begun::job(todo, answer, Touches::reading(path)))
    }

    fn begin_change(&self, job: JobId, change: Change, reply: Reply) -> Begun {
        let paths = match &change {
            Change::Rename { from, to } => vec![from.clone(), to.clone()],
            Change::MakeDirectory(path)
            | Change::RemoveDirectory(path)
            | Change::Remove(path)
            | Change::SetModified(path, _)
            | Change::SetUnixMode(path, _)
            | Change::RemoveParts(path)
            | Change::Symlink { path, .. } => vec![path.clone()],
        };
        let subject = paths[0].clone();
        Begun::job(
            Do::Change { job, change },
            Answer::Changed { reply, path: subject },
            Touches::writing(paths),
        )
    }

    /// ms and braid do not prepare data connections.
    fn needs_connections(&self, otherwise: Code) -> Early<()> {
        match self.carrier {
            Carrier::Tcp { .. } => Ok(()),
            Carrier::Naive if otherwise == Code::NOT_IMPLEMENTED => Ok(()),
            Carrier::Naive => no(Code::NOT_IMPLEMENTED, "use EPRT: the server opens the data association"),
            Carrier::Ms | Carrier::Braid { .. } => {
                no(Code::BAD_SEQUENCE, "data connections are not used: data travels in this association")
            }
        }
    }

    fn data_path(&mut self, transfer: TransferNumber) -> Early<DataPath> {
        let missing = match self.carrier {
            Carrier::Ms => return Ok(DataPath::Stream1),
            Carrier::Braid { .. } => return Ok(DataPath::Framed { transfer }),
            Carrier::Tcp { .. } => "EPSV or PASV first",
            Carrier::Naive => "EPRT first",
        };
        self.state.data.take().ok_or_else(|| Reply::new(Code::CANNOT_OPEN_DATA, missing))
    }

    /// ASCII needs a data connection; other carriers transfer bytes unchanged.
    fn representation(&self, restart: u64) -> Early<Type> {
        match self.carrier {
            Carrier::Tcp { .. } | Carrier::Naive => match self.state.representation {
                Type::Ascii if restart > 0 => no(Code::BAD_RESTART, "REST is for TYPE I"),
                representation => Ok(representation),
            },
            Carrier::Ms | Carrier::Braid { .. } => Ok(Type::Image),
        }
    }

    fn resolve(&self, path: &PathArg) -> Early<SafePath> {
        self.resolve_bytes(path.as_bytes())
    }

    fn resolve_bytes(&self, path: &[u8]) -> Early<SafePath> {
        self.state.cwd.resolve(path).map_err(|error| Reply::new(Code::NAME_NOT_ALLOWED, error.to_string()))
    }

    fn resolve_not_root(&self, path: &PathArg) -> Early<SafePath> {
        let path = self.resolve(path)?;
        if path.is_root() { Err(path_reply(Code::FILE_UNAVAILABLE, &path, "is the root")) } else { Ok(path) }
    }

    pub(super) fn status(&self) -> Reply {
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

    fn features(&self) -> Reply {
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
}

struct Upload {
    job: JobId,
    transfer: TransferNumber,
    path: SafePath,
    write: Write,
    restart: u64,
    allocated: Option<u64>,
}

impl Begun {
    fn behind_a_barrier(mut self) -> Self {
        self.touches.barrier = Barrier::Yes;
        self
    }
}

impl Touches {
    fn reading(path: SafePath) -> Self {
        Self { reads: Some(path), ..Self::default() }
    }

    fn writing(paths: impl Into<Vec<SafePath>>) -> Self {
        Self { writes: paths.into(), ..Self::default() }
    }
}

impl Command {
    fn is_upload(&self) -> bool {
        matches!(self, Self::Store(_) | Self::StoreUnique(_) | Self::Append(_))
    }
}

/// The commands permitted before a login.
fn is_before_login(command: &Command) -> bool {
    matches!(
        command,
        Command::User(_)
            | Command::Password(_)
            | Command::Account(_)
            | Command::Quit
            | Command::Reinitialize
            | Command::Noop
            | Command::System
            | Command::Help(_)
            | Command::Features
            | Command::Options(_)
            | Command::Host(_)
            | Command::Language(_)
            | Command::ClientName(_)
            | Command::Auth(_)
            | Command::ProtectionBuffer(_)
            | Command::Protection(_)
            | Command::ClearCommandChannel
            | Command::Abort(_)
    )
}

/// The reply to a line that is not a command.
fn refuse_line(error: CommandError) -> Reply {
    match error {
        CommandError::Syntax => Reply::new(Code::SYNTAX_ERROR, "not a command"),
        //= specs/ftp-over-sctp.md#section-2.3
        //# A server MUST refuse NUL, CR and LF inside a command with 501
        CommandError::Forbidden => {
            Reply::new(Code::BAD_PARAMETER, "a command must not contain NUL, CR or LF")
        }
        CommandError::Unknown => Reply::new(Code::SYNTAX_ERROR, "unknown command"),
        CommandError::Argument => Reply::new(Code::BAD_PARAMETER, "invalid argument"),
        CommandError::Unsupported => {
            Reply::new(Code::NOT_FOR_THAT_PARAMETER, "not implemented for that argument")
        }
        CommandError::Protocol => Reply::new(Code::BAD_PROTOCOL, "network protocol not supported, use (1,2)"),
    }
}

fn help() -> Reply {
    let verbs: [&str; 4] = [
        "ABOR ACCT ALLO APPE AUTH CCC CDUP CLNT CWD DELE EPRT EPSV FEAT HASH HELP HOST LANG LIST",
        "MDTM MFMT MKD MLSD MLST MODE NLST NOOP OPTS PASS PASV PBSZ PORT PROT PWD QUIT REIN",
        "REST RETR RMD RNFR RNTO SITE SIZE STAT STOR STOU STRU SYST TYPE USER XCRC XMD5 XPART XSHA1",
        "XSHA256 XSHA512 XTREE",
    ];
    Reply::multi(Code::HELP, "commands:", verbs, "End")
}

/// Removes the `ls` flags that many clients send with LIST and NLST.
fn without_flags(mut argument: &[u8]) -> &[u8] {
    while let [b'-', letters @ ..] = argument {
        let end = letters.iter().position(|byte| *byte == b' ').unwrap_or(letters.len());
        if end == 0 || !letters[..end].iter().all(u8::is_ascii_alphanumeric) {
            break;
        }
        argument = letters[end..].trim_ascii_start();
    }
    argument
}
