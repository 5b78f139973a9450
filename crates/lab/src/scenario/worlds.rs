//! A scenario in two worlds: simulated, and live with real programs. The world is an axis of the figure that does not
//! enter the seed, so that the links of both worlds have the same seeds.

use super::figure::{Document, leaked};
use super::live::{self, HOSTS_TAKE, Tools, align, check, check_measure, with_hosts};
use super::measure::Measure;
use super::run;
use super::tree::Wrong;
use super::workloads::{Does, Workload};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, RunFailed, Sweep, Value};
use crate::stats;
use crate::table::Table;

/// The axis of the worlds.
pub const WORLD: &str = "world";
/// Its values.
pub const SIMULATED: &str = "sim";
/// See [`SIMULATED`].
pub const LIVE: &str = "live";
/// The live runs at once for each thread, fewer if their links are fast: they mostly wait, but the start of their programs
/// delays others.
pub const RUNS_PER_THREAD: usize = 2;
/// The difference of medians that is reported.
pub const CLOSE: f64 = 0.1;

/// A scenario as a figure with the axis [`WORLD`].
#[derive(Debug)]
pub struct Worlds {
    /// The figure: `NAME-live`.
    pub figure: &'static Figure,
    /// What differs from the scenario as it is written, in both worlds.
    pub notes: Vec<String>,
    /// The controllers of the kernel's TCP that it needs.
    pub controllers: Vec<&'static str>,
    /// The programs that it needs.
    pub programs: Vec<String>,
    /// Whether it needs braidftp.
    pub needs_braidftp: bool,
}

struct Both {
    document: &'static Document,
    measures: Vec<Measure>,
    tools: Tools,
}

/// Makes the figure of both worlds.
///
/// # Errors
///
/// Something in the file exists only simulated.
pub(super) fn worlds(
    figure: &'static Figure,
    document: &'static Document,
    tools: &Tools,
) -> Result<Worlds, Wrong> {
    let sweep = *figure.sweep().expect("a scenario is a sweep");
    if let Some(axis) = document.scope.axes.iter().find(|axis| axis.name == WORLD) {
        let node = document.root.get("axis").unwrap_or(&document.root);
        return Err(Wrong::at(
            node,
            format!("`{}` is the axis of --live: give this one another name", axis.name),
        ));
    }
    let points = sweep.points();
    let first = document.plan(&points[0]);
    let measures = measures(document, &first.workloads)?;
    let mut worlds = Worlds {
        figure,
        notes: Vec::new(),
        controllers: Vec::new(),
        programs: Vec::new(),
        needs_braidftp: false,
    };
    for point in &points {
        let picks = document.picks(point);
        let plan = document.plan(point);
        check(document.view(&picks), &plan)?;
        for workload in &plan.workloads {
            if workload.is_tcp() {
                worlds.controllers.extend(live::kernel_controller(workload));
            }
            match &workload.given.program {
                Some(program) => worlds.programs.extend(program.iter().map(|words| words[0].clone())),
                None => worlds.needs_braidftp |= matches!(workload.does, Does::Ftp { .. }),
            }
        }
    }
    worlds.programs.sort_unstable();
    worlds.programs.dedup();
    worlds.controllers.sort_unstable();
    worlds.controllers.dedup();
    if first.workloads.iter().any(|workload| matches!(workload.does, Does::Ftp { .. })) {
        worlds.notes.push(
            "in both worlds files are asked for as by `braidftp get`, with the login, and `seconds` counts from the client's \
             first packet"
                .to_owned(),
        );
    }
    let is_requests =
        |workload: &Workload| workload.is_tcp() && matches!(workload.does, Does::Transfers { .. });
    if first.workloads.iter().any(is_requests) {
        worlds.notes.push(
            "in both worlds requests over TCP are sent without Nagle's algorithm, which the kernel has in a variant of its own"
                .to_owned(),
        );
    }
    if first.network.links.iter().flat_map(|link| &link.ways).any(|way| way.mtu.is_none()) {
        worlds
            .notes
            .push("in both worlds links without `mtu` have one of 1500 B, as Ethernet has".to_owned());
    }
    worlds.notes.push(format!(
        "simulated hosts delay packets by up to {} ms, at random and in order, as the hosts of live runs do",
        HOSTS_TAKE.as_secs_f64() * 1e3
    ));
    let columns =
        measures.iter().map(|it| Column { name: leaked(&it.name), unit: it.unit }).collect::<Vec<_>>();
    let both: &'static Both = Box::leak(Box::new(Both { document, measures, tools: tools.clone() }));
    worlds.figure = both.figure(figure, sweep, columns, &worlds.notes);
    Ok(worlds)
}

/// The columns that a live run measures: all that the file names, or the default ones as far as they exist live.
fn measures(document: &Document, workloads: &[Workload]) -> Result<Vec<Measure>, Wrong> {
    let is_live = |measure: &&Measure| check_measure(measure, workloads).is_ok();
    let Some(list) = document.root.get("measure") else {
        return Ok(document.measures.iter().filter(is_live).cloned().collect());
    };
    for (node, measure) in list.list().iter().zip(&document.measures) {
        check_measure(measure, workloads).map_err(|what| Wrong::at(node, what))?;
    }
    Ok(document.measures.clone())
}

impl Both {
    fn figure(
        &'static self,
        figure: &'static Figure,
        sweep: Sweep,
        columns: Vec<Column>,
        notes: &[String],
    ) -> &'static Figure {
        const VALUES: &[Value] = &[Value::Name(SIMULATED), Value::Name(LIVE)];
        let axis = Axis { name: WORLD, label: "world", values: VALUES, show: &Value::to_string };
        let axes = [&[axis], sweep.axes].concat();
        let paired = [&[WORLD], sweep.paired].concat();
        let y = columns.iter().find(|column| column.name == sweep.plot.y).unwrap_or(&columns[0]);
        let mut plot = sweep.plot;
        if y.name != plot.y {
            (plot.y, plot.y_label) = (y.name, leaked(&format!("{}: {}", y.name, y.unit)));
        }
        plot.over = Some(WORLD);
        let sweep = Sweep {
            axes: Box::leak(axes.into_boxed_slice()),
            paired: Box::leak(paired.into_boxed_slice()),
            // Hosts take time at random in both worlds.
            fixed: &|_| false,
            columns: Box::leak(columns.into_boxed_slice()),
            run: Box::leak(Box::new(|point: &Point, seed: u64| self.run(point, seed))),
            plot,
            ..sweep
        };
        let notes: Vec<String> = notes.iter().map(|note| format!("worlds: {note}")).collect();
        Box::leak(Box::new(Figure {
            id: leaked(&format!("{}-live", figure.id)),
            settings: Box::leak(Box::new(move || [(figure.settings)(), notes.clone()].concat())),
            kind: Kind::Sweep(sweep),
            ..*figure
        }))
    }

    fn run(&self, point: &Point, seed: u64) -> Row {
        let mut plan = self.document.plan(point);
        align(&mut plan);
        match point.name(WORLD) {
            LIVE => live::run(&plan, &self.measures, seed, &self.tools)
                .unwrap_or_else(|why| RunFailed::end(format!("live: {why}"))),
            _ => {
                with_hosts(&mut plan);
                run::run(&plan, &self.measures, seed, None)
            }
        }
    }
}

/// Whether a point is live.
pub fn is_live(point: &Point) -> bool {
    point.name(WORLD) == LIVE
}

/// The medians of a column in both worlds.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The point, without the world.
    pub point: Point,
    /// The column.
    pub column: &'static str,
    /// The simulated and the live median.
    pub medians: [f64; 2],
}

impl Compared {
    /// The live median as a multiple of the simulated one.
    pub fn ratio(&self) -> f64 {
        let [simulated, live] = self.medians;
        if simulated == live { 1.0 } else { live / simulated }
    }

    /// Whether the medians differ by at most [`CLOSE`].
    pub fn is_close(&self) -> bool {
        (self.ratio() - 1.0).abs() <= CLOSE
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { point, column, medians: [simulated, live] } = self;
        let more = (self.ratio() - 1.0) * 100.0;
        write!(
            f,
            "{point}: the median of `{column}` is {} simulated and {} live ({more:+.0} %)",
            stats::short(*simulated),
            stats::short(*live)
        )
    }
}

/// Compares the medians of all columns at all points that ran in both worlds. Failed runs do not count.
pub fn compare(table: &Table) -> Vec<Compared> {
    let mut compared = Vec::new();
    for (index, point) in table.points().iter().enumerate().filter(|(_, point)| !is_live(point)) {
        let places: Vec<_> = point.places().iter().filter(|(axis, _)| *axis != WORLD).copied().collect();
        let is_twin =
            |other: &Point| is_live(other) && places.iter().all(|(axis, value)| other.value(axis) == *value);
        let Some(twin) = table.points().iter().position(is_twin) else { continue };
        for column in table.sweep().columns {
            let median = |cell: usize| {
                let values = table.cell(cell).values(column.name);
                let values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
                (!values.is_empty()).then(|| stats::quantile(&values, 0.5))
            };
            if let (Some(simulated), Some(live)) = (median(index), median(twin)) {
                let point = Point::new(places.clone());
                compared.push(Compared { point, column: column.name, medians: [simulated, live] });
            }
        }
    }
    compared
}
