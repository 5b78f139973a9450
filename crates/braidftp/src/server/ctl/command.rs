//! The command `braidftp ctl`: sends a request to a server, and prints the answer.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::Question;
use crate::exit::{Error, Exit, Result};

/// The time limit of the server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The arguments of `braidftp ctl`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The server's socket, created by its option --control
    #[arg(
        long,
        global = true,
        value_name = "SOCKET",
        env = "BRAIDFTP_CONTROL",
        default_value = "/run/braidftp/control"
    )]
    pub control: PathBuf,
    /// Print the server's answer unchanged, as one line of JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The request.
    #[command(subcommand)]
    pub what: What,
}

/// The request.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum What {
    /// List sessions, their transfers and their network paths
    Who,
    /// End a session
    Kick {
        /// Its number, as printed by `who`
        session: u64,
    },
    /// Refuse new sessions, and end the server when its transfers have ended or --drain-seconds have passed
    Drain,
    /// Print totals over all sessions
    Stats,
    /// Print the limits on clients
    Limits,
}

/// Sends the request, and prints the answer.
///
/// # Errors
///
/// There is no such server, or it refuses.
pub fn run(args: &Args) -> Result<()> {
    let what = format!("ask the server at {}", args.control.display());
    let failed = |error: std::io::Error| {
        Error::new(Exit::Connect, &what, error)
            .hint("`braidftp serve --control SOCKET` makes the socket; its owner and root may use it")
    };
    let question = match args.what {
        What::Who => Question::Who {},
        What::Kick { session } => Question::Kick { session },
        What::Drain => Question::Drain {},
        What::Stats => Question::Stats {},
        What::Limits => Question::Limits {},
    };
    let mut stream = UnixStream::connect(&args.control).map_err(failed)?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(failed)?;
    let mut line = serde_json::to_string(&question).unwrap_or_default();
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    let refused = |why: &str| Error::new(Exit::Refused, &what, why);
    let Ok(read) = serde_json::from_str::<Value>(&answer) else {
        return Err(refused("the server closed the connection: this user is not permitted")
            .hint("ask as root, or as the user who started the server"));
    };
    if let Some(why) = read["error"].as_str() {
        return Err(refused(why));
    }
    let shown = if args.json { answer } else { show(&question, &read) };
    // The reader may have closed the pipe.
    let _ = std::io::stdout().write_all(shown.as_bytes());
    Ok(())
}

fn show(question: &Question, answer: &Value) -> String {
    let list = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let mut out = String::new();
    match question {
        Question::Who {} => show_sessions(&mut out, &list("sessions")),
        Question::Kick { .. } | Question::Drain {} => {}
        Question::Stats {} => {
            for (key, value) in answer.as_object().into_iter().flatten() {
                let _ = writeln!(out, "{}: {value}", key.replace('_', " "));
            }
        }
        Question::Limits {} => {
            for limit in list("limits") {
                let setting = limit["setting"].as_str().map(|name| format!(" [{name}]")).unwrap_or_default();
                let _ = writeln!(out, "{}: {}{setting}", text(&limit["what"]), text(&limit["limit"]));
                let _ = writeln!(out, "    beyond: {}", text(&limit["beyond"]));
            }
        }
    }
    out
}

/// A text of the server, which may be a file name: non-printable characters are escaped.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""),
        other => other.to_string(),
    }
}

fn show_sessions(out: &mut String, sessions: &[Value]) {
    if sessions.is_empty() {
        out.push_str("no sessions\n");
    }
    for session in sessions {
        let user = match &session["user"] {
            Value::String(_) => text(&session["user"]),
            _ => "(not logged in)".into(),
        };
        let _ = writeln!(
            out,
            "{}  {user}  {}  {}  for {} s, {} bytes sent, {} received",
            session["id"],
            text(&session["peer"]),
            text(&session["mode"]),
            session["seconds"],
            session["sent_bytes"],
            session["received_bytes"]
        );
        for transfer in session["transfers"].as_array().into_iter().flatten() {
            let (direction, path) = (text(&transfer["direction"]), text(&transfer["path"]));
            let _ = writeln!(
                out,
                "    {direction} {path}: {} bytes in {} s",
                transfer["bytes"], transfer["seconds"]
            );
        }
        for path in session["paths"].as_array().into_iter().flatten() {
            let srtt = path["srtt_ms"].as_f64().map_or("unknown".into(), |srtt| format!("{srtt:.1} ms"));
            let _ = writeln!(
                out,
                "    path {} to {}: {}, RTT {srtt}, window {} bytes, {} bytes sent, {} chunks sent again",
                text(&path["local"]),
                text(&path["peer"]),
                text(&path["state"]),
                path["cwnd"],
                path["sent_bytes"],
                path["retransmitted_chunks"]
            );
        }
    }
}
