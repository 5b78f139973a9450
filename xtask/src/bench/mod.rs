//! Measurements against peers: not there yet.

use anyhow::{Result, bail};

/// Run the benchmark that `args` names.
pub(crate) fn run(_args: &[String]) -> Result<()> {
    bail!("there is no benchmark yet");
}
