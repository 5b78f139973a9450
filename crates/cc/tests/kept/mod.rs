//! Tables that are kept beside the tests, as `NAME.snap`. With `UPDATE_SNAPSHOTS` in the environment they are written anew.

use std::path::Path;

/// Holds a table against the one that is kept.
pub(crate) fn compare(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.snap"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, table).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(table == kept, "{} is\n{kept}\nbut now\n{table}", path.display());
}
