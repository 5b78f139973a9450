//! `braidlab film`: one run of a scenario as an animated SVG, or as an MP4.

use std::path::PathBuf;
use std::time::Duration;

use braidftp_lab::film::{Movie, Recorder, Titles, draw};
use clap::Args as ClapArgs;

use super::one_run::{OneRun, seconds};
use super::print;
use super::report::keep;
use crate::Failure;

/// Make a film of one run: packets in the links, queues and windows over the simulated time, as an animated SVG
/// or as an MP4.
///
/// A browser plays the SVG, light or dark, without a script. The same point and seed give the same bytes. An output
/// that is named .mp4 is encoded by the program ffmpeg, which must be installed. Without --at, the film is of the
/// first point; --at gives the values of some axes.
///
/// A film has 4,000 packets at most: --from and --lasts choose the part of a longer run.
///
/// Example: braidlab film my.toml --at loss=0.03 --lasts 2 -o film.mp4; braidlab film multistream/fig6 --at variant=braid
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    which: OneRun,
    /// Where the film begins, in simulated seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: Duration,
    /// The simulated seconds of the film [default: to the end of the run]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lasts: Option<Duration>,
    /// The seconds of the film on the screen
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    screen: Duration,
    /// The file, which ends in .svg or .mp4
    #[arg(short, long, value_name = "FILE", default_value = "film.svg")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let is_named = |ending: &str| args.output.extension().is_some_and(|its| its.eq_ignore_ascii_case(ending));
    if args.output.extension().is_some() && !is_named("svg") && !is_named("mp4") {
        return Err(Failure::Usage(format!(
            "a film is an SVG or an MP4, and {} is named otherwise",
            args.output.display()
        )));
    }
    if args.screen < Duration::from_millis(100) {
        return Err(Failure::Usage("a film lasts 0.1 s on the screen at least".to_owned()));
    }
    // Before the run, which may take long.
    let movie = is_named("mp4").then(|| Movie::new(args.screen)).transpose().map_err(Failure::Usage)?;
    let (scenario, point) = args.which.find()?;
    let mut recorder = Recorder::new(args.from, args.lasts.unwrap_or(Duration::MAX));
    args.which.watch(&scenario, &point, &mut recorder);
    let (from, to) = recorder.span();
    let [from, to, end] = [from, to, recorder.ended()].map(|time| time.as_secs_f64());
    if from >= to {
        return Err(Failure::Usage(format!("the run ends after {end} s: --from begins the film too late")));
    }
    let which = format!("{} · {point} · seed {}", scenario.figure.id, args.which.seed);
    let titles = Titles { title: scenario.figure.shows, which: &which };
    let size = match movie {
        Some(movie) => {
            let frames =
                movie.encode(&recorder, &titles, args.screen, &args.output).map_err(Failure::File)?;
            format!("{frames} frames")
        }
        None => {
            let svg = draw(&recorder, &titles, args.screen);
            keep(&args.output, &svg)?;
            format!("{} kB", svg.len().div_ceil(1_000))
        }
    };
    print(&format!(
        "{}: {point}: {from:.3} s to {to:.3} s of {end:.3} s, {} packets, {size}\n",
        args.output.display(),
        recorder.packets(),
    ))
}
