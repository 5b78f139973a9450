//! Arbitrary results for every figure, and what a browser finds on the page made of them.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use braidftp_lab::figure::{Figure, Kind, LiveSweep, Quick};
use braidftp_lab::papers;
use braidftp_lab::report::{self, Report};
use braidftp_lab::store::csv::{self, Head};
use braidftp_lab::store::{Store, Variety};
use braidftp_lab::table::Record;
use serde::Deserialize;
use tempfile::TempDir;

#[path = "../browser/mod.rs"]
mod browser;

/// The folder of results.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        for figure in papers::figures() {
            keep(&store, figure, Variety::default(), &format!("braidlab run {}", figure.paper()));
        }
        folder
    });
    FOLDER.path()
}

/// The page of all results.
pub(crate) fn page() -> &'static String {
    static PAGE: LazyLock<String> =
        LazyLock::new(|| report::page(&Report::gather(papers::ALL, &Store::new(folder()))));
    &PAGE
}

/// Stores made-up runs of a sweep, ten for each point, or a real scene.
pub(crate) fn keep(store: &Store, figure: &'static Figure, variety: Variety, command: &str) {
    let path = store.path(figure, variety, "csv");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let head = Head::new(figure, command, 1, figure.sweep().map(|sweep| sweep.runs));
    let mut text = head.to_string().into_bytes();
    match &figure.kind {
        Kind::Sweep(sweep) | Kind::Live(LiveSweep { sweep, .. }) => {
            let mut records = Vec::new();
            for point in 0..sweep.points().len() {
                for run in 0..10_u32 {
                    let number = |column: usize| {
                        let mix = (point as u64 * 31 + u64::from(run) * 7 + column as u64 * 13 + 1)
                            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        // From one to about ten thousand, like the slowest runs.
                        10_f64.powf((mix >> 40) as f64 / 1e7 + (point % 7) as f64 / 3.0)
                    };
                    let numbers = (0..sweep.columns.len()).map(number).collect();
                    records.push(Record { point, run, seed: u64::MAX - u64::from(run), numbers });
                }
            }
            text.extend(csv::titles(sweep));
            text.extend(csv::lines(sweep, &records));
        }
        kind => {
            let scene = kind.scene(1, Quick::Yes).expect("not a sweep");
            text.extend(csv::scene(&scene));
            fs::write(path.with_extension("svg"), &scene.svg).unwrap();
        }
    }
    fs::write(path, text).unwrap();
}

/// The findings of a browser.
#[derive(Debug, Deserialize)]
pub(crate) struct Found {
    /// JavaScript errors.
    pub(crate) errors: Vec<String>,
    /// By how many pixels the page is wider than its window.
    pub(crate) overflow: f64,
    /// By figure.
    pub(crate) figures: Vec<Drawn>,
    /// The theme before and after a click on the button.
    pub(crate) theme: [String; 2],
    /// The number of claims visible after one verdict is hidden.
    pub(crate) filtered: usize,
}

/// The findings about a figure.
#[derive(Debug, Deserialize)]
pub(crate) struct Drawn {
    /// Its id.
    pub(crate) id: String,
    /// The number of marks.
    pub(crate) marks: usize,
    /// Whether it is a scene without interactive parts.
    pub(crate) silent: bool,
    /// The tooltip.
    pub(crate) tip: String,
    /// The text for screen readers after an arrow key.
    pub(crate) keys: String,
    /// The number of shapes of a series; after a click on its name in the legend; and after a second click.
    pub(crate) legend: Option<[usize; 3]>,
    /// Texts that exceed their picture.
    pub(crate) clipped: Vec<String>,
    /// Texts that overlap.
    pub(crate) overlapping: Vec<String>,
}

/// Loads the page in a browser window of this width. `None`, with a message, if there is no browser.
pub(crate) fn probe(width: u32) -> Option<Found> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.html");
    let errors = "<script>window.errors = []; addEventListener('error', (event) => errors.push(String(event.message)));\
                  console.error = (...words) => errors.push(words.join(' '));</script><script>";
    let probe = format!("<script>{}</script></body>", include_str!("probe.js"));
    let html = page().replacen("<script>", errors, 1);
    let end = html.rfind("</body>").unwrap();
    fs::write(&file, format!("{}{probe}{}", &html[..end], &html[end + "</body>".len()..])).unwrap();
    let dom = browser::browse(folder.path(), width, &format!("file://{}", file.display()))?;
    Some(browser::probed(&dom))
}
