//! The settings of a mirror in either direction: what it transfers, compares and deletes.

use super::Job;
use super::compare::Compare;
use super::filter::Filter;
use super::plan::{Facts, Plan};
use crate::exit::{Error, Exit, Result, escape};
use crate::report::Action;
use crate::store::fs;

/// Why entries that are neither files, folders nor links are left out.
pub(super) const DEVICE: &str = "it is a device, a pipe or a socket";

/// What a mirror transfers, and what it may delete.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// The selection of paths.
    pub filter: Filter,
    /// Whether to delete what the source does not have.
    pub delete: Delete,
    /// What is transferred besides the contents.
    pub keep: Keep,
    /// Which files are treated as equal.
    pub compare: Compare,
    /// The maximum number of deletions; if there are more, nothing is deleted.
    pub max_delete: usize,
    /// The plan to write or to apply.
    pub plan: Plan,
}

impl Mirror {
    /// Mirrors everything, compared by size and time; deletes as `delete` says.
    ///
    /// # Errors
    ///
    /// Never: there are no globs.
    pub fn all(delete: Delete) -> Result<Self> {
        let filter = Filter::new(&[], &[])?;
        Ok(Self {
            filter,
            delete,
            keep: Keep::default(),
            compare: Compare::default(),
            max_delete: usize::MAX,
            plan: Plan::None,
        })
    }

    /// The same mirror without changes.
    pub(super) fn dry(&self) -> Self {
        Self { delete: Delete::DryRun { would: self.delete.is_on() }, ..self.clone() }
    }

    /// Reports an action of a dry run.
    pub(super) fn planned(
        &self,
        job: &Job,
        path: &[u8],
        action: Action,
        facts: &Facts,
        was: &str,
    ) -> Result<()> {
        if !self.plan.is_looking() {
            job.reporter.plan(path, action, facts.size.unwrap_or(0));
        }
        self.plan.found(path, Some(action), facts, was)
    }

    /// Reports the paths of `--files-from` that the source does not have.
    pub(super) fn report_missing(&self, job: &Job) {
        for path in self.filter.missing() {
            job.record.left_out(
                &job.reporter,
                path,
                "--files-from lists it, and the source does not have it",
            );
        }
    }

    /// Checks the number of deletions.
    pub(super) fn check_deletions(&self, count: usize) -> Result<()> {
        match count > self.max_delete {
            false => Ok(()),
            true => {
                let why = format_args!(
                    "it would delete {count} files and folders, more than --max-delete {}",
                    self.max_delete
                );
                Err(Error::new(Exit::Refused, "delete what the source does not have", why)
                    .hint("--dry-run lists them"))
            }
        }
    }
}

/// What a mirror transfers besides names, contents and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Whether to set permission bits of files and folders.
    pub permissions: bool,
    /// Whether to create symbolic links.
    pub links: bool,
    /// Whether names of one file (hard links) stay names of one file.
    pub hard_links: bool,
    /// How to write long runs of zeros in local files.
    pub holes: fs::Holes,
}

impl Default for Keep {
    fn default() -> Self {
        Self { permissions: true, links: true, hard_links: false, holes: fs::Holes::Make }
    }
}

/// Whether a mirror deletes what the source does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delete {
    /// Nothing is deleted.
    No,
    /// Deletes, in folders whose listing is complete.
    Yes,
    /// Changes nothing and only reports.
    DryRun {
        /// Whether a real run would delete.
        would: bool,
    },
}

impl Delete {
    pub(super) fn is_on(self) -> bool {
        matches!(self, Self::Yes | Self::DryRun { would: true })
    }

    pub(super) fn is_dry(self) -> bool {
        matches!(self, Self::DryRun { .. })
    }
}

/// Why a link with this target is left out.
pub(super) fn leads_out(target: &[u8]) -> String {
    format!("the link leads out of the tree, to {}", escape(target))
}
