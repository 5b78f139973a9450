//! The choice of one run of a scenario, for the commands that show it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use braidftp_lab::figure::{Point, RunFailed, Sweep};
use braidftp_lab::papers;
use braidftp_lab::scenario::{Scenario, Watcher};
use clap::Args as ClapArgs;

use super::{is_scenario, load};
use crate::Failure;

/// One run: a scenario, a point and a seed.
#[derive(Debug, ClapArgs)]
pub(crate) struct OneRun {
    /// A scenario file, as in my.toml, or a figure that a scenario describes, as in multistream/fig6
    #[arg(value_name = "ID")]
    id: String,
    /// The point: values on axes, as in loss=0.03,variant=braid
    #[arg(long, value_name = "AXIS=VALUE", value_delimiter = ',', value_parser = place)]
    at: Vec<(String, String)>,
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl OneRun {
    /// Reads the scenario and finds the point.
    pub(crate) fn find(&self) -> Result<(Scenario, Point), Failure> {
        let scenario = scenario(&self.id)?;
        let sweep = scenario.figure.sweep().expect("a scenario is a sweep");
        let point = point(sweep, &self.at).map_err(Failure::Usage)?;
        Ok((scenario, point))
    }

    /// Runs it with a watcher. If the run fails, what was seen of it remains, and the reason is printed.
    pub(crate) fn watch(&self, scenario: &Scenario, point: &Point, watcher: &mut dyn Watcher) {
        let run = catch_unwind(AssertUnwindSafe(|| scenario.watch(point, self.seed, watcher)));
        match run.map_err(|panic| panic.downcast::<RunFailed>()) {
            Ok(_) => {}
            Err(Ok(failed)) => eprintln!("braidlab: the run failed: {}", failed.message),
            Err(Err(panic)) => resume_unwind(panic),
        }
    }
}

fn place(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(axis, value)| (axis.trim().to_owned(), value.trim().to_owned()));
    parts.ok_or_else(|| "write AXIS=VALUE, as in loss=0.03".to_owned())
}

/// Parses simulated seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.0..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds, as in 2.5".to_owned())
}

/// The scenario of a file or of a figure.
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
