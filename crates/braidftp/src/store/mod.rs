//! Storage of files. [`fs`] is the local file system, confined to a root; the server's tree and the client's
//! local side use the same code.

pub mod fs;
