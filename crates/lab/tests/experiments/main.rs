//! Tests of figures, scenarios and the commands of `braidlab`, in one binary: it is linked once.

mod bench;
mod claims;
mod cli;
mod compare;
mod film;
mod link;
mod net;
mod qlog;
mod scenario;
