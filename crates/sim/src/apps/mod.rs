//! What simulated hosts do.

pub mod messages;
