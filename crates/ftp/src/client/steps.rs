//! The lines of a command or transfer, and when each of them may be sent.

use std::collections::VecDeque;

use super::{ListForm, Tag, Transfer};
use crate::command::Command;

/// Consecutive lines.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) tag: Tag,
    pub(super) steps: VecDeque<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: Command,
    pub(super) role: Role,
    pub(super) gate: Gate,
}

/// The purpose of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The reply is passed to the caller.
    Plain,
    Host,
    User,
    Password,
    Auth,
    ProtectionBuffer,
    Protection,
    /// EPSV or PASV.
    Passive,
    /// EPRT.
    Port,
    Size,
    /// REST or ALLO.
    Prepare,
    Transfer,
    /// The reply is ignored: ABOR, a PASS sent with its USER and not needed, or ALLO over TCP, which
    /// servers may refuse.
    Silent,
}

/// The condition for sending a line, besides those of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// None: sent with the preceding line.
    Together,
    /// All preceding lines of the unit have been answered.
    Answered,
    /// The same, unless the server is known to support pipelining.
    Login,
    /// The data connection is open, or its socket listens.
    Data,
}

/// Whether the reply to REST is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Checked,
    Trusted,
}

/// REST if there is an offset, then the transfer command; `gate` applies to the first of them.
pub(super) fn transfer_steps(transfer: &Transfer, gate: Gate, rest: Rest) -> VecDeque<Step> {
    let (offset, command) = match transfer {
        Transfer::Retrieve { path, offset } => (*offset, Command::Retrieve(path.clone())),
        Transfer::RetrieveNext => (0, Command::RetrieveNext),
        Transfer::Store { path, offset, .. } => (*offset, Command::Store(path.clone())),
        Transfer::Append { path, .. } => (0, Command::Append(path.clone())),
        Transfer::List { form: ListForm::Facts, path } => (0, Command::MachineList(path.clone())),
        Transfer::List { form: ListForm::List, path } => (0, Command::List(path.clone())),
        Transfer::List { form: ListForm::Names, path } => (0, Command::NameList(path.clone())),
        Transfer::List { form: ListForm::Tree, path } => (0, Command::Tree(path.clone())),
    };
    let mut steps = VecDeque::new();
    if offset > 0 {
        steps.push_back(Step { command: Command::Restart(offset), role: Role::Prepare, gate });
    }
    // A refused REST must not be followed by a transfer of the whole file. In braid the header contains the
    // offset.
    let gate = if offset > 0 && rest == Rest::Checked { Gate::Answered } else { gate };
    steps.push_back(Step { command, role: Role::Transfer, gate });
    steps
}
