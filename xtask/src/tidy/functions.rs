//! The length of functions: lines of code from the signature to the closing brace, without comments and blank lines.
//!
//! Functions are found by their indentation, which `cargo fmt` determines. Tests, benches and examples do not count.

use std::path::Path;

/// The maximum number of lines of a function; more is an error.
const LINES_MAX: usize = 80;

/// A function that is too long, in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Long {
    file: String,
    name: String,
    lines: usize,
}

/// Finds the functions of a source file that are too long.
pub(super) fn find(file: &str, text: &str) -> Vec<Long> {
    let mut found = Vec::new();
    if !counts(file) {
        return found;
    }
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
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
    found
}

/// The message about a function that is too long.
pub(super) fn complaint(Long { file, name, lines }: &Long) -> String {
    format!(
        "{file}: {name} has {lines} lines of code: split it where the parts have names (at most {LINES_MAX})"
    )
}

/// Whether functions of this file are checked.
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
        find("a/b.rs", text).into_iter().map(|long| (long.name, long.lines)).collect()
    }

    #[test]
    fn code_lines_count_and_comments_and_tests_do_not() {
        assert_eq!(found(&function(LINES_MAX)), []);
        assert_eq!(found(&function(LINES_MAX + 1)), [("long".to_owned(), LINES_MAX + 1)]);
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(200))), []);
        let after = format!("#[cfg(test)]\nmod tests;\n{}", function(LINES_MAX + 1));
        assert_eq!(found(&after), [("long".to_owned(), LINES_MAX + 1)], "its tests are in another file");
        let declared = format!("trait X {{\n    fn short();\n{}\n}}\n", "    const A: u8;\n".repeat(100));
        assert_eq!(found(&declared), []);
        assert!(
            !counts("crates/x/tests/a.rs")
                && !counts("crates/x/src/a/tests.rs")
                && counts("crates/x/src/a.rs")
        );
    }
}
