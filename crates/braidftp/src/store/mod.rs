//! Storage of files. [`fs`] is the local file system, confined to a root; the server's tree and the client's
//! local side use the same code. [`bucket`] is an object store, for a server. A [`Tree`] is either.

pub mod bucket;
pub mod fs;
mod tree;

pub use tree::{Edit, Lister, Reader, Tree, Walk, Writer};
