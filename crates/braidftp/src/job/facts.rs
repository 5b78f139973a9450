//! Facts of one remote path: by MLST, or by SIZE and MDTM where the server has no MLST.

use std::sync::{Arc, OnceLock};

use braidftp_ftp::command::Command;
use braidftp_ftp::listing::parse_facts;
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::{FileKind, Metadata};
use braidftp_ftp::{Code, PathArg, Reply};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Job;
use crate::client::Client;
use crate::exit::{Error, Exit, Result, escape};

/// The server's information about one path.
#[derive(Debug)]
pub(super) enum Facts {
    Of(Box<Metadata>),
    /// The path does not exist, or is not visible.
    Missing(Reply),
    /// The server has no command for it.
    Unknown,
}

/// The facts requested together with a file.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) facts: oneshot::Receiver<Result<Facts>>,
    /// The size, as soon as it is known.
    pub(super) size: Arc<OnceLock<u64>>,
}

/// Requests the facts of one path, without waiting.
pub(super) async fn ask(client: &Client, path: &PathArg, job: &Job, asked: &mut JoinSet<()>) -> Result<Told> {
    let mlst = client.begin_command(Command::MachineFacts(Some(path.clone()))).await?;
    // After RETR the replies would wait for its end, and many TCP servers have no MLST.
    let (size, time) = match client.mode() {
        Mode::Tcp => (
            Some(client.begin_command(Command::Size(path.clone())).await?),
            Some(client.begin_command(Command::ModifiedTime(path.clone())).await?),
        ),
        _ => (None, None),
    };
    let (tell, facts) = oneshot::channel();
    let told = Told { facts, size: Arc::default() };
    let (client, path, reporter, announced_size) =
        (client.clone(), path.clone(), job.reporter.clone(), told.size.clone());
    asked.spawn(async move {
        let answer = async |asked, command| match asked {
            Some(asked) => client.reply(asked).await,
            None => client.command(command).await,
        };
        let facts = async {
            let reply = client.reply(mlst).await?;
            let size = answer(size, Command::Size(path.clone()));
            read_facts(reply, size, answer(time, Command::ModifiedTime(path.clone()))).await
        };
        let facts = facts.await;
        if let Ok(Facts::Of(metadata)) = &facts
            && let (Some(bytes), _) = of_file(metadata)
        {
            reporter.expect(bytes);
            let _ = announced_size.set(bytes);
        }
        // A file that failed alone needs no further request.
        let _ = tell.send(facts);
    });
    Ok(told)
}

/// The size and the time of a file, as far as the server reported them.
pub(super) fn of_file(metadata: &Metadata) -> (Option<u64>, Option<Timestamp>) {
    // MLST describes a link itself and RETR follows it, so the facts are not those of the file.
    let link = metadata.kind == FileKind::Symlink;
    let size = (!link && (metadata.size > 0 || metadata.modified.is_some())).then_some(metadata.size);
    (size, metadata.modified.filter(|_| !link))
}

/// The error for a folder in place of a file.
pub(super) fn is_folder(path: &[u8]) -> Error {
    Error::new(Exit::NoSuchPath, format_args!("fetch {}", escape(path)), "it is a folder")
        .hint("braidftp mirror fetches folders")
}

/// Requests the facts of one path: by MLST, or by SIZE and MDTM if there is no MLST.
pub(super) async fn facts(client: &Client, path: &PathArg) -> Result<Facts> {
    let reply = client.command(Command::MachineFacts(Some(path.clone()))).await?;
    let size = client.command(Command::Size(path.clone()));
    read_facts(reply, size, client.command(Command::ModifiedTime(path.clone()))).await
}

/// Parses the reply to MLST, or the replies to SIZE and MDTM if there is no MLST.
async fn read_facts(
    reply: Reply,
    size: impl Future<Output = Result<Reply>>,
    time: impl Future<Output = Result<Reply>>,
) -> Result<Facts> {
    if let Some(facts) = of_mlst(&reply) {
        return Ok(facts);
    }
    let Some(size) = number(&size.await?) else { return Ok(Facts::Unknown) };
    let reply = time.await?;
    let text = reply.lines.first().filter(|_| !reply.code.is_error());
    let modified = text.and_then(|text| Timestamp::parse(text.trim_ascii()));
    Ok(Facts::Of(Box::new(Metadata { modified, ..Metadata::new(FileKind::File, size) })))
}

/// Parses the reply to MLST; `None` if the server does not implement it.
pub(super) fn of_mlst(reply: &Reply) -> Option<Facts> {
    if !reply.code.is_error() {
        let metadata = reply.lines.iter().find_map(|line| {
            let line = line.strip_prefix(b" ".as_slice())?;
            let end = line.iter().position(|byte| *byte == b' ')?;
            parse_facts(&line[..end]).map(|facts| facts.metadata)
        });
        return Some(metadata.map_or(Facts::Unknown, |metadata| Facts::Of(Box::new(metadata))));
    }
    match reply.code {
        Code::SYNTAX_ERROR | Code::NOT_IMPLEMENTED => None,
        code if code.class() == braidftp_ftp::reply::Class::Permanent => Some(Facts::Missing(reply.clone())),
        _ => Some(Facts::Unknown),
    }
}

fn number(reply: &Reply) -> Option<u64> {
    let text = reply.lines.first().filter(|_| !reply.code.is_error())?;
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}
