//! `braidlab film`: one run of a scenario as an animated SVG.

use std::path::PathBuf;
use std::time::Duration;

use braidftp_lab::figure::{Point, Sweep};
use braidftp_lab::film::{Recorder, Titles, draw};
use braidftp_lab::papers;
use braidftp_lab::scenario::Scenario;
use clap::Args as ClapArgs;

use super::report::keep;
use super::{is_scenario, load, print};
use crate::Failure;

/// Make a film of one run: packets in the links, queues and windows over the simulated time, as an animated SVG.
///
/// A browser plays the file, light or dark, without a script. The same point and seed give the same bytes.
/// braidlab encodes no MP4: play the SVG in a browser, and record the screen (OBS Studio, ffmpeg -f x11grab).
/// Without --at, the film is of the first point; --at gives the values of some axes.
///
/// A film has 4,000 packets at most: --from and --lasts choose the part of a longer run.
///
/// Example: braidlab film my.toml --at loss=0.03 --lasts 2 -o film.svg; braidlab film multistream/fig6 --at variant=braid
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A scenario file, as in my.toml, or a figure that a scenario describes, as in multistream/fig6
    #[arg(value_name = "ID")]
    id: String,
    /// The point: values on axes, as in loss=0.03,variant=braid
    #[arg(long, value_name = "AXIS=VALUE", value_delimiter = ',', value_parser = place)]
    at: Vec<(String, String)>,
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the film begins, in simulated seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: Duration,
    /// The simulated seconds of the film [default: to the end of the run]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lasts: Option<Duration>,
    /// The seconds of the film on the screen
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    screen: Duration,
    /// The file
    #[arg(short, long, value_name = "FILE", default_value = "film.svg")]
    output: PathBuf,
}

fn place(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(axis, value)| (axis.trim().to_owned(), value.trim().to_owned()));
    parts.ok_or_else(|| "write AXIS=VALUE, as in loss=0.03".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.0..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds, as in 2.5".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.output.extension().is_some_and(|ending| !ending.eq_ignore_ascii_case("svg")) {
        return Err(Failure::Usage(format!(
            "a film is an SVG, and {} is named otherwise; a browser plays it, and a screen recorder (OBS Studio, ffmpeg -f x11grab) \
             makes an MP4 of it",
            args.output.display()
        )));
    }
    if args.screen < Duration::from_millis(100) {
        return Err(Failure::Usage("a film lasts 0.1 s on the screen at least".to_owned()));
    }
    let scenario = scenario(&args.id)?;
    let sweep = scenario.figure.sweep().expect("a scenario is a sweep");
    let point = point(sweep, &args.at).map_err(Failure::Usage)?;
    let mut recorder = Recorder::new(args.from, args.lasts.unwrap_or(Duration::MAX));
    scenario.watch(&point, args.seed, &mut recorder);
    let (from, to) = recorder.span();
    let [from, to, end] = [from, to, recorder.ended()].map(|time| time.as_secs_f64());
    if from >= to {
        return Err(Failure::Usage(format!("the run ends after {end} s: --from begins the film too late")));
    }
    let which = format!("{} · {point} · seed {}", scenario.figure.id, args.seed);
    let svg = draw(&recorder, &Titles { title: scenario.figure.shows, which: &which }, args.screen);
    keep(&args.output, &svg)?;
    print(&format!(
        "{}: {point}: {from:.3} s to {to:.3} s of {end:.3} s, {} packets, {} kB\n",
        args.output.display(),
        recorder.packets(),
        svg.len().div_ceil(1_000)
    ))
}

fn scenario(id: &str) -> Result<Scenario, Failure> {
    if is_scenario(id) {
        return load(id);
    }
    papers::scenario(id).ok_or_else(|| {
        Failure::Usage(format!(
            "`{}` is neither a scenario file, as in my.toml, nor a figure that a scenario describes: {}",
            id.escape_debug(),
            papers::SCENARIOS.join(", ")
        ))
    })
}

/// The first point with these values.
fn point(sweep: &Sweep, at: &[(String, String)]) -> Result<Point, String> {
    for (name, value) in at {
        let Some(axis) = sweep.axis(name) else {
            let known: Vec<&str> = sweep.axes.iter().map(|axis| axis.name).collect();
            return Err(format!("no axis `{}`; there are {}", name.escape_debug(), known.join(", ")));
        };
        if !axis.values.iter().any(|its| its.to_string() == *value) {
            let known: Vec<String> = axis.values.iter().map(ToString::to_string).collect();
            return Err(format!(
                "axis {name} has no value `{}`; there are {}",
                value.escape_debug(),
                known.join(", ")
            ));
        }
    }
    let is_it = |point: &Point| at.iter().all(|(axis, value)| point.value(axis).to_string() == *value);
    sweep.points().into_iter().find(is_it).ok_or_else(|| "the scenario leaves this point out".to_owned())
}
