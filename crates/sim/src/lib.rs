//! Networks and hosts on a virtual clock: links, routes, SCTP and TCP hosts, applications, records.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod apps;
pub mod attack;
pub mod failover;
pub mod host;
pub mod link;
pub mod on_path;
pub mod protection;
pub mod random;
pub mod record;
pub mod scenario;
pub mod several;
pub mod topology;
pub mod windows;
pub mod world;

pub use host::{App, Endpoints, Host};
pub use link::{Link, LinkConfig};
pub use random::{Probability, Random};
pub use world::{Actor, HostId, LinkId, World};
