//! The result of beginning a command: a reply or a job, and the paths that it reads and writes.

use super::Do;
use super::answer::Answer;
use super::first_files::FirstFile;
use super::state::After;
use crate::path::SafePath;
use crate::reply::Reply;

/// The result of beginning a command.
pub(super) struct Begun {
    pub(super) what: What,
    pub(super) touches: Touches,
    pub(super) after: After,
}

pub(super) enum What {
    Reply(Reply),
    Authenticate(Do),
    Job(Do, Answer),
    /// A download of one of the first files of a tree that is being listed.
    FirstFile(FirstFile),
}

impl Begun {
    pub(super) fn reply(reply: Reply) -> Self {
        Self { what: What::Reply(reply), touches: Touches::default(), after: After::Nothing }
    }

    pub(super) fn job(todo: Do, answer: Answer, touches: Touches) -> Self {
        Self { what: What::Job(todo, answer), touches, after: After::Nothing }
    }
}

/// The paths that a command reads and writes, to keep the order of conflicting commands
/// (specs/ftp-over-sctp.md §6.4).
#[derive(Debug, Default)]
pub(super) struct Touches {
    pub(super) reads: Option<SafePath>,
    pub(super) writes: Vec<SafePath>,
    /// Whether nothing may begin before this command is done.
    pub(super) barrier: Barrier,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Barrier {
    #[default]
    No,
    Yes,
}
