//! The network as sans-IO machines: a [`link::Link`] is what lies between two hosts, one way.
//!
//! Links know datagrams, not SCTP. A simulation drives them by a virtual clock, `emu` by the wall clock; the same seed
//! gives the same fate to the same packets in both. There is no clock, socket or thread here.
#![forbid(unsafe_code)]

pub mod apps;
pub mod attack;
pub mod dice;
pub mod failover;
pub mod host;
pub mod link;
pub mod record;
pub mod scenario;
pub mod several;
pub mod topology;
pub mod world;

pub use dice::{Dice, Probability};
pub use host::{App, Endpoints, Host};
pub use link::{Link, LinkConfig};
pub use world::{Actor, HostId, LinkId, World};
