//! `cargo xtask guide` builds the guide as a book, by mdBook. `cargo xtask test guide [PAGE]` runs every command of it.
//!
//! `book` mends the links of the book, `page` finds the commands and the output that a page promises, `session` runs them in a shell.

mod book;
mod page;
mod session;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::page::Item;
use self::session::Session;
use crate::sandbox;
use crate::shell::{cargo, check, root, target};
use crate::tools::MDBOOK;

/// The pages, and the settings of the book.
const FOLDER: &str = "docs/guide";
/// The book.
const BOOK: &str = "target/guide";
/// What is left out where no namespaces can be made.
const WHAT: &str = "the commands of the guide";

/// Prepares a machine for the test: a home folder, an empty /run, host names, a temporary /etc.
const MACHINE: &str = "
set -e
ip link set lo up
mount -t tmpfs guide /home
mkdir -p /home/anna /home/.etc/upper /home/.etc/work
mount -t overlay guide -o lowerdir=/etc,upperdir=/home/.etc/upper,workdir=/home/.etc/work /etc
rm -rf /etc/braidftp
echo '127.0.0.1 localhost ftp.example.org' > /etc/hosts
mount -t tmpfs guide /run
mount -t tmpfs guide /srv
export HOME=/home/anna USER=anna LANG=C.UTF-8 PATH=$PROGRAMS:$PATH
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
sudo() { \"$@\"; }
cd
set +e
";

/// Builds the book.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("guide takes no arguments, and got `{arg}`");
    }
    let book = root().join(BOOK);
    check(Command::new(MDBOOK.ensure()?).arg("build").arg("--dest-dir").arg(&book).arg(FOLDER))?;
    let dead = book::unlink_dead(&book)?;
    println!("guide: {}; {dead} links to files outside it are plain text", book.join("index.html").display());
    Ok(())
}

/// The option that says that the programs are built.
pub(crate) const BUILT: &str = "--built";

/// The names of the pages with commands, if these can be run here.
pub(crate) fn pages_to_run() -> Result<Vec<String>> {
    if !sandbox::is_available(WHAT)? {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for path in pages(&[])? {
        if items(&path)?.iter().any(|item| matches!(item, Item::Run(_))) {
            names.push(stem(&path));
        }
    }
    if names.is_empty() {
        bail!("no command was found in {FOLDER}");
    }
    Ok(names)
}

/// Runs the commands of all pages, or of the given ones, and compares their output with the page.
pub(crate) fn test(args: &[String]) -> Result<()> {
    if !sandbox::is_available(WHAT)? {
        return Ok(());
    }
    let names = args.strip_prefix(&[BUILT.to_owned()]);
    if names.is_none() {
        // With the features that the tests of the workspace ask for, as those of its examples do: nothing is compiled twice.
        check(cargo().args(["build", "--workspace", "--bins", "--examples"]))?;
    }
    let (mut run, mut left_out, mut failures) = (0, 0, Vec::new());
    for path in pages(names.unwrap_or(args))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut machine = sandbox::command("bash");
        machine.env("PROGRAMS", target().join("debug"));
        let mut session = Session::start(machine, MACHINE)?;
        let mut commands = 0;
        for item in &items(&path)? {
            match item {
                Item::Manual { line, text } => {
                    left_out += 1;
                    println!("guide: {name}:{line}: NOT RUN: {text}");
                }
                Item::Run(step) => {
                    commands += 1;
                    if let Err(error) = session.run(step) {
                        failures.push(format!("{name}:{}: {error:#}", step.line));
                        // Later commands would fail because of this one.
                        break;
                    }
                }
            }
        }
        println!("guide: {name}: {commands} commands ran");
        run += commands;
    }
    println!("guide: {run} commands ran, {left_out} cannot be run here, {} pages failed", failures.len());
    if !failures.is_empty() {
        bail!("{}", failures.join("\n\n"));
    }
    if run == 0 {
        bail!("no command was found");
    }
    Ok(())
}

/// The items of a page for the test.
fn items(path: &Path) -> Result<Vec<Item>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    page::items(&text).with_context(|| path.display().to_string())
}

/// The name of a page.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The pages with these names, or all.
fn pages(names: &[String]) -> Result<Vec<PathBuf>> {
    let folder = Path::new(FOLDER);
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {FOLDER}"))?;
    let mut pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    if let Some(name) = names.iter().find(|name| !pages.iter().any(|page| stem(page) == **name)) {
        bail!("there is no page {FOLDER}/{name}.md");
    }
    pages.retain(|page| names.is_empty() || names.contains(&stem(page)));
    pages.sort();
    Ok(pages)
}
