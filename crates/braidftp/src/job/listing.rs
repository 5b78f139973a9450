//! Incremental parsing of listings: bytes of a data connection to entries, line by line.

use std::collections::VecDeque;
use std::time::SystemTime;

use braidftp_ftp::client::{Features, ListForm};
use braidftp_ftp::command::Command;
use braidftp_ftp::line::LINE_MAX;
use braidftp_ftp::listing::{Entry, Gap, Parsed, parse_line, parse_list};
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::{Code, PathArg, Reply, SafePath};
use bytes::{Buf, Bytes, BytesMut};

use super::journal::{Feed, Journal};
use super::remote_path;
use crate::client::{
    Client, LISTING_AHEAD_BYTES, LISTING_QUEUE_BYTES, Lane, Turn, listing_beyond, of_reply, timestamp,
};
use crate::exit::{Error, Exit, Result, escape};
use crate::packed::{UnpackError, Unpacker};
use crate::store::fs::fits_a_line;

/// The result of one line.
#[derive(Debug)]
pub(crate) enum Line {
    /// An entry.
    Entry(Box<Entry>),
    /// An invalid line: its text, and the reason. Nothing may be deleted because it is missing in this
    /// listing.
    Bad(Bytes, String),
}

/// A listing that is being parsed.
#[derive(Debug)]
pub(crate) struct Listing {
    feed: Feed,
    form: ListForm,
    /// braid: unpacks the lines.
    unpacker: Option<Unpacker>,
    waiting: BytesMut,
    lines: VecDeque<Line>,
    /// The number of lines that may still arrive.
    left: u64,
    max_entries: u64,
    /// The maximum size in bytes.
    listing_bytes: u64,
    /// Whether it was requested now, and not by an earlier run.
    is_requested: bool,
    what: String,
}

impl Listing {
    /// Requests a listing.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn ask(client: &Client, form: ListForm, path: Option<PathArg>) -> Result<Self> {
        match client.listing_lane(Turn::Now) {
            Some(lane) => Self::ask_by(lane, form, path, LISTING_QUEUE_BYTES).await,
            None => Err(Error::new(Exit::Interrupted, "list", "there is no session")),
        }
    }

    /// Returns the listing in the journal. Otherwise requests one, and stores it if there is a journal.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn ask_once(
        client: &Client,
        form: ListForm,
        path: Option<PathArg>,
        journal: Option<Journal>,
    ) -> Result<Self> {
        let kept = journal.as_ref().filter(|_| client.mode() == Mode::Braid);
        let Some(journal) = kept else { return Self::ask(client, form, path).await };
        if let Some(feed) = journal.listing(form) {
            return Ok(Self { is_requested: false, ..Self::of(client, form, path.as_ref(), feed) });
        }
        let (queue, under_way) = client.list(form, path.clone()).await?;
        Ok(Self::of(client, form, path.as_ref(), journal.keep(form, queue, under_way)))
    }

    /// Requests a listing ahead of its use, if a session is available. Only little of it is buffered.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn ask_ahead(
        client: &Client,
        form: ListForm,
        path: Option<PathArg>,
    ) -> Result<Option<Self>> {
        let Some(lane) = client.listing_lane(Turn::Ahead) else { return Ok(None) };
        Self::ask_by(lane, form, path, LISTING_AHEAD_BYTES).await.map(Some)
    }

    async fn ask_by(lane: Lane, form: ListForm, path: Option<PathArg>, waiting: usize) -> Result<Self> {
        let client = lane.client.clone();
        let (queue, under_way) = client.list_waiting(form, path.clone(), waiting).await?;
        let feed = Feed::Live(queue, Some(under_way.releasing(lane)));
        Ok(Self::of(&client, form, path.as_ref(), feed))
    }

    fn of(client: &Client, form: ListForm, path: Option<&PathArg>, feed: Feed) -> Self {
        let what = match path {
            Some(path) => format!("list {path}"),
            None => "list the folder".into(),
        };
        let is_packed = client.mode() == Mode::Braid && matches!(form, ListForm::Facts | ListForm::Tree);
        let bounds = client.bounds();
        Self {
            feed,
            form,
            //= specs/ftp-over-sctp.md#section-7.4
            //# A client MUST bound what it unpacks
            unpacker: is_packed.then(|| Unpacker::new(bounds.listing_bytes())),
            waiting: BytesMut::new(),
            lines: VecDeque::new(),
            left: bounds.max_entries,
            max_entries: bounds.max_entries,
            listing_bytes: bounds.listing_bytes(),
            is_requested: true,
            what,
        }
    }

    /// Whether it was requested now, and not by an earlier run.
    pub(crate) fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// Returns the next line; `None` at the end of a complete listing.
    ///
    /// # Errors
    ///
    /// It was refused or aborted.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                self.left = self.left.checked_sub(1).ok_or_else(|| {
                    let why = format_args!("it has more than {} lines", self.max_entries);
                    Error::new(Exit::Protocol, &self.what, why).hint("--max-entries takes more")
                })?;
                return Ok(Some(line));
            }
            if let Some(lines) = self.unpack()? {
                self.waiting.extend_from_slice(&lines);
                self.cut()?;
                continue;
            }
            let next = self.feed.next().await;
            match (next.map_err(|error| Error { what: self.what.clone(), ..error })?, &mut self.unpacker) {
                (Some(packed), Some(unpacker)) => unpacker.push(packed),
                (Some(bytes), None) => {
                    self.waiting.extend_from_slice(&bytes);
                    self.cut()?;
                }
                (None, _) => {
                    if self.unpacker.as_ref().is_some_and(|unpacker| !unpacker.is_over()) {
                        return Err(Error::new(
                            Exit::Protocol,
                            &self.what,
                            "the packed listing is incomplete",
                        ));
                    }
                    if self.waiting.is_empty() {
                        return Ok(None);
                    }
                    // A last line without line end, as some servers send it.
                    let last = self.waiting.split().freeze();
                    self.take(last);
                }
            }
        }
    }

    /// Returns the next lines that have arrived, at most `most`; none at the end of a complete listing.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub(crate) async fn next_lines(&mut self, most: usize) -> Result<Vec<Line>> {
        let mut lines = Vec::from_iter(self.next().await?);
        while lines.len() < most && !self.lines.is_empty() {
            lines.extend(self.next().await?);
        }
        Ok(lines)
    }

    /// Checks that the folder of the URL exists, after the end of its listing: to LIST of a folder that does not exist vsftpd
    /// answers like to one of an empty folder. No other command may be in progress, since the folder of the session changes.
    ///
    /// # Errors
    ///
    /// The session has ended, or there is no such folder.
    pub(crate) async fn check_folder(&self, client: &Client, base: &[u8]) -> Result<()> {
        let had_lines = self.left < self.max_entries;
        let (ListForm::List, false, Some(path)) = (self.form, had_lines, remote_path(base, b"")?) else {
            return Ok(());
        };
        let before = client.command(Command::PrintDirectory).await?;
        let entered = client.command(Command::ChangeDirectory(path)).await?;
        if entered.code.is_error() {
            return Err(of_reply(&format!("list {}", escape(base)), &entered));
        }
        if let Some(before) = printed(&before) {
            client.command(Command::ChangeDirectory(before)).await?;
        }
        Ok(())
    }

    /// Returns the next lines of a packed listing.
    fn unpack(&mut self) -> Result<Option<Bytes>> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(None) };
        unpacker.unpack().map_err(|error| match error {
            UnpackError::TooLong => listing_beyond(self.listing_bytes, &self.what),
            other => Error::new(Exit::Protocol, &self.what, other),
        })
    }

    fn cut(&mut self) -> Result<()> {
        while let Some(at) = self.waiting.iter().position(|byte| *byte == b'\n') {
            let mut line = self.waiting.split_to(at);
            self.waiting.advance(1);
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            self.take(line.freeze());
        }
        if self.waiting.len() > LINE_MAX {
            return Err(Error::new(
                Exit::Protocol,
                &self.what,
                format_args!("a line of the listing is longer than {LINE_MAX} bytes"),
            ));
        }
        Ok(())
    }

    fn take(&mut self, line: Bytes) {
        let parsed = match self.form {
            ListForm::Facts | ListForm::Tree => parse_line(&line),
            ListForm::List | ListForm::Names => parse_list(&line, timestamp(SystemTime::now())),
        };
        match parsed {
            Ok(Parsed::Entry(entry)) => self.lines.push_back(Line::Entry(Box::new(entry))),
            Ok(Parsed::Nothing) => {}
            Err(error) => self.lines.push_back(Line::Bad(line, error.to_string())),
        }
    }
}

/// The form in which a server lists folders: facts if supported, otherwise the output of `ls -l`.
pub(crate) fn folder_form(features: &Features) -> ListForm {
    if features.mlst { ListForm::Facts } else { ListForm::List }
}

/// The path in a reply to PWD: in quotation marks, which are doubled within it (RFC 959, appendix II).
fn printed(reply: &Reply) -> Option<PathArg> {
    let line = reply.lines.first().filter(|_| !reply.code.is_error())?;
    let mut rest = line.get(line.iter().position(|byte| *byte == b'"')? + 1..)?.iter();
    let mut path = Vec::new();
    loop {
        match rest.next()? {
            b'"' if rest.as_slice().first() == Some(&b'"') => path.push(*rest.next()?),
            b'"' => return PathArg::new(path),
            byte => path.push(*byte),
        }
    }
}

/// The error of an invalid line.
pub(crate) fn bad_line(line: &[u8], why: &str) -> Error {
    Error::new(Exit::Protocol, format_args!("use the listing's line `{}`", escape(line)), why)
        .hint("the server's fault: such a name cannot be used here")
}

/// The path that a listing lacks, or its folder if it is not a single path, with an error.
pub(crate) fn missing(folder: &SafePath, gap: &Gap) -> (Vec<u8>, Error) {
    match &gap.name {
        Some(name) if !fits_a_line(name) => {
            let path = match folder.is_root() {
                true => name.to_vec(),
                false => [folder.as_bytes(), name].join(&b'/'),
            };
            let error = line_end_in_name(&format!("take {}", escape(&path)));
            (path, error)
        }
        _ => (folder.as_bytes().to_vec(), incomplete(gap.why)),
    }
}

/// The error of a path that contains a line end.
pub(crate) fn line_end_in_name(what: &str) -> Error {
    Error::new(Exit::SomeFailed, what, "its name holds a line end, which FTP cannot carry: left out")
        .hint("rename it where it is")
}

/// The error of a folder that the server could not list completely.
fn incomplete(code: Code) -> Error {
    let why = match code {
        Code::FILE_UNAVAILABLE => "the server may not read it",
        Code::NAME_NOT_ALLOWED => "a name in it cannot be listed",
        _ => "the server could not list it to the end",
    };
    Error::new(Exit::Refused, "list the folder", format_args!("{why} ({code})"))
        .hint("check the permissions of the folder on the server")
}
