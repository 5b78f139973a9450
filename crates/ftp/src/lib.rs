//! FTP, client and server, as machines without input or output of their own (RFC 959, 2389, 2428, 3659; over SCTP by
//! specs/ftp-over-sctp.md).
//!
//! [`server::Session`] and [`client::Session`] are told what happens (`handle`) and drained (`poll`): bytes for the control
//! connection, and what the driver is to do: a [`server::Do`] or a [`client::Event`]. Both speak through one [`Command`] and
//! one [`Reply`]. File bytes never enter; [`mapping`] says where they travel in each [`Mode`], and counts those of braid.
//! What is not here: sockets, files, clocks, passwords, digests. Names from the other side are [`SafeName`]s and
//! [`SafePath`]s or nothing.
//!
//! # One RETR in each mode
//!
//! `C>` and `S>` are lines on the control connection; `c:` and `s:` what the sessions and their drivers say to each other.
//!
//! **tcp** (level by level; here [`client::Pipelining::Metadata`]):
//! ```text
//! C> EPSV
//!      s: Do::Listen{job 1}            the driver opens a socket         Input::Done{1, Listening(addr:4000)}
//! S> 229 ... (|||4000|)
//!      c: Event::Connect(tag, 4000)    the driver connects to the peer   Input::Connected(tag)
//! C> RETR /a
//!      s: Do::Send{2, TcpPassive, File /a}   the file opens              Input::Started{2, size}
//! S> 150 ...
//!      c: Event::Receive(tag, Data::Connection)
//!      s: the driver accepts, sends, closes                              Input::Done{2, Sent}
//!      c: the driver reads to the end                                    Input::DataDone(tag, Complete(n))
//! S> 226 ...
//!      c: Event::Finished(tag, Ok)
//! ```
//! **naive**: the association of the transfer goes the other way.
//! ```text
//!      c: Event::Listen(tag)           the driver listens on SCTP port p  Input::Listening(tag, any:p)
//! C> EPRT |1|any|p|
//! S> 200 ...
//! C> RETR /a
//!      s: Do::Send{1, Association{port p}, File /a}                      Input::Started{1, size}
//! S> 150 ...
//!      c: Event::Receive(tag, Data::Association)
//!      s: the driver connects to the control peer's port p, sends on stream 0, shuts down   Input::Done{1, Sent}
//!      c: the driver reads to the shutdown                               Input::DataDone(tag, Complete(n))
//! S> 226 ...
//! ```
//! **ms**: one file after another; stream 1 is the data connection, the count its end.
//! ```text
//! C> SIZE /a
//!      s: Do::Query{1, /a, Followed}                                     Input::Done{1, Facts(size 7)}
//! S> 213 7
//! C> RETR /a
//!      s: Do::Send{2, Stream1, File /a, Exactly(7)}                      Input::Started{2, 7}
//! S> 150 ...
//!      c: Event::Receive(tag, Data::Counted(7))    seven bytes off stream 1, whatever the messages
//! S> 226 ...
//! ```
//! **ms-cp**: the same to the server. The client says `SIZE /a`, `SIZE /b`, ... at once, and `RETR /a` when the `213` for it
//! comes; its `Event::Receive`s come in the order in which the files lie on stream 1.
//!
//! **braid**: nothing is waited for.
//! ```text
//! C> USER u / PASS p / RETR /a / RETR /b                                 with COOKIE ECHO
//!      c: Event::Receive(tag, Data::Framed(1)), Event::Receive(tag, Data::Framed(2))
//!      s: Do::Authenticate{u, p}                                         Input::Authenticated(Ok)
//!      s: Do::Send{1, Framed{1}, File /a}, Do::Send{2, Framed{2}, File /b}    at the same time, on a stream each:
//!         Sender::begin -> HEADER, bytes as far as Sender::room, Sender::finish -> TRAILER     Input::Done{1, Sent} ...
//!      c: Receiver::on_piece -> Header(1), Bytes, .., Trailer(1); Receiver::consume -> CREDIT  Input::DataDone(tag, ..)
//! S> 220 / 331 / 230 / 226 / 226                                         in the order of the commands
//! ```
//! If a RETR is refused, its 550 is all there is of it; the number is spent all the same.
#![forbid(unsafe_code)]

pub mod client;
pub mod command;
pub mod line;
pub mod listing;
pub mod mapping;
pub mod path;
pub mod reply;
pub mod server;
pub mod stamp;
pub mod store;

pub use braidftp_base::{Output, Time};
pub use command::{Command, PathArg};
pub use mapping::Mode;
pub use path::{SafeName, SafePath};
pub use reply::{Code, Reply};
