//! Parses a specification into sections of text: RFCs as the RFC Editor publishes them, and our own in
//! Markdown.
//!
//! A section is the text between its heading and the next one; its subsections are separate sections. A
//! number that also appears in the table of contents has two texts, and a quotation may be in either.

use std::collections::BTreeMap;

/// The sections of one document, by number: `6.3.3`, `A`, `A.1`.
#[derive(Debug, Default)]
pub(crate) struct Spec {
    sections: BTreeMap<SectionId, Section>,
}

/// A section's number, ordered as the document orders it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SectionId(Vec<Part>);

/// One part of a section's number. Numbers sort before letters: the appendix is last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u32),
    Letter(String),
}

/// The text of one section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// The text without white space, so that line breaks, page breaks and hyphenation do not matter.
    squeezed: String,
    /// The normative sentences, in order.
    pub(crate) sentences: Vec<Sentence>,
}

/// A sentence with MUST, SHOULD or the like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// The sentence, with single spaces.
    pub(crate) text: String,
    /// The strongest key word in the sentence.
    pub(crate) force: Force,
    /// The positions of the key words in the section's squeezed text.
    key_words: Vec<usize>,
}

/// The requirement level of a sentence (RFC 2119).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Force {
    /// SHOULD, RECOMMENDED.
    Should,
    /// MUST, SHALL, REQUIRED.
    Must,
}

/// A range of a section's squeezed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    start: usize,
    end: usize,
}

impl SectionId {
    /// Parses `6.3.3` or `A.1`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let part = |part: &str| match part.parse() {
            Ok(number) => Some(Part::Number(number)),
            Err(_) if is_letter(part) => Some(Part::Letter(part.to_owned())),
            Err(_) => None,
        };
        text.split('.').map(part).collect::<Option<Vec<_>>>().map(Self)
    }
}

impl std::fmt::Display for SectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, part) in self.0.iter().enumerate() {
            let dot = if place == 0 { "" } else { "." };
            match part {
                Part::Number(number) => write!(f, "{dot}{number}")?,
                Part::Letter(letter) => write!(f, "{dot}{letter}")?,
            }
        }
        Ok(())
    }
}

impl Spec {
    /// Parses an RFC's text, with or without pages.
    pub(crate) fn from_rfc(text: &str) -> Self {
        let lines = without_pages(text);
        // Since about 2000 headings begin at the margin; before, those of subsections were indented with the
        // text.
        let at_margin =
            lines.iter().filter(|line| rfc_heading(line).is_some_and(|id| id.0.len() > 1)).count() > 2;
        let heading = |line: &str| {
            rfc_heading(line).or_else(|| {
                if at_margin { None } else { rfc_heading(line.trim_start()).filter(|id| id.0.len() > 1) }
            })
        };
        Self::from_lines(&lines, heading)
    }

    /// Parses Markdown with numbered headings: `## 3.2 Title`.
    pub(crate) fn from_markdown(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        Self::from_lines(&lines, |line| {
            let title = line.strip_prefix('#')?.trim_start_matches('#');
            let number = title.strip_prefix(' ')?.trim_start().split(' ').next()?;
            SectionId::parse(number.trim_end_matches('.'))
        })
    }

    fn from_lines(lines: &[&str], heading: impl Fn(&str) -> Option<SectionId>) -> Self {
        let mut texts: BTreeMap<SectionId, String> = BTreeMap::new();
        let mut open: Option<SectionId> = None;
        for line in lines {
            if let Some(id) = heading(line) {
                texts.entry(id.clone()).or_default().push_str("\n\n");
                open = Some(id);
            } else if let Some(text) = open.as_ref().and_then(|id| texts.get_mut(id)) {
                text.push_str(line.trim());
                text.push('\n');
            }
        }
        Self { sections: texts.into_iter().map(|(id, text)| (id, Section::new(&text))).collect() }
    }

    /// The section with this number.
    pub(crate) fn section(&self, id: &SectionId) -> Option<&Section> {
        self.sections.get(id)
    }

    /// All sections, in order.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&SectionId, &Section)> {
        self.sections.iter()
    }

    /// The first section that contains this quotation, for a hint.
    pub(crate) fn whose(&self, quote: &str) -> Option<&SectionId> {
        self.sections.iter().find(|(_, section)| !section.find(quote).is_empty()).map(|(id, _)| id)
    }
}

impl Section {
    fn new(text: &str) -> Self {
        let mut section = Self::default();
        for paragraph in text.split("\n\n") {
            let words: Vec<&str> = paragraph.split_whitespace().collect();
            let mut sentence: Vec<&str> = Vec::new();
            for (place, word) in words.iter().enumerate() {
                sentence.push(word);
                let next_starts =
                    words.get(place + 1).is_none_or(|next| next.starts_with(|c: char| !c.is_lowercase()));
                if place + 1 == words.len() || (next_starts && word.ends_with(['.', '!', '?'])) {
                    section.push_sentence(&sentence);
                    sentence.clear();
                }
            }
        }
        section
    }

    fn push_sentence(&mut self, words: &[&str]) {
        let mut key_words = Vec::new();
        let mut force = None;
        for word in words {
            let bare = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
            let this = match bare {
                "MUST" | "SHALL" | "REQUIRED" => Some(Force::Must),
                "SHOULD" | "RECOMMENDED" => Some(Force::Should),
                _ => None,
            };
            if this.is_some() {
                key_words.push(self.squeezed.len());
                force = force.max(this);
            }
            self.squeezed.push_str(word);
        }
        if let Some(force) = force {
            self.sentences.push(Sentence { text: words.join(" "), force, key_words });
        }
    }

    /// All places of this quotation in the section, regardless of line breaks.
    pub(crate) fn find(&self, quote: &str) -> Vec<Range> {
        let quote: String = quote.split_whitespace().collect();
        if quote.is_empty() {
            return Vec::new();
        }
        let starts = self.squeezed.match_indices(&quote).map(|(start, _)| start);
        starts.map(|start| Range { start, end: start + quote.len() }).collect()
    }
}

impl Sentence {
    /// Whether a quotation covers a key word of the sentence.
    pub(crate) fn is_covered_by(&self, range: Range) -> bool {
        self.key_words.iter().any(|&place| range.start <= place && place < range.end)
    }
}

/// The lines without page footers, form feeds and page headers; sentences may continue over a page break.
fn without_pages(text: &str) -> Vec<&str> {
    let mut kept: Vec<&str> = Vec::new();
    let mut between_pages = false;
    for line in text.lines() {
        let line = line.trim_start_matches('\u{c}');
        if line.trim_end().ends_with(']') && line.contains("[Page ") {
            between_pages = true;
            while kept.last().is_some_and(|last| last.trim().is_empty()) {
                kept.pop();
            }
            continue;
        }
        if between_pages {
            // The running header begins at the margin and names the RFC.
            if line.trim().is_empty() || line.starts_with("RFC ") {
                continue;
            }
            between_pages = false;
            if kept.last().is_some_and(|last| last.ends_with(['.', ':', '!', '?'])) {
                kept.push("");
            }
        }
        kept.push(line);
    }
    kept
}

/// Parses `6.3.3.  Title`, `A.1.  Title` or `Appendix A.  Title` at the margin.
fn rfc_heading(line: &str) -> Option<SectionId> {
    let appendix = line.strip_prefix("Appendix ").or_else(|| line.strip_prefix("APPENDIX "));
    let (number, title) = appendix.unwrap_or(line).split_once(' ')?;
    let title = title.trim_start();
    let number = number.trim_end_matches('.');
    let first = number.split('.').next()?;
    let is_number = first.bytes().all(|b| b.is_ascii_digit()) || (is_letter(first) && number.contains('.'));
    let is_title = title.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-' || c == '\'');
    if !is_title || !(is_number || (appendix.is_some() && is_letter(first))) {
        return None;
    }
    SectionId::parse(number)
}

/// Whether this is the name of an appendix: `A`, or `II` as in RFC 959.
fn is_letter(text: &str) -> bool {
    !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGED: &str = "\
1.  Introduction . . . . 2
2.3.  Rules  . . . . . . 3

1.  Introduction

   Nothing to do here.

2.3.  Rules

   An endpoint MUST send a HEARTBEAT-
   ACK at once.  It SHOULD NOT

Stewart                      Standards Track                    [Page 7]
\u{c}
RFC 9999                     An Example                       June 2022


   wait, e.g. for 333 ms.  It MAY rest.

   1.  An item REQUIRED by a list
2.3.1.  Deeper

   The peer MUST NOT lie.

3.4.  More

   Text.

Appendix A.  Sums

   A sum MUST be right.
";

    fn id(text: &str) -> SectionId {
        SectionId::parse(text).unwrap()
    }

    #[test]
    fn a_quotation_is_found_across_lines_hyphens_and_pages() {
        let spec = Spec::from_rfc(PAGED);
        let rules = spec.section(&id("2.3")).unwrap();
        for quote in
            ["An endpoint MUST send a HEARTBEAT-ACK at once.", "It SHOULD NOT wait, e.g. for 333 ms."]
        {
            assert_eq!(rules.find(quote).len(), 1, "{quote}");
        }
    }

    #[test]
    fn a_quotation_one_edit_away_is_not_found() {
        let spec = Spec::from_rfc(PAGED);
        let rules = spec.section(&id("2.3")).unwrap();
        for quote in ["It SHOULD NOT wait, e.g. for 334 ms.", "It MUST NOT wait", "Standards Track", ""] {
            assert!(rules.find(quote).is_empty(), "{quote}");
        }
    }

    #[test]
    fn a_section_ends_where_its_subsection_begins() {
        let spec = Spec::from_rfc(PAGED);
        assert!(spec.section(&id("2.3")).unwrap().find("The peer MUST NOT lie.").is_empty());
        assert_eq!(spec.whose("The peer MUST NOT lie."), Some(&id("2.3.1")));
        assert_eq!(spec.whose("A sum MUST be right."), Some(&id("A")));
    }

    #[test]
    fn normative_sentences_are_counted_by_force() {
        let spec = Spec::from_rfc(PAGED);
        let rules = &spec.section(&id("2.3")).unwrap().sentences;
        let forces: Vec<Force> = rules.iter().map(|sentence| sentence.force).collect();
        assert_eq!(forces, [Force::Must, Force::Should, Force::Must]);
        assert_eq!(rules[1].text, "It SHOULD NOT wait, e.g. for 333 ms.");
    }

    #[test]
    fn a_quotation_covers_a_sentence_only_with_its_key_word() {
        let spec = Spec::from_rfc(PAGED);
        let rules = spec.section(&id("2.3")).unwrap();
        let covers = |quote: &str| rules.sentences[0].is_covered_by(rules.find(quote)[0]);
        assert!(covers("An endpoint MUST send"));
        assert!(!covers("ACK at once."));
    }

    #[test]
    fn old_rfcs_indent_their_headings() {
        let spec = Spec::from_rfc(
            "4.  USE\n\n   4.1.  COMMANDS\n\n      Text.\n\n      4.1.1  ACCESS\n\n      More.\n      332.  On that\n",
        );
        let sections: Vec<String> = spec.sections().map(|(id, _)| id.to_string()).collect();
        assert_eq!(sections, ["4", "4.1", "4.1.1"]);
        assert_eq!(spec.whose("332. On that"), Some(&id("4.1.1")));
    }

    #[test]
    fn markdown_headings_carry_numbers() {
        let spec = Spec::from_markdown(
            "# FTP over SCTP\n\n## 3 Frames\n\nA receiver MUST count.\n\n### 3.2. Trailer\n\nIt MUST end.\n",
        );
        assert_eq!(spec.whose("A receiver MUST count."), Some(&id("3")));
        assert_eq!(spec.whose("It MUST end."), Some(&id("3.2")));
    }

    #[test]
    fn sections_sort_as_the_document_does() {
        assert!(id("6.2") < id("6.10"));
        assert!(id("15") < id("A.1"));
        assert_eq!(SectionId::parse("6.x"), None);
    }
}
