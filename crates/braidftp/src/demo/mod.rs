//! The demo: see [`Args`].

pub mod picture;
pub mod tree;
