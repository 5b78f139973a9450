//! `include/braidsctp.h` is what cbindgen makes of the sources.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/braidsctp.h");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["abi", "stack", "socket", "calls", "transfer"] {
        builder = builder.with_src(root.join(format!("src/{file}.rs")));
    }
    let mut written = Vec::new();
    builder.generate().unwrap().write(&mut written);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == written, "write it anew: UPDATE_SNAPSHOTS=1 cargo test -p braidftp-capi --test header");
}
