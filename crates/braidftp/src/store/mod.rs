//! Where files are kept. [`fs`] is the local file system, confined to a root.

pub mod fs;
