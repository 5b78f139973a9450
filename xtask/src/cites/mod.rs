//! `cargo xtask cites`: every quotation of a specification in the sources, checked word for word.
//!
//! A citation is a target line, perhaps a type line, and the quoted text:
//! ```text
//! = specs/rfc9260.txt#section-6.3.3
//! = type=test
//! # the words as they stand in that section
//! ```
//! each after `//`. White space is ignored; everything else must match. A packet script (`.pkt`) is a test,
//! so its citations need no type. What the code does not implement is listed in
//! `specs/exceptions/<spec>.toml` with a reason, and verified in the same way. The summary counts the
//! sentences with MUST or SHOULD that are cited, tested or excepted, and those left: `untested`, cited over
//! code but over no test, and `open`, neither cited nor excepted.
//!
//! A wrong quotation is an error. So is an open or untested sentence in a specification whose exceptions say
//! `complete = true`.

mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::spec::{Force, Section, SectionId, Spec};
use crate::tidy::tracked_files;

/// A quotation in a source file, or an exception.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Citation {
    /// The file and line of the citation.
    at: String,
    /// The quoted file: `specs/rfc9260.txt`.
    spec: String,
    /// The section, as written.
    section: String,
    /// The kind of the citation.
    kind: Kind,
    /// The quoted text; empty only for an exception of a whole section.
    quote: String,
}

/// The kind of a citation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The code below implements the sentence.
    Code,
    /// The test below verifies the sentence.
    Test,
    /// The sentence is not implemented, for a given reason.
    Exception,
}

/// `specs/exceptions/<spec>.toml`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    /// Whether every normative sentence must be accounted for.
    #[serde(default)]
    complete: bool,
    #[serde(default)]
    exception: Vec<Exception>,
}

/// A sentence or a whole section that the code does not implement.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    section: String,
    #[serde(default)]
    quote: String,
    reason: String,
}

/// A range of a section covered by a citation; without ranges the whole section.
type Covered = (Kind, Vec<spec::Range>);

/// The citations of each section of each specification.
type CoveredSections = BTreeMap<(String, SectionId), Vec<Covered>>;

/// The coverage of the text, by force.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    must: Counts,
    should: Counts,
}

/// The number of sentences, and of those covered in each way. A sentence may be both cited and tested.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    all: usize,
    code: usize,
    test: usize,
    exception: usize,
    untested: usize,
    open: usize,
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.all += more.all;
        self.code += more.code;
        self.test += more.test;
        self.exception += more.exception;
        self.untested += more.untested;
        self.open += more.open;
    }
}

/// The citations of a normative sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    code: bool,
    test: bool,
    exception: bool,
}

impl Marks {
    fn untested(self) -> bool {
        self.code && !self.test && !self.exception
    }

    fn open(self) -> bool {
        !(self.code || self.test || self.exception)
    }
}

/// What to print in addition to the totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Totals,
    Sections,
    /// Every open sentence.
    Missing,
    /// Every untested sentence.
    Untested,
    /// Every normative sentence.
    List,
}

/// Checks every quotation and prints the counts.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut detail = Detail::Totals;
    let mut only = None;
    for arg in args {
        match arg.as_str() {
            "--sections" => detail = Detail::Sections,
            "--missing" => detail = Detail::Missing,
            "--untested" => detail = Detail::Untested,
            "--list" => detail = Detail::List,
            name if !name.starts_with('-') => only = Some(name),
            _ => bail!("usage: cargo xtask cites [--sections|--missing|--untested|--list] [SPEC]"),
        }
    }
    let mut problems = Vec::new();
    let mut citations = citations_of_tree(&mut problems)?;
    let (excepted, complete) = exceptions()?;
    citations.extend(excepted);

    let mut specs: BTreeMap<String, Spec> = BTreeMap::new();
    let mut covered: CoveredSections = BTreeMap::new();
    for citation in &citations {
        if !specs.contains_key(&citation.spec) {
            specs.insert(citation.spec.clone(), load(&citation.spec)?.unwrap_or_default());
        }
        match verify(citation, &specs[&citation.spec]) {
            Ok((id, ranges)) => {
                covered.entry((citation.spec.clone(), id)).or_default().push((citation.kind, ranges));
            }
            Err(problem) => problems.push(problem),
        }
    }

    for (name, spec) in &specs {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let report = Report { name, detail, is_complete: complete.contains(name) };
        let mut total = Tally::default();
        for (id, section) in spec.sections() {
            let ranges = covered.get(&(name.clone(), id.clone())).map_or(&[][..], Vec::as_slice);
            let tally = report.section(id, section, ranges, &mut problems);
            total.must.add(tally.must);
            total.should.add(tally.should);
        }
        println!("{name:<34} {total}");
    }
    let quotes = citations.iter().filter(|citation| !citation.quote.is_empty()).count();
    println!("cites: {quotes} quotations of {} documents, {} wrong", specs.len(), problems.len());
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// Reads the citations of every source file and packet script; malformed ones go to `problems`.
fn citations_of_tree(problems: &mut Vec<String>) -> Result<Vec<Citation>> {
    let mut citations = Vec::new();
    for path in tracked_files()? {
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Kind::Code,
            Some("pkt") => Kind::Test,
            _ => continue,
        };
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (found, wrong) = citations_in(&path.display().to_string(), &text, kind);
        citations.extend(found);
        problems.extend(wrong);
    }
    Ok(citations)
}

/// The printed report about a specification.
struct Report<'a> {
    name: &'a str,
    detail: Detail,
    /// Whether each of its sentences must be accounted for.
    is_complete: bool,
}

impl Report<'_> {
    /// Counts the sentences of a section, and prints the selected ones.
    fn section(
        &self,
        id: &SectionId,
        section: &Section,
        ranges: &[Covered],
        problems: &mut Vec<String>,
    ) -> Tally {
        let name = self.name;
        let mut tally = Tally::default();
        for sentence in &section.sentences {
            let by = |kind| {
                ranges.iter().any(|(this, ranges)| {
                    *this == kind && (ranges.is_empty() || ranges.iter().any(|&r| sentence.is_covered_by(r)))
                })
            };
            let marks = Marks { code: by(Kind::Code), test: by(Kind::Test), exception: by(Kind::Exception) };
            let counts = match sentence.force {
                Force::Must => &mut tally.must,
                Force::Should => &mut tally.should,
            };
            counts.add(Counts {
                all: 1,
                code: usize::from(marks.code),
                test: usize::from(marks.test),
                exception: usize::from(marks.exception),
                untested: usize::from(marks.untested()),
                open: usize::from(marks.open()),
            });
            let shown = match self.detail {
                Detail::Totals | Detail::Sections => false,
                Detail::Missing => marks.open(),
                Detail::Untested => marks.untested(),
                Detail::List => true,
            };
            if shown {
                println!("{name} §{id} {:?} {marks}: {}", sentence.force, sentence.text);
            }
            if (marks.open() || marks.untested()) && self.is_complete {
                problems.push(format!(
                    "{name} section {id}: marked as complete, but this sentence has only {marks}: `{}`",
                    sentence.text
                ));
            }
        }
        if self.detail == Detail::Sections && tally.must.all + tally.should.all > 0 {
            println!("{:<34} {tally}", format!("{name} §{id}"));
        }
        tally
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, counts) in [("MUST", self.must), ("SHOULD", self.should)] {
            let Counts { all, code, test, exception, untested, open } = counts;
            write!(f, "{name} {all:>3}: {code:>3} code {test:>3} test {exception:>3} excepted ")?;
            write!(f, "{untested:>3} untested {open:>3} open   ")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let marks = [(self.code, "code"), (self.test, "test"), (self.exception, "excepted")];
        let said: Vec<_> = marks.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
        f.write_str(if said.is_empty() { "nothing".to_owned() } else { said.join("+") }.as_str())
    }
}

/// Returns the citations of a source file or script, and the malformed ones. Citations without a type line
/// are of the kind `kind`.
fn citations_in(file: &str, text: &str, kind: Kind) -> (Vec<Citation>, Vec<String>) {
    let mut found: Vec<Citation> = Vec::new();
    let mut problems = Vec::new();
    let mut open: Option<Citation> = None;
    for (number, line) in text.lines().enumerate() {
        let at = format!("{file}:{}", number + 1);
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("//=") {
            let rest = rest.trim();
            if let Some(kind) = rest.strip_prefix("type=") {
                match (&mut open, kind) {
                    (Some(citation), "test") if citation.quote.is_empty() => citation.kind = Kind::Test,
                    (_, "test") => {
                        problems.push(format!("{at}: `type=test` belongs between the target and the quote"))
                    }
                    _ => problems.push(format!("{at}: the only type is `test`, not `{kind}`")),
                }
                continue;
            }
            found.extend(open.take());
            let target = rest.split_once("#section-").or_else(|| rest.split_once("#appendix-"));
            match target {
                Some((spec, section)) if spec.starts_with("specs/") => {
                    open = Some(Citation {
                        at,
                        spec: spec.to_owned(),
                        section: section.to_owned(),
                        kind,
                        quote: String::new(),
                    });
                }
                _ => {
                    problems.push(format!("{at}: `{rest}` is not a target; write specs/rfcN.txt#section-X.Y"))
                }
            }
        } else if let Some(quoted) = line.strip_prefix("//#") {
            match &mut open {
                Some(citation) => {
                    citation.quote.push_str(quoted.trim());
                    citation.quote.push(' ');
                }
                None => {
                    problems.push(format!("{at}: a quotation without a target line `//= specs/…` above it"))
                }
            }
        } else {
            found.extend(open.take());
        }
    }
    found.extend(open);
    (found, problems)
}

/// Reads everything in `specs/exceptions`; also returns the specifications marked as complete.
fn exceptions() -> Result<(Vec<Citation>, BTreeSet<String>)> {
    let mut all = Vec::new();
    let mut complete = BTreeSet::new();
    let mut files: Vec<PathBuf> = match std::fs::read_dir("specs/exceptions") {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?,
        Err(_) => return Ok((all, complete)),
    };
    files.sort();
    for path in files {
        let at = path.display().to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {at}"))?;
        let exceptions: Exceptions = toml::from_str(&text).with_context(|| format!("{at} is malformed"))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let spec = ["txt", "md"].map(|extension| format!("specs/{stem}.{extension}"));
        let Some(spec) = spec.into_iter().find(|spec| Path::new(spec).exists()) else {
            bail!("{at}: there is no specs/{stem}.txt or .md");
        };
        if exceptions.complete {
            complete.insert(spec.clone());
        }
        for exception in exceptions.exception {
            let at = format!("{at} (section {})", exception.section);
            if exception.reason.trim().is_empty() {
                bail!("{at}: an exception needs a reason");
            }
            all.push(Citation {
                at,
                spec: spec.clone(),
                section: exception.section,
                kind: Kind::Exception,
                quote: exception.quote,
            });
        }
    }
    Ok((all, complete))
}

/// Reads a specification; `None` if the file does not exist.
fn load(path: &str) -> Result<Option<Spec>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(if path.ends_with(".md") { Spec::from_markdown(&text) } else { Spec::from_rfc(&text) }))
}

/// Locates a citation's text, or returns what is wrong with it. An exception of a whole section has no
/// ranges.
fn verify(citation: &Citation, spec: &Spec) -> Result<(SectionId, Vec<spec::Range>), String> {
    let Citation { at, section, quote, kind, .. } = citation;
    let section_id = SectionId::parse(section);
    let Some((id, section)) = section_id.and_then(|id| spec.section(&id).map(|section| (id, section))) else {
        return Err(format!("{at}: {} has no section {section}, or is not there", citation.spec));
    };
    if quote.is_empty() {
        return match kind {
            Kind::Exception => Ok((id, Vec::new())),
            Kind::Code | Kind::Test => Err(format!("{at}: a citation without a quotation")),
        };
    }
    if quote.split_whitespace().count() < 3 {
        return Err(format!(
            "{at}: `{quote}` is too short to identify a sentence; quote three words or more"
        ));
    }
    let ranges = section.find(quote);
    if ranges.is_empty() {
        let hint = match spec.whose(quote) {
            Some(other) => format!("found in section {other}"),
            None => "nor found anywhere else".to_owned(),
        };
        return Err(format!(
            "{at}: not the words of {} section {id}, {hint}: `{}`",
            citation.spec,
            quote.trim()
        ));
    }
    Ok((id, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The slashes are added here, because this file is searched for citations like any other.
    fn source(lines: &[&str]) -> String {
        lines.iter().map(|line| line.replacen('@', "//", 1) + "\n").collect()
    }

    fn spec() -> Spec {
        Spec::from_rfc(
            "6.2.  Acks\n\n   The endpoint MUST acknowledge\n   each packet.\n\n6.3.  Timers\n\n   It SHOULD back off.\n",
        )
    }

    #[test]
    fn a_citation_has_a_target_a_type_and_words() {
        let text = source(&[
            "    @= specs/rfc1.txt#section-6.2",
            "    @# The endpoint MUST acknowledge",
            "    @# each packet.",
            "    fn ack() {}",
            "@= specs/rfc1.txt#section-6.3",
            "@= type=test",
            "@# It SHOULD back off.",
        ]);
        let (found, problems) = citations_in("a.rs", &text, Kind::Code);
        assert!(problems.is_empty(), "{problems:?}");
        let kinds: Vec<_> = found.iter().map(|c| (c.at.as_str(), c.section.as_str(), c.kind)).collect();
        assert_eq!(kinds, [("a.rs:1", "6.2", Kind::Code), ("a.rs:5", "6.3", Kind::Test)]);
        assert!(found.iter().all(|citation| verify(citation, &spec()).is_ok()));
    }

    #[test]
    fn two_citations_may_follow_each_other() {
        let text = source(&[
            "@= specs/a.txt#section-1",
            "@# one two three",
            "@= specs/a.txt#section-2",
            "@# four five six",
        ]);
        let (found, _) = citations_in("a.rs", &text, Kind::Code);
        assert_eq!(
            found.iter().map(|c| c.quote.trim()).collect::<Vec<_>>(),
            ["one two three", "four five six"]
        );
    }

    #[test]
    fn the_citations_of_a_script_are_tests() {
        let text = source(&["@= specs/rfc1.txt#section-6.2", "@# The endpoint MUST acknowledge"]);
        let (found, problems) = citations_in("a.pkt", &text, Kind::Test);
        assert_eq!((found[0].kind, problems), (Kind::Test, vec![]));
    }

    #[test]
    fn a_sentence_cited_over_code_only_is_untested_and_an_uncited_one_is_open() {
        let marks = |code, test, exception| Marks { code, test, exception };
        assert!(marks(true, false, false).untested());
        assert!(!marks(true, true, false).untested() && !marks(true, false, true).untested());
        assert!(marks(false, false, false).open() && !marks(false, true, false).open());
        assert_eq!(marks(true, true, false).to_string(), "code+test");
    }

    #[test]
    fn a_malformed_citation_is_reported() {
        for lines in [
            &["@# words without a target"][..],
            &["@= https://www.rfc-editor.org/rfc/rfc9260#section-6.2"],
            &["@= specs/rfc1.txt"],
            &["@= type=test"],
            &["@= specs/rfc1.txt#section-6.2", "@= type=todo", "@# The endpoint MUST"],
            &["@= specs/rfc1.txt#section-6.2", "@# The endpoint MUST", "@= type=test"],
        ] {
            assert_eq!(citations_in("a.rs", &source(lines), Kind::Code).1.len(), 1, "{lines:?}");
        }
    }

    #[test]
    fn only_the_exact_words_of_that_section_pass() {
        let citation = |section: &str, quote: &str| Citation {
            at: "a.rs:1".to_owned(),
            spec: "specs/rfc1.txt".to_owned(),
            section: section.to_owned(),
            kind: Kind::Code,
            quote: quote.to_owned(),
        };
        let wrong = |section, quote| verify(&citation(section, quote), &spec()).unwrap_err();
        assert!(verify(&citation("6.2", "MUST  acknowledge each packet."), &spec()).is_ok());
        assert!(
            wrong("6.2", "The endpoint SHOULD acknowledge each packet.").contains("nor found anywhere else")
        );
        assert!(wrong("6.2", "It SHOULD back off.").contains("section 6.3"));
        assert!(wrong("6.9", "It SHOULD back off.").contains("no section 6.9"));
        assert!(wrong("6.3", "SHOULD back").contains("too short"));
        assert!(wrong("6.3", "").contains("without a quotation"));
    }
}
