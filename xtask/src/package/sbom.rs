//! `cargo xtask sbom`: the bill of materials of the distributed programs (CycloneDX 1.6, JSON), by
//! cargo-sbom.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::FOLDER;
use crate::shell::{capture, cargo, root};
use crate::tools::SBOM;

/// The programs and their crates.
const CRATES: &[(&str, &str)] = &[("braidftp", "braidftp"), ("braidftp-lab", "braidlab")];

/// Writes `target/package/PROGRAM.cdx.json`, and checks that it contains every crate of the program.
pub(crate) fn run() -> Result<()> {
    let tool = SBOM.ensure()?;
    let folder = root().join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    for (krate, program) in CRATES {
        let mut command = Command::new(&tool);
        command.args(["--output-format", "cyclone_dx_json_1_6", "--cargo-package", krate]);
        let bill = capture(&mut command)?;
        let mut bill: serde_json::Value =
            serde_json::from_slice(&bill).context("cargo-sbom's output is not JSON")?;
        // The user who ran this is not an author.
        bill["metadata"].as_object_mut().context("the bill has no metadata")?.remove("authors");
        let components = bill["components"].as_array().context("the bill has no components")?;
        let named: BTreeSet<String> = components
            .iter()
            .filter_map(|part| Some(format!("{} {}", part["name"].as_str()?, part["version"].as_str()?)))
            .collect();
        let missing: Vec<String> = linked(krate)?.into_iter().filter(|one| !named.contains(one)).collect();
        if !missing.is_empty() {
            bail!("the bill of materials of {program} lacks {}", missing.join(", "));
        }
        let path = folder.join(format!("{program}.cdx.json"));
        std::fs::write(&path, serde_json::to_vec_pretty(&bill)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("sbom: {}: {} components", path.display(), named.len());
    }
    Ok(())
}

/// The dependencies of a crate, as `name version`, without itself; by `cargo tree`.
fn linked(krate: &str) -> Result<BTreeSet<String>> {
    let args = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package"];
    // With the features of the whole workspace the tree would be that of the workspace.
    let tree = capture(cargo().args(args).arg(krate).env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION"))?;
    let tree = String::from_utf8_lossy(&tree);
    let names = tree.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
    });
    Ok(names.collect())
}
