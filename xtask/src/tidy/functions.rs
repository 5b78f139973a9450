//! The length of functions: lines of code from the signature to the closing brace, without comments and blank lines.
//!
//! Functions are found by their indentation, which `cargo fmt` determines. Tests, benches and examples do not count.

use std::path::Path;

/// A longer function is an error, unless it is in [`LONG`].
const LINES_MAX: usize = 80;

/// The functions that are longer, by file and name. The list may only shrink: an entry that is no longer needed is an
/// error, too.
const LONG: &[(&str, &str)] = &[
    ("bench-peers/src/proto_peer.rs", "main"),
    ("crates/braidftp/src/client/carrier/sctp.rs", "connect"),
    ("crates/braidftp/src/demo/mod.rs", "run"),
    ("crates/braidftp/src/demo/picture.rs", "svg"),
    ("crates/braidftp/src/job/download.rs", "begin"),
    ("crates/braidftp/src/job/mirror_up.rs", "found"),
    ("crates/braidftp/src/server/plan.rs", "plan"),
    ("crates/braidftp/src/server/session.rs", "serve"),
    ("crates/braidftp/src/url.rs", "from_str"),
    ("crates/ftp/src/command.rs", "parse"),
    ("crates/ftp/src/server/execute.rs", "begin_other"),
    ("crates/lab/src/golden/net.rs", "enter"),
    ("crates/lab/src/golden/run.rs", "run"),
    ("crates/lab/src/plot/mod.rs", "draw"),
    ("xtask/src/cites/mod.rs", "run"),
    ("xtask/src/proof/crash.rs", "round"),
    ("xtask/src/proof/passwords.rs", "run"),
];

/// A function that is too long, in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Long {
    file: String,
    name: String,
    lines: usize,
}

/// Finds the functions of a source file that are too long.
pub(super) fn find(file: &str, text: &str, found: &mut Vec<Long>) {
    if !counts(file) {
        return;
    }
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else { continue };
        let indentation = &line[..line.len() - line.trim_start().len()];
        let closes = |line: &&&str| line.strip_prefix(indentation) == Some("}");
        let is_declaration =
            |line: &str| line.ends_with(';') && line.len() - line.trim_start().len() == indentation.len();
        let body = lines[at..].iter().take_while(|line| !is_declaration(line));
        let Some(end) = body.clone().position(|line| closes(&line)) else { continue };
        let is_code = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let count = lines[at..=at + end].iter().filter(is_code).count();
        if count > LINES_MAX {
            found.push(Long { file: file.to_owned(), name: name.to_owned(), lines: count });
        }
    }
}

/// Compares what was found with the list of exceptions.
pub(super) fn compare(found: &[Long]) -> Vec<String> {
    compare_with(found, LONG)
}

fn compare_with(found: &[Long], permitted: &[(&str, &str)]) -> Vec<String> {
    let is_listed = |long: &Long| permitted.iter().any(|entry| *entry == (&long.file, &long.name));
    let too_long = found.iter().filter(|long| !is_listed(long)).map(|Long { file, name, lines }| {
        format!("{file}: {name} has {lines} lines of code: split it where the parts have names (at most {LINES_MAX})")
    });
    let is_found = |file: &str, name: &str| found.iter().any(|long| long.file == file && long.name == name);
    let gone = permitted.iter().filter(|(file, name)| !is_found(file, name)).map(|(file, name)| {
        format!("{file}: {name} is not too long any more; remove it from xtask/src/tidy/functions.rs")
    });
    too_long.chain(gone).collect()
}

/// Whether the functions of this file count.
fn counts(file: &str) -> bool {
    let is_of_tests =
        |part: &str| ["tests", "benches", "examples", "fuzz"].contains(&part) || part.starts_with("tests_");
    let path = Path::new(file).with_extension("");
    file.ends_with(".rs") && !path.iter().any(|part| is_of_tests(&part.to_string_lossy()))
}

/// The name of the function that begins on this line.
fn name(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    loop {
        let (word, rest) = words.split_once(' ')?;
        match word {
            "fn" => return rest.split(['(', '<']).next(),
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"" | "default" => words = rest,
            _ if word.starts_with("pub(") => words = word.split_once(')').map_or(rest, |_| rest),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        let body = "        step();\n        // Not code.\n\n".repeat(lines - 2);
        format!("impl X {{\n    pub(super) async fn long<T>(\n{body}    }}\n}}\n")
    }

    fn found(text: &str) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        find("a/b.rs", text, &mut found);
        found.into_iter().map(|long| (long.name, long.lines)).collect()
    }

    #[test]
    fn code_lines_count_and_comments_and_tests_do_not() {
        assert_eq!(found(&function(LINES_MAX)), []);
        assert_eq!(found(&function(LINES_MAX + 1)), [("long".to_owned(), LINES_MAX + 1)]);
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(200))), []);
        let declared = format!("trait X {{\n    fn short();\n{}\n}}\n", "    const A: u8;\n".repeat(100));
        assert_eq!(found(&declared), []);
        assert!(
            !counts("crates/x/tests/a.rs")
                && !counts("crates/x/src/a/tests.rs")
                && counts("crates/x/src/a.rs")
        );
    }

    #[test]
    fn a_long_function_and_an_entry_that_is_not_needed_are_reported() {
        let long = [Long { file: "a.rs".into(), name: "f".into(), lines: 100 }];
        assert_eq!(compare_with(&long, &[("a.rs", "f")]), Vec::<String>::new());
        assert!(compare_with(&long, &[])[0].contains("f has 100 lines"));
        assert!(compare_with(&[], &[("a.rs", "f")])[0].contains("not too long any more"));
    }
}
