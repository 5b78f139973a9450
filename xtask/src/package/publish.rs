//! `cargo xtask test publish`: whether crates.io would accept the crates of this repository.

use anyhow::{Context, Result, bail};

use crate::shell::{capture, cargo, check};

/// Checks the requirements of crates.io for each crate, then packs all of them with `cargo publish
/// --dry-run`. With `--verify` each is also compiled from its package, which takes minutes.
pub(crate) fn test(args: &[String]) -> Result<()> {
    let verify = match args {
        [] => false,
        [flag] if flag == "--verify" => true,
        _ => bail!("usage: cargo xtask test publish [--verify]"),
    };
    let metadata = capture(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let published = |package: &&serde_json::Value| package["publish"].is_null();
    let problems: Vec<String> = packages.iter().filter(published).flat_map(complaints).collect();
    if !problems.is_empty() {
        bail!("crates.io would refuse:\n{}", problems.join("\n"));
    }
    let count = packages.iter().filter(published).count();
    let mut publish = cargo();
    publish.args(["publish", "--workspace", "--dry-run", "--locked", "--allow-dirty"]);
    if !verify {
        publish.arg("--no-verify");
    }
    check(&mut publish)?;
    println!("publish: {count} crates, 0 refused");
    Ok(())
}

/// The problems of a package: crates.io rejects a crate without description or licence, or with path-only
/// dependencies, and the page of a crate without README is empty.
fn complaints(package: &serde_json::Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut problems: Vec<String> = ["description", "license", "readme"]
        .iter()
        .filter(|key| package[**key].as_str().is_none_or(str::is_empty))
        .map(|key| format!("{name} has no {key}"))
        .collect();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let is_development = dependency["kind"] == "dev";
        if !dependency["path"].is_null() && dependency["req"] == "*" && !is_development {
            problems.push(format!("{name} depends on {} without a version", dependency["name"]));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_readme_or_whose_dependency_has_no_version_is_refused() {
        let good = serde_json::json!({
            "name": "a", "description": "d", "license": "MIT", "readme": "README.md",
            "dependencies": [{ "name": "b", "path": "../b", "req": "^0.1", "kind": null }],
        });
        assert_eq!(complaints(&good), [""; 0]);
        let mut bad = good;
        bad["readme"] = serde_json::Value::Null;
        bad["dependencies"][0]["req"] = "*".into();
        assert_eq!(complaints(&bad), ["a has no readme", "a depends on \"b\" without a version"]);
    }
}
