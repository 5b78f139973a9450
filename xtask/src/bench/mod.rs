//! `cargo xtask bench NAME`: measurements beside peers, in the same run, so that their ratio means something on any
//! machine.

mod loopback;

use anyhow::{Result, bail};

/// Run the benchmark that `args` names.
pub(crate) fn run(args: &[String]) -> Result<()> {
    match args.split_first() {
        Some((name, rest)) if name == "loopback" => loopback::run(rest),
        Some((name, _)) => bail!("there is no benchmark `{name}`; there is: loopback"),
        None => bail!("usage: cargo xtask bench loopback [--rounds N] [--quick]"),
    }
}
