//! Executes commands: maps a command and the session's state to a reply or a job.
//!
//! This file has the order of the checks and one arm for each command; the modules below it execute the commands of
//! one family each.

mod access;
mod early;
mod files;
mod info;
mod transfer;

use super::JobId;
use super::answer::path_reply;
use super::begun::{Barrier, Begun, Touches, What};
use super::session::Session;
use super::state::{After, Channel, DataChannel, Login};
use crate::command::{Command, CommandError, PathArg};
use crate::mapping::TransferNumber;
use crate::path::SafePath;
use crate::reply::{Code, Reply};
use early::{Early, no, ok};
use info::help;

impl Session {
    /// Begins a command: its reply, or its job.
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

    /// Every command except transfers and listings.
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
            | Command::RetrieveNext
            | Command::Store(_)
            | Command::StoreUnique(_)
            | Command::Append(_)
            | Command::List(_)
            | Command::NameList(_)
            | Command::MachineList(_)
            | Command::Tree(_) => no(Code::NOT_IMPLEMENTED, "not numbered"),
        }
    }

    /// Returns the path that an argument names, relative to the current folder.
    fn resolve(&self, path: &PathArg) -> Early<SafePath> {
        self.resolve_bytes(path.as_bytes())
    }

    fn resolve_bytes(&self, path: &[u8]) -> Early<SafePath> {
        self.state.cwd.resolve(path).map_err(|error| Reply::new(Code::NAME_NOT_ALLOWED, error.to_string()))
    }

    /// The same; the root is refused.
    fn resolve_not_root(&self, path: &PathArg) -> Early<SafePath> {
        let path = self.resolve(path)?;
        if path.is_root() { Err(path_reply(Code::FILE_UNAVAILABLE, &path, "is the root")) } else { Ok(path) }
    }
}

impl Begun {
    /// Also waits for all earlier commands, and later ones wait for it.
    fn behind_a_barrier(mut self) -> Self {
        self.touches.barrier = Barrier::Yes;
        self
    }
}

impl Touches {
    /// Only reads this path.
    pub(super) fn reading(path: SafePath) -> Self {
        Self { reads: Some(path), ..Self::default() }
    }

    /// Writes these paths.
    fn writing(paths: impl Into<Vec<SafePath>>) -> Self {
        Self { writes: paths.into(), ..Self::default() }
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
