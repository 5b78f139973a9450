//! A scenario as a figure: its axes, columns, runs and picture.

use super::axes::{self, Axis as Varied, Place, Scope};
use super::check::{self, within};
use super::effects::Effects;
use super::expression::{self, Condition};
use super::files::Files;
use super::measure::{self, Measure};
use super::names;
use super::plan::Plan;
use super::tree::{Node, Value as Written, Wrong, nearest};
use super::view::View;
use super::{Added, Expectation, Scenario, run};
use crate::figure::{ALONE, Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::plot::{Marks, Plot, Scale};

/// The maximum number of points of a scenario.
const POINTS_MAX: usize = 100_000;
/// The axis of a scenario that varies nothing, or one parameter.
pub(super) const SCENARIO: &str = ALONE.0;

/// A file that was read; kept as long as the program runs.
pub(super) struct Document {
    pub(super) root: Node,
    pub(super) scope: Scope,
    files: Files,
    pub(super) measures: Vec<Measure>,
    only: Option<Condition>,
    quick: Option<Condition>,
    /// Lines that identify the text and the additions of a program, for the head of the results.
    notes: Vec<String>,
}

/// Reads a scenario. The result is never dropped: a program reads few scenarios.
pub(super) fn read(id: &str, root: Node, files: Files, added: Added) -> Result<Scenario, Wrong> {
    let scope = Scope { axes: axes::read(&root)?, controllers: added.controllers };
    check::check(&root, &scope)?;
    let total: usize = scope
        .axes
        .iter()
        .try_fold(1_usize, |all, axis| all.checked_mul(axis.choices.len()))
        .unwrap_or(usize::MAX);
    if total > POINTS_MAX {
        return Err(Wrong::at(&root, format!("there are {total} points, and {POINTS_MAX} at most")));
    }
    let condition = |key: &str| -> Result<Option<Condition>, Wrong> {
        let Some(node) = root.get(key) else { return Ok(None) };
        let condition = expression::condition(node.text().unwrap_or(""));
        let condition = condition.map_err(|error| within(node, error.span.clone(), error.what))?;
        names::check_condition(&condition, &scope.axes)
            .map_err(|error| within(node, error.span, error.what))?;
        Ok(Some(condition))
    };
    let (only, quick) = (condition("only")?, condition("quick")?);
    let mut document = Document { root, scope, files, measures: Vec::new(), only, quick, notes: added.notes };
    document.measures = measures(&document)?;
    let document: &'static Document = Box::leak(Box::new(document));
    let axes = axes_of(document);
    let plot = plot(document, axes)?;
    let columns: Vec<Column> =
        document.measures.iter().map(|it| Column { name: leaked(&it.name), unit: it.unit }).collect();
    let paired: Vec<&'static str> = axes
        .iter()
        .zip(&document.scope.axes)
        .filter(|(_, varied)| varied.paired)
        .map(|(axis, _)| axis.name)
        .collect();
    let sweep = Sweep {
        axes,
        only: Box::leak(Box::new(|point: &Point| document.has(&document.only, point))),
        quick: Box::leak(Box::new(|point: &Point| document.has(&document.quick, point))),
        fixed: Box::leak(Box::new(|point: &Point| !document.plan(point).is_random())),
        paired: Box::leak(paired.into_boxed_slice()),
        columns: Box::leak(columns.into_boxed_slice()),
        runs: runs(document)?,
        run: Box::leak(Box::new(|point: &Point, seed: u64| -> Row {
            run::run(&document.plan(point), &document.measures, seed, None)
        })),
        plot,
    };
    let points = sweep.points();
    if points.is_empty() {
        let node = document.root.get("only").unwrap_or(&document.root);
        return Err(Wrong::at(node, "no point fulfils `only`"));
    }
    if let Some(node) = document.root.get("quick")
        && !points.iter().any(|point| document.has(&document.quick, point))
    {
        return Err(Wrong::at(node, "no point fulfils `quick`"));
    }
    let expects = expects(document, &points, sweep.columns)?;
    // Each point is read now, so that no run fails because of an invalid value.
    let mut effects = Effects::default();
    for point in &points {
        let picks = document.picks(point);
        let view = document.view(&picks);
        effects.note(view, &Plan::read(view, &document.files)?);
    }
    effects.check()?;
    let root = &document.root;
    let text = |key: &str| root.get(key).and_then(Node::text).unwrap_or("");
    let figure = Figure {
        id: leaked(id),
        shows: leaked(text("title")),
        caption: leaked(text("caption")),
        settings: Box::leak(Box::new(|| document.settings())),
        kind: Kind::Sweep(sweep),
    };
    let watched = Box::leak(Box::new(|point: &Point, seed: u64, watcher: &mut dyn run::Watcher| {
        run::run(&document.plan(point), &document.measures, seed, Some(watcher))
    }));
    let (file, text) = (added.file, added.text);
    Ok(Scenario { figure: Box::leak(Box::new(figure)), expects, watched, document, file, text })
}

pub(super) fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

impl Document {
    /// The indices of a point's choices on each axis.
    pub(super) fn picks(&self, point: &Point) -> Vec<usize> {
        let pick = |axis: &Varied| {
            let value = point.value(&axis.name);
            let is_it = |choice: &axes::Choice| match (&choice.place, value) {
                (Place::Number(its), Value::Number(number)) => *its == number,
                (Place::Name(its), Value::Name(name)) => its == name,
                _ => false,
            };
            axis.choices.iter().position(is_it).unwrap_or(0)
        };
        self.scope.axes.iter().map(pick).collect()
    }

    pub(super) fn view<'a>(&'a self, picks: &'a [usize]) -> View<'a> {
        View::new(&self.root, &self.scope, picks)
    }

    /// The plan of a point.
    ///
    /// # Panics
    ///
    /// If the scenario was not checked, or a file was changed since.
    pub(super) fn plan(&self, point: &Point) -> Plan {
        let picks = self.picks(point);
        Plan::read(self.view(&picks), &self.files).unwrap_or_else(|wrong| panic!("{}", wrong.what))
    }

    fn has(&self, condition: &Option<Condition>, point: &Point) -> bool {
        condition.as_ref().is_none_or(|condition| names::holds(condition, &self.scope.axes, point))
    }

    /// The fixed settings, as given, or as the file describes them.
    fn settings(&self) -> Vec<String> {
        let notes = self.notes.iter().cloned().chain(self.files.digests());
        let mut lines: Vec<String> = match self.root.get("settings") {
            Some(given) => given.list().iter().filter_map(Node::text).map(str::to_owned).collect(),
            None => self.described(),
        };
        lines.extend(notes);
        lines
    }

    /// The fixed settings, as the file describes them.
    fn described(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let tables = |key: &str| self.root.get(key).map_or(&[][..], Node::entries).iter();
        for (kind, key) in [("link", "links"), ("transport", "transports")] {
            lines.extend(tables(key).map(|entry| format!("{kind} {}: {}", entry.key, written(&entry.node))));
        }
        for key in ["path", "workload", "event"] {
            let list = self.root.get(key).map_or(&[][..], Node::list).iter();
            lines.extend(list.map(|node| format!("{key}: {}", written(node))));
        }
        for key in ["lasts", "measure-from", "sample-every"] {
            lines.extend(self.root.get(key).and_then(Node::text).map(|text| format!("{key}: {text}")));
        }
        lines
    }
}

/// A value on one line.
fn written(node: &Node) -> String {
    match &node.value {
        Written::Text(text) => text.clone(),
        Written::List(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", ")),
        Written::Table(entries) => {
            let entry = |entry: &super::tree::Entry| match entry.node.value {
                Written::Table(_) => format!("{} = {{ {} }}", entry.key, written(&entry.node)),
                _ => format!("{} = {}", entry.key, written(&entry.node)),
            };
            entries.iter().map(entry).collect::<Vec<_>>().join(", ")
        }
        Written::Number(number) => number.to_string(),
        Written::Flag(flag) => flag.to_string(),
    }
}

fn measures(document: &Document) -> Result<Vec<Measure>, Wrong> {
    let picks = vec![0; document.scope.axes.len()];
    let plan = Plan::read(document.view(&picks), &document.files)?;
    let mut found: Vec<Measure> = Vec::new();
    let find = |name: &str| measure::find(name, &plan.workloads, &plan.network);
    match document.root.get("measure") {
        None => {
            for name in measure::defaults(&plan.workloads) {
                found.push(find(&name).map_err(|error| Wrong::at(&document.root, error))?);
            }
        }
        Some(list) => {
            for node in list.list() {
                let measure = find(node.text().unwrap_or("")).map_err(|error| Wrong::at(node, error))?;
                if document.scope.axes.iter().any(|axis| axis.name == measure.name)
                    || found.iter().any(|it| it.name == measure.name)
                {
                    return Err(Wrong::at(
                        node,
                        format!("there is another axis or column `{}`", measure.name),
                    ));
                }
                found.push(measure);
            }
        }
    }
    match (found.is_empty(), document.root.get("measure")) {
        (true, Some(node)) => Err(Wrong::at(node, "there is a column at least")),
        _ => Ok(found),
    }
}

fn axes_of(document: &'static Document) -> &'static [Axis] {
    let mut axes: Vec<Axis> = document
        .scope
        .axes
        .iter()
        .map(|axis| {
            let values: Vec<Value> = axis
                .choices
                .iter()
                .map(|choice| match &choice.place {
                    Place::Number(number) => Value::Number(*number),
                    Place::Name(name) => Value::Name(leaked(name)),
                })
                .collect();
            let shows = move |value: &Value| {
                let is_it = |choice: &&axes::Choice| match (&choice.place, value) {
                    (Place::Number(its), Value::Number(number)) => its == number,
                    (Place::Name(its), Value::Name(name)) => its == name,
                    _ => false,
                };
                axis.choices
                    .iter()
                    .find(is_it)
                    .map_or_else(|| value.to_string(), |choice| choice.label.clone())
            };
            Axis {
                name: &axis.name,
                label: &axis.label,
                values: Box::leak(values.into_boxed_slice()),
                show: Box::leak(Box::new(shows)),
            }
        })
        .collect();
    // A picture has lines along an axis, so at least two axes are needed.
    if axes.len() < 2 {
        let values = Box::leak(Box::new([ALONE.1]));
        axes.push(Axis { name: SCENARIO, label: "", values, show: &|_| "all runs".to_owned() });
    }
    Box::leak(axes.into_boxed_slice())
}

fn runs(document: &Document) -> Result<Runs, Wrong> {
    let picks = vec![0; document.scope.axes.len()];
    let view = document.view(&picks);
    let Some(node) = view.get("runs") else { return Ok(Runs::PAPER) };
    if let Some(count) = node.number() {
        return Ok(Runs::counted(count as u32));
    }
    let table = view.of(node);
    let min = table.count("min").map_or(Runs::PAPER.min, |count| count as u32);
    let max = table.count("max").map_or(Runs::PAPER.max.max(min), |count| count as u32);
    let within = table.fraction("within").unwrap_or(Runs::PAPER.within);
    if min > max || within == 0.0 {
        return Err(table.wrong("max", "`max` is `min` at least, and `within` above 0"));
    }
    Ok(Runs { min, max, within })
}

fn plot(document: &'static Document, axes: &'static [Axis]) -> Result<Plot, Wrong> {
    let table = document.root.get("plot");
    let given = |key: &str| table.and_then(|table| table.get(key));
    let named = |key: &str| {
        given(key).and_then(Node::text).and_then(|name| axes.iter().find(|axis| axis.name == name))
    };
    let first = &document.measures[0];
    let y = match given("y") {
        None => first,
        Some(node) => {
            let name = node.text().unwrap_or("");
            let known = || document.measures.iter().map(|measure| measure.name.as_str());
            let found = document.measures.iter().find(|measure| measure.name == name);
            found.ok_or_else(|| Wrong::at(node, format!("no column `{name}`; {}", nearest(name, known()))))?
        }
    };
    let chosen = ["x", "by", "facet", "rows"].map(|key| (key, given(key)));
    for (at, (key, node)) in chosen.iter().enumerate() {
        let (Some(node), before) = (node, &chosen[..at]) else { continue };
        let other = before.iter().find(|(_, its)| its.is_some_and(|its| its.text() == node.text()));
        if let Some((other, _)) = other {
            return Err(Wrong::at(node, format!("`{key}` and `{other}` are the same axis")));
        }
    }
    let marks = match given("marks").and_then(Node::text) {
        Some("bars") => Marks::Bars,
        Some("tail") => Marks::Tail,
        _ => Marks::Lines,
    };
    let has_numbers = |axis: &&Axis| matches!(axis.values[0], Value::Number(_));
    let taken = ["by", "facet", "rows"].map(|key| named(key).map(|axis| axis.name));
    let is_free = |axis: &&Axis| !taken.contains(&Some(axis.name));
    let last = |is: &dyn Fn(&&Axis) -> bool| axes.iter().rev().find(|axis| is(axis));
    let mut x = named("x").or_else(|| last(&|axis| is_free(axis) && has_numbers(axis)));
    x = x.or_else(|| last(&|axis| is_free(axis))).or_else(|| named("by"));
    let x = x.unwrap_or(&axes[0]).name;
    let by = named("by")
        .map(|axis| axis.name)
        .or_else(|| last(&|axis| axis.name != x && is_free(axis)).map(|axis| axis.name));
    let by = by.unwrap_or(x);
    let mut left =
        axes.iter().filter(|axis| axis.name != x && axis.name != by && is_free(axis)).map(|axis| axis.name);
    let facet = named("facet").map(|axis| axis.name).or_else(|| left.next());
    let rows = named("rows").map(|axis| axis.name).or_else(|| left.next());
    if let Some(axis) = left.next() {
        let what = format!(
            "axis `{axis}` is not in the picture, which has x, by, facet and rows: five axes are too many"
        );
        return Err(Wrong::at(table.unwrap_or(&document.root), what));
    }
    let label =
        given("label").and_then(Node::text).map_or_else(|| format!("{}: {}", y.name, y.unit), str::to_owned);
    let is_set = |key: &str| given(key).is_some_and(|node| node.value == Written::Flag(true));
    let scale = |key: &str| if is_set(key) { Scale::Log } else { Scale::Linear };
    let name: &'static str = leaked(&y.name);
    let x = if marks == Marks::Tail { by } else { x };
    let base = Plot::lines(x, name, leaked(&label));
    Ok(Plot { by, facet, rows, marks, x_scale: scale("log-x"), y_scale: scale("log-y"), ..base })
}

fn expects(
    document: &'static Document,
    points: &[Point],
    columns: &[Column],
) -> Result<Vec<Expectation>, Wrong> {
    let list = document.root.get("expect").map_or(&[][..], Node::list);
    let one = |node: &Node| {
        let text = node.text().unwrap_or("");
        let claim = expression::claim(text).map_err(|error| within(node, error.span, error.what))?;
        names::check_claim(&claim, &document.scope.axes, columns)
            .map_err(|error| within(node, error.span, error.what))?;
        if claim.at.is_some() && !points.iter().any(|point| document.has(&claim.at, point)) {
            return Err(Wrong::at(node, "no point fulfils the condition of this claim"));
        }
        Ok(Expectation { text: text.to_owned(), claim, axes: &document.scope.axes })
    };
    list.iter().map(one).collect()
}
