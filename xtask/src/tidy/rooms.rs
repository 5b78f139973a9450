//! The rooms of `sctp::association`: which of its modules may import which.
//!
//! Each module that is a direct child of `association` is in one room of [`ROOMS`], and may import modules of its room and of
//! the rooms that its room lists. An extension of [`DOORS`] may only be imported by the modules named there, its doors, so
//! that an extension that is off affects nothing else. `association` itself may import all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::circles::{Module, graph, sources};
use crate::rules::{DOORS, ROOMS};

/// The module whose children have rooms.
const PARENT: [&str; 1] = ["association"];

/// Reports imports that the tables do not permit.
pub(super) fn check(problems: &mut Vec<String>) -> Result<()> {
    problems.extend(complaints(&imports(&graph(&sources(Path::new("crates/sctp/src"))?))));
    Ok(())
}

/// The imports between the direct children of `association`; those of their submodules count as theirs.
fn imports(graph: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<String, BTreeSet<String>> {
    let child = |module: &Module| match &module[..] {
        [parent, child, ..] if *parent == PARENT[0] => Some(child.clone()),
        _ => None,
    };
    let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
    for (from, to) in graph {
        let Some(from) = child(from) else { continue };
        let of_children = to.iter().filter_map(child).filter(|to| *to != from);
        imports.entry(from.clone()).or_default().extend(of_children);
    }
    imports
}

fn complaints(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let room_of = |module: &str| ROOMS.iter().find(|room| room.modules.contains(&module));
    let mut found = Vec::new();
    for (from, to) in imports {
        let Some(room) = room_of(from) else {
            found.push(format!(
                "sctp: association::{from} is in no room; add it to one in xtask/src/rules.rs"
            ));
            continue;
        };
        for to in to {
            let other = room_of(to).map_or("", |room| room.name);
            if other != room.name && !room.may_import.contains(&other) {
                found.push(format!(
                    "sctp: association::{from} imports association::{to}, but {} may not import {other} (xtask/src/rules.rs)",
                    room.name
                ));
            }
            let door = DOORS.iter().find(|(extension, _)| extension == to);
            if door.is_some_and(|(_, doors)| !doors.contains(&from.as_str())) {
                found.push(format!(
                    "sctp: association::{from} imports the extension association::{to} and is none of its doors; reach it \
                     through one, or add it to DOORS in xtask/src/rules.rs"
                ));
            }
        }
    }
    let names = || ROOMS.iter().flat_map(|room| room.modules);
    let gone = names().filter(|module| !imports.contains_key(**module));
    found.extend(
        gone.map(|module| {
            format!("sctp: the table of rooms lists association::{module}, which does not exist")
        }),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(from: &str, to: &str) -> Vec<String> {
        let modules = ROOMS.iter().flat_map(|room| room.modules);
        let mut imports: BTreeMap<_, _> =
            modules.map(|module| ((*module).to_owned(), BTreeSet::new())).collect();
        imports.entry(from.to_owned()).or_default().insert(to.to_owned());
        complaints(&imports)
    }

    #[test]
    fn an_import_into_another_room_needs_its_permission() {
        assert_eq!(with("receive", "sent"), [""; 0]);
        assert!(with("sent", "receive")[0].contains("sending may not import receiving"));
        assert!(with("novel", "sent")[0].starts_with("sctp: association::novel is in no room"));
    }

    #[test]
    fn an_extension_is_imported_at_its_doors_only() {
        assert_eq!(with("handshake", "asconf"), [""; 0]);
        assert!(with("transmit", "asconf")[0].contains("is none of its doors"));
    }

    #[test]
    fn a_module_that_does_not_exist_is_reported() {
        assert!(complaints(&BTreeMap::new()).iter().all(|complaint| complaint.ends_with("does not exist")));
    }
}
