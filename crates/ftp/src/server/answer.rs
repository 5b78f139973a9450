//! Maps the outcome of a job to the reply, depending on what was requested.

use std::net::{IpAddr, SocketAddr};

use super::state::{After, Login, State};
use super::{Failure, LoginError, Outcome};
use crate::command::host_port;
use crate::hash::HashName;
use crate::listing::encode_facts;
use crate::mapping::DataPath;
use crate::path::SafePath;
use crate::reply::{Code, Reply};
use crate::store::{FileKind, StoreError};

/// The request that a job belongs to.
#[derive(Debug)]
pub(super) enum Answer {
    Listening(PassiveReply),
    ChangeDirectory(SafePath),
    RenameFrom(SafePath),
    Size(SafePath),
    Modified(SafePath),
    Facts(SafePath),
    Partial(SafePath),
    /// The digest of a file, for HASH or for a command of one function.
    Digest {
        path: SafePath,
        hash: HashName,
        form: DigestForm,
    },
    /// The unfinished uploads that exist or were removed; the text says which of the two.
    Parts {
        path: SafePath,
        words: &'static str,
    },
    Changed {
        reply: Reply,
        path: SafePath,
    },
    Transfer {
        path: SafePath,
    },
    /// MLSD: a path that is not a folder is a bad argument.
    FolderTransfer {
        path: SafePath,
    },
}

/// The form of a reply with a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestForm {
    /// `213 NAME RANGE DIGEST PATH` (draft-bryan-ftpext-hash).
    Hash,
    /// `250 DIGEST`: XCRC and similar commands.
    Alone,
}

/// The reply that announces a listening port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassiveReply {
    /// 227.
    Classic,
    /// 229.
    Extended,
}

impl Answer {
    /// The reply 150.
    pub(super) fn opening(&self, size: Option<u64>, name: Option<&SafePath>) -> Reply {
        let (Self::Transfer { path } | Self::FolderTransfer { path }) = self else {
            return Reply::new(Code::OPENING_DATA, "begun");
        };
        let mut text = match name {
            // In exactly this form (RFC 1123 §4.1.2.9).
            Some(name) => {
                return Reply::new(Code::OPENING_DATA, [&b"FILE: "[..], &name.to_absolute()].concat());
            }
            None => [&b"opening data connection for "[..], &path.to_absolute()].concat(),
        };
        if let Some(size) = size {
            text.extend_from_slice(format!(" ({size} bytes)").as_bytes());
        }
        Reply::new(Code::OPENING_DATA, text)
    }
}

impl State {
    /// The final reply.
    pub(super) fn answer(&mut self, answer: Answer, outcome: Result<Outcome, Failure>) -> Reply {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => return refuse(&answer, failure),
        };
        match (answer, outcome) {
            (Answer::Listening(reply), Outcome::Listening(address)) => self.listening(reply, address),
            (Answer::ChangeDirectory(path), Outcome::Facts(metadata)) => {
                if metadata.kind != FileKind::Directory {
                    return path_reply(Code::FILE_UNAVAILABLE, &path, "is not a folder");
                }
                let reply = path_reply(Code::FILE_OK, &path, "is the current folder");
                self.cwd = path;
                reply
            }
            (Answer::RenameFrom(path), Outcome::Facts(_)) => {
                self.rename_from = Some(path);
                Reply::new(Code::NEED_MORE, "waiting for RNTO")
            }
            (Answer::Size(path), Outcome::Facts(metadata)) => {
                if metadata.kind != FileKind::File {
                    return path_reply(Code::FILE_UNAVAILABLE, &path, "is not a regular file");
                }
                self.told.tell(path, metadata.size);
                Reply::new(Code::FILE_STATUS, metadata.size.to_string())
            }
            (Answer::Modified(path), Outcome::Facts(metadata)) => match metadata.modified {
                Some(modified) => Reply::new(Code::FILE_STATUS, modified.to_string()),
                None => path_reply(Code::FILE_UNAVAILABLE, &path, "has no modification time"),
            },
            (Answer::Facts(path), Outcome::Facts(metadata)) => {
                let line = [&encode_facts(&metadata, self.facts)[..], b" ", &path.to_absolute()].concat();
                Reply::multi(Code::FILE_OK, "facts:", [line], "End")
            }
            (Answer::Partial(_), Outcome::Partial(bytes)) => Reply::new(Code::FILE_STATUS, bytes.to_string()),
            (Answer::Digest { path, hash, form }, Outcome::Digest { digest, bytes }) => {
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                match form {
                    DigestForm::Alone => Reply::new(Code::FILE_OK, hex),
                    DigestForm::Hash => {
                        let text = format!("{hash} 0-{bytes} {hex} ");
                        Reply::new(Code::FILE_STATUS, [text.as_bytes(), &path.to_absolute()].concat())
                    }
                }
            }
            (Answer::Parts { words, .. }, Outcome::Parts(parts)) => {
                let bytes: u64 = parts.iter().map(|part| part.size).sum();
                let lines: Vec<Vec<u8>> = parts
                    .iter()
                    .map(|part| {
                        [format!("{} {} ", part.size, part.changed).as_bytes(), &part.path.to_absolute()]
                            .concat()
                    })
                    .collect();
                let text = format!("{words}: {} unfinished uploads, {bytes} bytes", parts.len());
                Reply::multi(Code::FILE_OK, &text, lines, "End")
            }
            (Answer::Changed { reply, .. }, Outcome::Changed) => reply,
            (Answer::Transfer { .. } | Answer::FolderTransfer { .. }, outcome) => match outcome {
                Outcome::Received { name: Some(name), .. } => {
                    Reply::new(Code::TRANSFER_COMPLETE, [&b"FILE: "[..], &name.to_absolute()].concat())
                }
                // In braid the frames contain the length, and each small file has a reply, which should be
                // short.
                Outcome::Received { .. } | Outcome::Sent { .. } if self.is_framed => {
                    Reply::new(Code::TRANSFER_COMPLETE, "ok")
                }
                Outcome::Received { bytes, .. } | Outcome::Sent { bytes } => {
                    Reply::new(Code::TRANSFER_COMPLETE, format!("transfer complete, {bytes} bytes"))
                }
                _ => wrong_outcome(),
            },
            _ => wrong_outcome(),
        }
    }

    fn listening(&mut self, reply: PassiveReply, address: SocketAddr) -> Reply {
        self.data = Some(DataPath::TcpPassive);
        match reply {
            PassiveReply::Classic => match address.ip().to_canonical() {
                IpAddr::V4(ip) => {
                    let address = host_port(SocketAddr::new(ip.into(), address.port()));
                    Reply::new(Code::PASSIVE, format!("entering passive mode ({address})"))
                }
                IpAddr::V6(_) => Reply::new(Code::CANNOT_OPEN_DATA, "PASV is for IPv4: use EPSV"),
            },
            PassiveReply::Extended => Reply::new(
                Code::EXTENDED_PASSIVE,
                format!("entering extended passive mode (|||{}|)", address.port()),
            ),
        }
    }

    pub(super) fn authenticated(&mut self, result: Result<(), LoginError>, attempts: u32) -> (Reply, After) {
        let login = std::mem::take(&mut self.login);
        let by_key = matches!(login, Login::Shown(_));
        let user = match login {
            Login::Named(user) | Login::Shown(user) | Login::In(user) => user,
            Login::Nobody => return (wrong_outcome(), After::Nothing),
        };
        match result {
            Ok(()) => {
                // RFC 4217 §12.2.
                let reply = match by_key {
                    true => Reply::new(Code::AUTHORIZED, "logged in by key"),
                    false => Reply::new(Code::LOGGED_IN, "welcome"),
                };
                self.login = Login::In(user);
                self.failed_logins = 0;
                (reply, After::Nothing)
            }
            Err(LoginError::Refused) => {
                self.failed_logins += 1;
                if self.failed_logins >= attempts {
                    (Reply::new(Code::UNAVAILABLE, "too many wrong passwords, goodbye"), After::Close)
                } else {
                    // The same for an unknown user and a wrong password.
                    (Reply::new(Code::NOT_LOGGED_IN, "login incorrect"), After::Nothing)
                }
            }
            Err(LoginError::Busy) => (
                Reply::new(
                    Code::NOT_LOGGED_IN,
                    "too many sessions of this user: end one, or try again later",
                ),
                After::Nothing,
            ),
            Err(LoginError::Unavailable) => (
                Reply::new(
                    Code::UNAVAILABLE,
                    "too many wrong passwords from your address or for this user: try again in 10 minutes",
                ),
                After::Close,
            ),
        }
    }
}

fn refuse(answer: &Answer, failure: Failure) -> Reply {
    match answer {
        Answer::Listening(_) => Reply::new(Code::CANNOT_OPEN_DATA, failure.to_string()),
        //= specs/rfc3659.txt#section-7.1
        //# If the Client-FTP sends an invalid argument, the server-FTP MUST reply with an error code of 501.
        Answer::FolderTransfer { path } if failure == Failure::Store(StoreError::NotADirectory) => {
            path_reply(Code::BAD_PARAMETER, path, &failure.to_string())
        }
        Answer::ChangeDirectory(path)
        | Answer::RenameFrom(path)
        | Answer::Size(path)
        | Answer::Modified(path)
        | Answer::Facts(path)
        | Answer::Partial(path)
        | Answer::Parts { path, .. }
        | Answer::Digest { path, .. }
        | Answer::Changed { path, .. }
        | Answer::Transfer { path }
        | Answer::FolderTransfer { path } => path_reply(failure.code(), path, &failure.to_string()),
    }
}

/// The driver answered a job with the outcome of another.
fn wrong_outcome() -> Reply {
    debug_assert!(false, "the driver answered a job with the outcome of another");
    Reply::new(Code::LOCAL_ERROR, "internal error")
}

/// `/path: text`.
pub(super) fn path_reply(code: Code, path: &SafePath, text: &str) -> Reply {
    Reply::new(code, [&path.to_absolute()[..], b": ", text.as_bytes()].concat())
}

/// A path in quotes, with quotes in it doubled (RFC 959 Appendix II).
pub(super) fn quoted(path: &SafePath) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path.to_absolute() {
        quoted.extend_from_slice(if byte == b'"' { b"\"\"" } else { std::slice::from_ref(&byte) });
    }
    quoted.push(b'"');
    quoted
}
