//! The language of Markdown pages and of comments: phrases that STYLE.md replaces by the field's terms, and
//! sentences that are too long.
//!
//! Code blocks, tables, headings and citations are not checked. Published specifications are unchanged texts
//! of their authors, and STYLE.md quotes the phrases.

/// Phrases and their replacements.
const PHRASES: &[(&str, &str)] = &[
    ("leaves again", "is retransmitted"),
    ("leave again", "are retransmitted"),
    ("gives way", "yields, reduces its rate, is closed: say which"),
    ("asks after", "probes"),
    ("in doubt", "potentially failed"),
    ("in no hurry", "grows slowly"),
    ("what is late", "delayed packets, retransmissions: say which"),
    ("what is promised", "guarantees"),
    ("is told something", "call `handle`, an input: say which"),
    ("comes to stand", "stalls"),
    ("begins anew", "restarts"),
    ("begin anew", "restart"),
    ("of its own accord", "unasked, by itself"),
    ("at one go", "at once, in one call"),
    ("throws away", "discards"),
    ("broken off", "aborted"),
    ("breaks off", "is aborted"),
    ("comes to rest", "becomes idle"),
    ("come to rest", "become idle"),
    ("hears of", "receives, is notified of: say which"),
    ("said aloud", "printed, logged: say which"),
    ("what has come", "received bytes, packets: say which"),
    ("what it likes", "anything"),
    ("nobody's", "of no owner: say what happens to it"),
];

/// This file contains the phrases.
const SELF: &str = "xtask/src/tidy/prose.rs";

/// The maximum number of words of a sentence.
const WORDS_MAX: usize = 50;

/// The language problems of a page, or of the comments of a source file.
pub(super) fn complaints(page: &str, text: &str) -> Vec<String> {
    let paragraphs = if is_ours(page) {
        paragraphs(text)
    } else if page.ends_with(".rs") && page != SELF {
        paragraphs(&comments(text))
    } else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for Paragraph { line, text } in paragraphs {
        let lower = text.to_lowercase();
        for (phrase, better) in PHRASES.iter().filter(|(phrase, _)| lower.contains(phrase)) {
            found.push(format!(
                "{page}:{line}: \u{201c}{phrase}\u{201d} is no term of the field: {better} (STYLE.md)"
            ));
        }
        for sentence in text.split_inclusive(['.', '!', '?', ':', ';']) {
            let words = sentence.split_whitespace().count();
            if words > WORDS_MAX {
                let begin: Vec<&str> = sentence.split_whitespace().take(8).collect();
                found.push(format!(
                    "{page}:{line}: a sentence of {words} words, and {WORDS_MAX} are many: split \u{201c}{} \u{2026}\u{201d}",
                    begin.join(" ")
                ));
            }
        }
    }
    found
}

fn is_ours(page: &str) -> bool {
    page.ends_with(".md") && page != "STYLE.md" && !page.starts_with("specs/draft-")
}

/// The text of the comments, each on its line; other lines are empty.
fn comments(source: &str) -> String {
    let comment = |line: &str| {
        let text = line.trim_start().strip_prefix("//")?;
        let text = text.strip_prefix(['/', '!']).unwrap_or(text);
        (!text.starts_with(['=', '#'])).then(|| text.strip_prefix(' ').unwrap_or(text).to_owned())
    };
    source.lines().map(|line| comment(line).unwrap_or_default() + "\n").collect()
}

/// A paragraph, or an entry of a list.
#[derive(Debug, PartialEq)]
struct Paragraph {
    /// The number of its first line.
    line: usize,
    text: String,
}

fn paragraphs(page: &str) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (at, line) in page.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        let has_no_sentence = is_code
            || line.starts_with("    ")
            || trimmed.is_empty()
            || trimmed.starts_with(['|', '#', '`', '<', '!']);
        if has_no_sentence {
            is_open = false;
            continue;
        }
        let without_number = trimmed.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let entry = ["- ", "* "]
            .iter()
            .find_map(|mark| trimmed.strip_prefix(mark))
            .or(without_number.strip_prefix(". "));
        match (entry, found.last_mut()) {
            (None, Some(last)) if is_open => {
                last.text.push(' ');
                last.text.push_str(trimmed);
            }
            (entry, _) => found.push(Paragraph { line: at + 1, text: entry.unwrap_or(trimmed).to_owned() }),
        }
        is_open = true;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_over_the_end_of_a_line_and_not_in_code() {
        let text = "# Head\n\nA lost chunk leaves\nagain.\n\n```\nleaves again\n```\n\n| leaves again |\n";
        let found = complaints("docs/a.md", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:3: ") && found[0].contains("is retransmitted"), "{found:?}");
        assert!(complaints("STYLE.md", text).is_empty() && complaints("specs/draft-a.md", text).is_empty());
    }

    #[test]
    fn comments_are_read_and_code_and_citations_are_not() {
        let text = "//! What leaves\n//! again.\n//# leaves again\nlet words = \"leaves again\";\n    // It leaves again.\n";
        let found = complaints("crates/a/src/lib.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("crates/a/src/lib.rs:5: "), "{found:?}");
    }

    #[test]
    fn a_sentence_may_be_long_and_not_longer() {
        let words = |count: usize| format!("{}end.", "word ".repeat(count - 1));
        let text = format!("{}\n{}\n\n- {}\n", words(WORDS_MAX), words(WORDS_MAX), words(WORDS_MAX + 1));
        let found = complaints("README.md", &text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("README.md:4: a sentence of 51 words"), "{found:?}");
    }
}
