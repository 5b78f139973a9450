//! The data that decides claims: the results of figures, and the comparison of the simulator with live runs.

use std::collections::BTreeMap;

use crate::compare::{self, judge::Judged};
use crate::figure::Figure;
use crate::table::{Rows, Table};

/// The data that a claim may use: the figures that it needs.
#[derive(Debug, Default)]
pub struct Data {
    tables: BTreeMap<&'static str, Table>,
    scenes: BTreeMap<&'static str, Rows>,
    compared: Vec<Judged>,
}

impl Data {
    /// Adds the runs of a sweep.
    pub fn add_table(&mut self, figure: &'static Figure, table: Table) {
        self.tables.insert(figure.id, table);
    }

    /// Adds the rows of a scene.
    pub fn add_scene(&mut self, figure: &'static Figure, rows: Rows) {
        self.scenes.insert(figure.id, rows);
    }

    /// Adds the results of `braidlab compare`.
    pub fn add_compared(&mut self, rows: &[compare::rows::Row]) {
        self.compared = compare::judge::judge(rows);
    }

    /// The cells run both in the simulator and live; empty if there is no comparison.
    pub fn compared(&self) -> &[Judged] {
        &self.compared
    }

    /// Whether a figure is present.
    pub fn has(&self, id: &str) -> bool {
        self.tables.contains_key(id) || self.scenes.contains_key(id)
    }

    /// Returns the runs of a sweep.
    ///
    /// # Panics
    /// If it is absent: the claim does not list it in `needs`.
    pub fn table(&self, id: &str) -> &Table {
        self.tables.get(id).unwrap_or_else(|| panic!("{id} is not in the claim's `needs`, or not a sweep"))
    }

    /// Returns the rows of a scene.
    ///
    /// # Panics
    /// If it is absent: the claim does not list it in `needs`.
    pub fn scene(&self, id: &str) -> &Rows {
        self.scenes.get(id).unwrap_or_else(|| panic!("{id} is not in the claim's `needs`, or not a scene"))
    }
}
