//! Help topics, completions for shells, and man pages, generated from the definitions of `--help`.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;
use super::topics::{TOPICS, list};
use crate::exit::{Error, Result};

/// Prints a topic, or the list of topics.
pub(super) fn help(topic: Option<&str>) -> Result<()> {
    let Some(name) = topic else { return print(list().as_bytes()) };
    match TOPICS.iter().find(|topic| topic.name == name) {
        Some(topic) => print(topic.text().as_bytes()),
        None => {
            let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
            Err(Error::usage(format_args!("explain {name}"), "there is no such topic")
                .hint(format_args!("one of {}; for a command: braidftp COMMAND --help", names.join(", "))))
        }
    }
}

/// Prints completions for a shell.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "braidftp", &mut script);
    print(&script)
}

/// Writes a man page for the program and one for each command.
pub(super) fn man(folder: &Path) -> Result<()> {
    let failed = |e: io::Error| Error::local(format_args!("write man pages to {}", folder.display()), &e);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)
}

/// Prints lines.
pub(super) fn lines(lines: &[String]) -> Result<()> {
    print(lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes())
}

fn print(text: &[u8]) -> Result<()> {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::local("write to standard output", &error))
        }
        _ => Ok(()),
    }
}
