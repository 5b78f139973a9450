//! Commands of transfers and listings, of their parameters (RFC 959 §4.1.2), and of data connections (RFC 2428).

use std::net::SocketAddr;

use super::early::{Early, no, ok};
use crate::command::{Command, Epsv, PathArg, Type};
use crate::mapping::{DataPath, FIRST_FILES, TransferNumber};
use crate::path::SafePath;
use crate::reply::{Code, Reply};
use crate::server::answer::{Answer, PassiveReply};
use crate::server::begun::{Barrier, Begun, Touches, What};
use crate::server::first_files::FirstFiles;
use crate::server::session::Session;
use crate::server::state::{After, EpsvAll};
use crate::server::{Active, Carrier, Do, Extent, Form, JobId, Sink, Source, Write, protocol};

impl Session {
    /// Transfers and listings.
    pub(super) fn begin_transfer(
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
                    //# A RETR for whose path no size is remembered MUST be refused with 503.
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
                    //# RETR MUST send exactly as many bytes as SIZE last reported in this session for that path
                    extent = Extent::Exactly(rest);
                }
                let representation = self.representation(restart)?;
                let source = Source::File { path: path.clone(), offset: restart, representation, extent };
                let todo = Do::Send { job, data: self.data_path(transfer)?, source };
                Ok(Begun::job(todo, Answer::Transfer { path: path.clone() }, Touches::reading(path)))
            }
            Command::RetrieveNext => self.begin_next_file(restart),
            Command::List(path) => self.begin_listing(job, transfer, Form::List, path.as_ref()),
            Command::NameList(path) => self.begin_listing(job, transfer, Form::Names, path.as_ref()),
            Command::MachineList(path) => {
                self.begin_listing(job, transfer, Form::Facts(self.state.facts), path.as_ref())
            }
            Command::Tree(_) if matches!(self.carrier, Carrier::Ms) => {
                no(Code::NOT_IMPLEMENTED, "XTREE is not available in this mode")
            }
            Command::Tree(path) => {
                let begun = self.begin_listing(job, transfer, Form::Tree, path.as_ref())?;
                let tree = begun.touches.reads.clone().unwrap_or(SafePath::ROOT);
                self.state.first_files = Some(FirstFiles::new(job, tree));
                Ok(begun)
            }
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

    /// RETR without a path.
    fn begin_next_file(&mut self, restart: u64) -> Early<Begun> {
        if !self.is_braid() {
            return no(Code::BAD_PARAMETER, "RETR needs a path");
        }
        let Some(first) = &mut self.state.first_files else {
            return no(
                Code::BAD_SEQUENCE,
                "XTREE must come first: without a path, RETR requests its first files",
            );
        };
        let touches = Touches::reading(first.tree().clone());
        // A refused one counts, too.
        match first.request() {
            _ if restart > 0 => no(Code::BAD_RESTART, "REST is for RETR with a path"),
            Some(file) => Ok(Begun { what: What::FirstFile(file), touches, after: After::Nothing }),
            None => no(Code::FILE_UNAVAILABLE, format!("the first {FIRST_FILES} files alone need no path")),
        }
    }

    /// STOR, APPE and STOU.
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

    /// LIST, NLST, MLSD and XTREE.
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

    /// Parameters of transfers (RFC 959 §4.1.2), and preparations for the next transfer.
    pub(super) fn begin_parameter(&mut self, job: JobId, command: Command) -> Early<Begun> {
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

    /// PASV and EPSV: opens a socket for the next data connection.
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

    /// PORT and EPRT: sets the address of the next data connection.
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
            //# of EPRT and PORT it uses only the port
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

    /// Returns the data path of the next transfer.
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
}

/// An upload that is about to begin.
struct Upload {
    job: JobId,
    transfer: TransferNumber,
    path: SafePath,
    write: Write,
    restart: u64,
    allocated: Option<u64>,
}

impl Command {
    /// Whether the command is STOR, STOU or APPE.
    fn is_upload(&self) -> bool {
        matches!(self, Self::Store(_) | Self::StoreUnique(_) | Self::Append(_))
    }
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
