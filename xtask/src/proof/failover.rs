//! Failover: cuts one of two paths in hundreds of simulated trials and measures when the other carries its
//! full rate.

use anyhow::Result;

use super::Bench;
use crate::shell;

/// Runs the trials; the program's exit code is the verdict.
pub(super) fn cut(bench: &mut Bench) -> Result<()> {
    let mut command = shell::cargo();
    command.args(["run", "--release", "-q", "-p", "braidftp-sim", "--bin", "failover"]);
    let enough = shell::check(&mut command).is_ok();
    bench.verdict(
        enough,
        "with modern values 90 % of the other path's rate within 1 s; every byte once, in order",
    );
    Ok(())
}
