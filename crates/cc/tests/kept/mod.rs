//! Snapshot tables kept beside the tests as `NAME.snap`. With `UPDATE_SNAPSHOTS` in the environment they are
//! rewritten.

use std::path::Path;

/// Compares a table with its snapshot.
pub(crate) fn compare(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.snap"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, table).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(table == kept, "{} is\n{kept}\nbut now\n{table}", path.display());
}
