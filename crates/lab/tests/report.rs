//! The page of `braidlab report`: complete, well-formed and self-contained; in a browser, if one is
//! installed, drawn without errors, with numbers at the pointer and working legends.

#[path = "report_support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::process::{Command, Output};

use braidftp_lab::claim::Verdict;
use braidftp_lab::figure::{Kind, Sweep};
use braidftp_lab::papers;
use braidftp_lab::plot::Marks;
use braidftp_lab::report::{Judged, Outcome, Report, page};
use braidftp_lab::store::{Store, Variety};
use resvg::usvg::roxmltree::{Document, Node, ParsingOptions};

/// The page as XML, without the contents of scripts and styles. It must parse whatever its texts are.
fn skeleton(html: &str) -> String {
    let mut text = html.to_owned();
    for name in ["script", "style"] {
        let (open, close) = (format!("<{name}"), format!("</{name}>"));
        let mut kept = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(&open) {
            kept.push_str(before);
            rest = after.split_once(&close).expect("it is closed").1;
        }
        kept.push_str(rest);
        text = kept;
    }
    text
}

fn parse(text: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .unwrap_or_else(|error| panic!("the page does not parse: {error}"))
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

#[test]
fn the_page_parses_and_has_an_anchor_for_every_figure_and_claim() {
    let skeleton = skeleton(support::page());
    let document = parse(&skeleton);
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "duplicate id");
    let at = |id: &str| {
        let found = document.descendants().find(|node| node.attribute("id") == Some(id));
        text_of(found.unwrap_or_else(|| panic!("{id} is not on the page")))
    };
    for figure in papers::figures() {
        let text = at(figure.id);
        for part in [figure.shows, figure.caption, &format!("braidlab run {}", figure.id)] {
            assert!(text.contains(part), "{}: {part}", figure.id);
        }
        assert!(!text.contains("not run"), "{}", figure.id);
        for claim in papers::claims().filter(|claim| claim.needs.contains(&figure.id)) {
            assert!(text.contains(claim.id), "{} decides {}", figure.id, claim.id);
        }
    }
    let verdicts = ["✓ holds", "✗ does not hold", "⇄ contradicts", "◇ not a measurement"];
    for claim in papers::claims() {
        let text = at(claim.id);
        assert!(text.contains(claim.says), "{}: {text}", claim.id);
        assert!(verdicts.iter().any(|verdict| text.contains(verdict)), "{}: {text}", claim.id);
    }
    for paper in papers::ALL {
        for (id, value) in paper.printed {
            let claim = papers::claims().find(|claim| claim.id == *id);
            let claim = claim.unwrap_or_else(|| panic!("{id} is no claim"));
            assert!(claim.needs.iter().all(|figure| at(figure).contains(value)), "{id}: {value}");
        }
        for threat in paper.threats {
            assert!(at(paper.name).contains(threat), "{threat}");
        }
        assert!(at("summary").contains(paper.key));
        assert!(at(paper.name).contains(&format!("braidlab check {}", paper.key)));
    }
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        let id = link.strip_prefix('#').unwrap_or_else(|| panic!("{link} leads away from the page"));
        assert!(unique.contains(id), "{link} leads nowhere");
    }
}

#[test]
fn nothing_is_fetched() {
    let html = support::page();
    let skeleton = skeleton(html);
    for node in parse(&skeleton).descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let fetches = ["link", "img", "iframe", "object", "embed", "base", "image", "use", "video", "audio"];
        assert!(!fetches.contains(&name), "{name}");
        for attribute in node.attributes() {
            let of = attribute.name();
            let fetches = ["src", "srcset", "action", "formaction", "poster", "ping", "background"];
            assert!(!fetches.contains(&of) && !of.starts_with("on"), "{name} {of}");
        }
    }
    let without_namespace = html.replace("'http://www.w3.org/2000/svg'", "");
    for word in ["url(", "@import", "http:", "https:", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!without_namespace.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let again = page(&Report::gather(papers::ALL, &Store::new(support::folder())));
    assert!(again == *support::page(), "two pages of the same results differ");
}

#[test]
fn missing_figures_are_named_with_their_commands() {
    let empty = tempfile::tempdir().unwrap();
    let report = Report::gather(papers::ALL, &Store::new(empty.path()));
    for judged in report.papers.iter().flat_map(|part| &part.claims) {
        match &judged.outcome {
            Outcome::NotRun(missing) => assert_eq!(missing, judged.claim.needs),
            Outcome::Found(finding) => assert_eq!(finding.verdict, Verdict::NotAMeasurement),
            Outcome::Undecided(_) => panic!("{} was not checked", judged.claim.id),
        }
    }
    let html = page(&report);
    parse(&skeleton(&html));
    for figure in papers::figures() {
        let command = format!("<code class=\"command\">braidlab run {}</code>", figure.id);
        assert!(html.contains(&format!("It was not run yet. To make it: {command}")), "{}", figure.id);
    }
}

#[test]
fn a_quick_figure_is_labelled_and_decides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let figure = papers::figure("fcs/fig2a").unwrap();
    support::keep(&store, figure, Variety { quick: true, shard: None }, "braidlab run fcs/fig2a --quick");
    let report = Report::gather(papers::ALL, &store);
    let kept = &report.papers[0].figures[0];
    assert!(kept.found.as_ref().is_ok_and(|found| found.quick && !found.is_whole()));
    let needs = |judged: &&Judged| judged.claim.needs.contains(&"fcs/fig2a");
    for judged in report.papers.iter().flat_map(|part| &part.claims).filter(needs) {
        let is_open = matches!(&judged.outcome, Outcome::NotRun(missing) if missing.contains(&"fcs/fig2a"));
        assert!(is_open, "{}: {:?}", judged.claim.id, judged.outcome);
    }
    assert!(page(&report).contains("A quick run"));
    // A complete figure has priority.
    support::keep(&store, figure, Variety::default(), "braidlab run fcs/fig2a");
    let report = Report::gather(papers::ALL, &store);
    assert!(report.papers[0].figures[0].found.as_ref().is_ok_and(|found| found.is_whole()));
}

#[test]
fn a_comparison_with_live_runs_decides_its_claim() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "cell,world,run,seed,seconds\nlan/10k/1/ms,simulated,0,1,20\nlan/10k/1/ms,live,0,1,21\n";
    std::fs::write(folder.path().join("compare.csv"), format!("# command: braidlab compare\n{rows}"))
        .unwrap();
    let report = Report::gather(papers::ALL, &Store::new(folder.path()));
    let mut claims = report.papers.iter().flat_map(|part| &part.claims);
    let judged = claims.find(|judged| judged.claim.id == "P1-C22").unwrap();
    let holds = matches!(&judged.outcome, Outcome::Found(finding) if finding.verdict == Verdict::Holds);
    assert!(holds, "{:?}", judged.outcome);
}

#[test]
fn results_of_another_version_are_reported_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("fcs")).unwrap();
    std::fs::write(folder.path().join("fcs/fig2a.csv"), "# command: x\nloss,who\n0,me\n").unwrap();
    let html = page(&Report::gather(papers::ALL, &Store::new(folder.path())));
    assert!(html.contains("its columns are not those of this figure"), "{html}");
    parse(&skeleton(&html));
}

#[test]
fn results_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let evil = "</script><img src=\"x\" onerror='alert(1)'/>&amp;";
    let figure = papers::figure("fcs/fig2a").unwrap();
    support::keep(&store, figure, Variety::default(), evil);
    let scene = papers::figures().find(|figure| matches!(figure.kind, Kind::Scene(_))).unwrap();
    let path = store.path(scene, Variety::default(), "csv");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("# command: {evil}\nsays,number\n{},3\n", evil.replace('"', ""))).unwrap();
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\"><script>alert(2)</script>\
               <rect x=\"1\" onclick=\"alert(2)\"/></svg>";
    std::fs::write(path.with_extension("svg"), svg).unwrap();
    let html = page(&Report::gather(papers::ALL, &store));
    assert!(!html.contains("<img") && !html.contains("alert(2)"));
    let skeleton = skeleton(&html);
    let document = parse(&skeleton);
    let kept = document.descendants().find(|node| node.attribute("id") == Some(figure.id)).unwrap();
    assert!(text_of(kept).contains(evil), "what was typed is shown as it was typed");
}

fn braidlab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).args(arguments).output().unwrap()
}

#[test]
fn the_program_writes_the_page_and_reports_missing_results_and_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (site, results) = (folder.path().join("a/site"), folder.path().join("none"));
    let (site, results) = (site.to_str().unwrap(), results.to_str().unwrap());
    let made = braidlab(&["report", "P1", "-o", site, "--results", results]);
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(
        said.contains("index.html: 0 of ") && said.ends_with("\nnot run yet: braidlab run fcs\n"),
        "{said}"
    );
    let html = std::fs::read_to_string(folder.path().join("a/site/index.html")).unwrap();
    assert!(html.contains("id=\"fcs/fig2a\"") && !html.contains("id=\"multistream/fig6\""));
    let wrong = braidlab(&["report", "P99", "-o", site]);
    assert_eq!(wrong.status.code(), Some(1));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("no paper `P99`; there are P1 (fcs), P2 (multistream)"), "{said}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let inside = folder.path().join("file/site");
    let blocked = braidlab(&["report", "-o", inside.to_str().unwrap(), "--results", results]);
    assert_eq!(blocked.status.code(), Some(6));
    assert!(String::from_utf8(blocked.stderr).unwrap().contains("cannot write"));
}

#[test]
fn in_a_browser_pictures_are_drawn_and_interactive() {
    const NOTHING: [&str; 0] = [];
    for width in [1440, 800] {
        let Some(found) = support::probe(width) else { return };
        assert_eq!(found.errors, NOTHING, "at {width}");
        assert!(found.overflow <= 0.0, "at {width} the page is {} too wide", found.overflow);
        let ids: Vec<&str> = found.figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, papers::figures().map(|figure| figure.id).collect::<Vec<_>>());
        let has_number = |text: &str| text.contains(|c: char| c.is_ascii_digit());
        for figure in &found.figures {
            assert!(figure.marks > 0, "{}: nothing is drawn", figure.id);
            // Scenes and distributions are embedded as stored.
            let is_drawn = |sweep: &Sweep| sweep.plot.marks != Marks::Tail;
            let its = papers::figures().find(|its| its.id == figure.id).unwrap();
            assert!(!figure.silent || !its.sweep().is_some_and(is_drawn), "{}", figure.id);
            if figure.silent {
                continue;
            }
            assert!(has_number(&figure.tip), "{}: the pointer says `{}`", figure.id, figure.tip);
            assert!(has_number(&figure.keys), "{}: the keys say `{}`", figure.id, figure.keys);
            assert_eq!(figure.clipped, NOTHING, "{} at {width}", figure.id);
            assert_eq!(figure.overlapping, NOTHING, "{} at {width}", figure.id);
            if let Some([before, hidden, again]) = figure.legend {
                assert!(before > 0 && hidden == 0 && again == before, "{}: {:?}", figure.id, figure.legend);
            }
        }
        assert!(found.figures.iter().any(|figure| figure.legend.is_some()));
        assert_eq!(found.theme, ["light", "dark"].map(str::to_owned), "the button turns the page dark");
        assert!(found.filtered > 0 && found.filtered < papers::claims().count());
    }
}

#[test]
fn the_folder_of_a_report_has_versions_commands_and_rows_to_be_archived() {
    let folder = tempfile::tempdir().unwrap();
    let (site, results) = (folder.path().join("site"), folder.path().join("results"));
    let figure = papers::figure("fcs/fig2a").unwrap();
    support::keep(&Store::new(&results), figure, Variety::default(), "braidlab run P1 --seed 7");
    let made =
        braidlab(&["report", "P1", "-o", site.to_str().unwrap(), "--results", results.to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |name: &str| std::fs::read_to_string(site.join(name)).unwrap();
    assert_eq!(read("commands.txt"), "braidlab run P1 --seed 7\nbraidlab report P1\n");
    let rows = read("results/fcs/fig2a.csv");
    assert_eq!(rows, std::fs::read_to_string(results.join("fcs/fig2a.csv")).unwrap());
    assert!(rows.contains("\n# rustc: 1."), "{rows}");
    let html = skeleton(&read("index.html"));
    let document = parse(&html);
    let text = text_of(document.descendants().find(|node| node.attribute("id") == Some("summary")).unwrap());
    let version = format!("braidlab {} · rustc 1.", env!("CARGO_PKG_VERSION"));
    for part in ["Results of commit ", &version, "braidlab run P1 --seed 7", "braidlab report P1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A report into the folder above its results leaves them alone.
    let folder = folder.path().to_str().unwrap();
    let again = braidlab(&["report", "P1", "-o", folder, "--results", results.to_str().unwrap()]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(rows, std::fs::read_to_string(results.join("fcs/fig2a.csv")).unwrap());
}

#[test]
fn the_citation_names_the_version_of_the_workspace() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../CITATION.cff");
    let citation = std::fs::read_to_string(file).unwrap();
    let version = format!("version: {}", env!("CARGO_PKG_VERSION"));
    assert!(citation.lines().any(|line| line == version), "{citation}");
}
