//! Finds what has no effect at any point of a scenario: links, paths and transports that no workload uses, changes of links
//! that no workload uses, and what happens after the end of a run.
//!
//! What has an effect at one point is permitted: an axis may choose between two paths, or how long a run lasts.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::plan::{LASTS_MAX, Plan};
use super::tree::{Node, Wrong};
use super::view::{self, View};

/// The items of a file by position: the item, and the reason why it has no effect; `None` if it has one at some point.
#[derive(Debug, Default)]
pub(super) struct Effects(BTreeMap<usize, (Range<usize>, Option<String>)>);

impl Effects {
    /// Notes the effects at a point.
    pub(super) fn note(&mut self, root: View<'_>, plan: &Plan) {
        let used = Used::of(plan);
        self.network(root, plan, &used);
        for node in root.list("event") {
            let event = root.of(node);
            let link = event.text("link").unwrap_or("");
            let is_used =
                plan.network.links.iter().zip(&used.links).any(|(its, used)| its.name == link && *used);
            let unused = || format!("this event changes nothing: no workload uses a path over link `{link}`");
            self.item(&span(event, "link"), (!is_used).then(unused));
            let is_empty = event.get("set").is_some_and(|set| set.entries().is_empty());
            let empty = || "this event changes nothing: `set` has no key, such as `rate`".to_owned();
            self.item(&span(event, "set"), is_empty.then(empty));
        }
        self.times(root, plan);
    }

    /// Checks that every item has an effect at a point.
    ///
    /// # Errors
    ///
    /// The first one in the file that has none.
    pub(super) fn check(self) -> Result<(), Wrong> {
        let mut all = self.0.into_values();
        let without = all.find_map(|(span, reason)| reason.map(|what| Wrong { span, what }));
        without.map_or(Ok(()), Err)
    }

    fn item(&mut self, span: &Range<usize>, reason: Option<String>) {
        let noted = self.0.entry(span.start).or_insert_with(|| (span.clone(), reason.clone()));
        if reason.is_none() {
            noted.1 = None;
        }
    }

    /// Notes links, paths and transports.
    fn network(&mut self, root: View<'_>, plan: &Plan, used: &Used) {
        let links = root.get("links").map_or(&[][..], Node::entries);
        for (link, entry) in links.iter().enumerate() {
            let name = &entry.key;
            let is_in_path = plan.network.paths.iter().any(|path| path.via.contains(&link));
            let reason = match (used.links[link], is_in_path) {
                (true, _) => None,
                (false, true) => Some(format!("no workload uses a path over link `{name}`")),
                (false, false) => {
                    Some(format!("link `{name}` is in no path: name it in the `via` of a [[path]]"))
                }
            };
            self.item(&entry.span, reason);
        }
        for (path, node) in root.list("path").into_iter().enumerate() {
            let name = &plan.network.paths[path].name;
            let reason = match (used.paths[path], used.by_tcp[path]) {
                (true, _) => None,
                (false, true) => {
                    Some(format!("nothing is sent on path `{name}`: TCP uses the first path of a workload"))
                }
                (false, false) => Some(format!("no workload uses path `{name}`")),
            };
            self.item(&node.span, reason);
        }
        for entry in root.get("transports").map_or(&[][..], Node::entries) {
            let name = entry.key.as_str();
            let mut workloads = root.list("workload").into_iter();
            let is_used = workloads.any(|node| root.of(node).text("transport") == Some(name));
            self.item(&entry.span, (!is_used).then(|| format!("no workload uses transport `{name}`")));
        }
    }

    /// Notes what happens at a time.
    fn times(&mut self, root: View<'_>, plan: &Plan) {
        let end = match plan.lasts {
            Some(lasts) => format!("the run ends at {} s", lasts.as_secs_f64()),
            None => "a run lasts 30 days at most".to_owned(),
        };
        let ends = plan.lasts.unwrap_or(LASTS_MAX);
        let mut at = |span: Range<usize>, at: Option<Duration>, what: &str| {
            let is_late = at.is_some_and(|at| at >= ends);
            self.item(&span, is_late.then(|| format!("this {what} changes nothing: {end}")));
        };
        let links = root.get("links").map_or(&[][..], Node::entries);
        let mut tables: Vec<View<'_>> = links.iter().map(|entry| root.of(&entry.node)).collect();
        for node in root.list("event") {
            let event = root.of(node);
            at(span(event, "at"), event.time("at"), "event");
            tables.extend(event.table("set"));
        }
        for way in tables.into_iter().flat_map(|link| [Some(link), link.table("back")]).flatten() {
            for cut in way.list("down") {
                let begins = cut.list().first().and_then(|begins| view::time(root.resolve(begins)));
                at(cut.span.clone(), begins, "cut");
            }
            for step in way.list("rate") {
                let step = root.of(step);
                at(span(step, "from"), step.time("from"), "rate");
            }
        }
    }
}

/// The place of a key's value, or of its table.
fn span(view: View<'_>, key: &str) -> Range<usize> {
    view.get(key).unwrap_or(view.node).span.clone()
}

/// What the workloads of a point use.
struct Used {
    /// Whether packets pass each link.
    links: Vec<bool>,
    /// Whether packets are sent on each path.
    paths: Vec<bool>,
    /// Whether a workload over TCP names each path.
    by_tcp: Vec<bool>,
}

impl Used {
    fn of(plan: &Plan) -> Self {
        let none = || vec![false; plan.network.paths.len()];
        let (mut paths, mut by_tcp) = (none(), none());
        for workload in &plan.workloads {
            // A program of a live run may use MPTCP.
            let sends_on = match workload.given.program {
                Some(_) => &workload.paths[..],
                None => workload.paths_used(),
            };
            sends_on.iter().for_each(|path| paths[*path] = true);
            workload.paths.iter().filter(|_| workload.is_tcp()).for_each(|path| by_tcp[*path] = true);
        }
        let mut links = vec![false; plan.network.links.len()];
        for (path, _) in plan.network.paths.iter().zip(&paths).filter(|(_, is_used)| **is_used) {
            path.via.iter().for_each(|link| links[*link] = true);
        }
        Self { links, paths, by_tcp }
    }
}
