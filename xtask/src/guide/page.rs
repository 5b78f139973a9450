//! The commands of a page, and their output on the page.
//!
//! A fenced block `console` is run: a line that begins with `$ ` is a command, which a `\` at its end
//! continues on the next line, and the lines below are its output. A block `console,manual` is not run.
//! Commands that the page does not show are in a comment whose first line is `<!-- test`, in the same
//! notation. After a comment `<!-- file PATH -->` the next block, in any language, is written to a file.

use anyhow::{Result, bail};

/// A command and its output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// The line of the page, from 1.
    pub(super) line: usize,
    /// The command, for a shell.
    pub(super) command: String,
    /// The output that the page shows below the command.
    pub(super) output: Vec<String>,
    /// Whether the command must succeed: the page does not print its exit code next.
    pub(super) succeeds: bool,
}

/// An item of a page for the test.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    /// A command to be run.
    Run(Step),
    /// A command that cannot be run by the test.
    Manual {
        /// The line of the page, from 1.
        line: usize,
        /// The command.
        text: String,
    },
}

/// The current block or comment.
enum Place {
    Text,
    /// A block or comment with commands, and its closing line.
    Commands {
        end: &'static str,
        manual: bool,
    },
    /// Another block, and its file if it has one.
    Other(Option<File>),
}

/// A block that is written to a file.
struct File {
    line: usize,
    path: String,
    text: String,
}

/// The items of a page for the test, in order.
///
/// # Errors
///
/// A block is not closed, or begins with output.
pub(super) fn items(text: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut place = Place::Text;
    let mut next_file = None;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let number = number + 1;
        match &mut place {
            Place::Text => {
                if let Some(path) = line.strip_prefix("<!-- file ") {
                    let path = path.trim_end_matches("-->").trim().to_owned();
                    next_file = Some(File { line: number, path, text: String::new() });
                } else if line == "<!-- test" {
                    place = Place::Commands { end: "-->", manual: false };
                } else if let Some(language) = line.strip_prefix("```") {
                    place = match language {
                        "console" => Place::Commands { end: "```", manual: false },
                        "console,manual" => Place::Commands { end: "```", manual: true },
                        _ => Place::Other(next_file.take()),
                    };
                }
            }
            Place::Commands { end, .. } if line == *end => place = Place::Text,
            Place::Commands { manual, .. } => {
                let Some(command) = line.strip_prefix("$ ") else {
                    let Some(Item::Run(step)) = items.last_mut().filter(|_| !*manual) else {
                        if *manual {
                            continue;
                        }
                        bail!("line {number}: output without a command");
                    };
                    step.output.push(line.trim_end().to_owned());
                    continue;
                };
                let mut command = command.to_owned();
                while command.ends_with('\\') {
                    let Some((_, more)) = lines.next() else {
                        bail!("line {number}: the command has no end")
                    };
                    command.push('\n');
                    command.push_str(more.strip_prefix("> ").unwrap_or(more));
                }
                items.push(if *manual {
                    Item::Manual { line: number, text: command }
                } else {
                    Item::Run(Step { line: number, command, output: Vec::new(), succeeds: true })
                });
            }
            Place::Other(file) if line == "```" => {
                if let Some(File { line, path, text }) = file.take() {
                    let command = format!("cat > '{path}' <<'THE-END'\n{text}THE-END\n");
                    items.push(Item::Run(Step { line, command, output: Vec::new(), succeeds: true }));
                }
                place = Place::Text;
            }
            Place::Other(Some(file)) => {
                file.text.push_str(line);
                file.text.push('\n');
            }
            Place::Other(None) => {}
        }
    }
    if !matches!(place, Place::Text) {
        bail!("a block or comment does not end");
    }
    expect_failures(&mut items);
    Ok(items)
}

/// Permits a command before `echo $?` to fail.
fn expect_failures(items: &mut [Item]) {
    for at in 1..items.len() {
        let asks = matches!(&items[at], Item::Run(step) if step.command == "echo $?");
        if let (true, Item::Run(step)) = (asks, &mut items[at - 1]) {
            step.succeeds = false;
        }
    }
}

/// The first of the lines `shown` that is missing in `printed`, in this order, with any lines in between. `…`
/// matches anything.
pub(super) fn missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(str::trim_end);
    shown
        .iter()
        .filter(|line| !line.is_empty() && *line != "…")
        .find(|wanted| !printed.any(|line| is_like(wanted, line)))
        .map(String::as_str)
}

/// Whether a line contains all parts of the pattern that `…` separates, in order, the first at its beginning
/// and the last at its end.
fn is_like(pattern: &str, line: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('…') else { return pattern == line };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut parts = rest.split('…').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return line.ends_with(part);
        }
        let Some(at) = line.find(part) else { return false };
        line = &line[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: usize, command: &str, output: &[&str], succeeds: bool) -> Item {
        let output = output.iter().map(ToString::to_string).collect();
        Item::Run(Step { line, command: command.into(), output, succeeds })
    }

    #[test]
    fn commands_output_files_and_manual_blocks_are_found() {
        let page = "text\n```console\n$ one \\\n  more\nout\n\n$ two\n```\n```\n$ no\n```\n<!-- test\n$ three\n-->\n\
                    ```console,manual\n$ four\nout\n```\n<!-- file a/b -->\n```toml\nx = 1\n```\n```console\n$ echo $?\n```\n";
        let items = items(page).unwrap();
        let expected = [
            step(3, "one \\\n  more", &["out", ""], true),
            step(7, "two", &[], true),
            step(13, "three", &[], true),
            Item::Manual { line: 16, text: "four".into() },
            step(19, "cat > 'a/b' <<'THE-END'\nx = 1\nTHE-END\n", &[], false),
            step(24, "echo $?", &[], true),
        ];
        assert_eq!(items, expected);
    }

    #[test]
    fn an_unclosed_block_and_output_without_a_command_are_errors() {
        assert!(items("```console\n$ one\n").is_err());
        assert!(items("```console\nout\n```\n").is_err());
    }

    #[test]
    fn output_is_compared_line_by_line_in_order_and_loosely() {
        let shown = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        let printed = "one 1 of 3\nnoise\ntwo\n";
        assert_eq!(missing(&shown(&["one … of …", "…", "two"]), printed), None);
        assert_eq!(missing(&shown(&["two", "one…"]), printed), Some("one…"));
        for (pattern, matches) in
            [("one", false), ("one…", true), ("…3", true), ("one…4", false), ("o…1…f 3", true)]
        {
            assert_eq!(is_like(pattern, "one 1 of 3"), matches, "{pattern}");
        }
    }
}
