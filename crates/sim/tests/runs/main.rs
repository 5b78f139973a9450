//! Runs of whole networks and what must come of them, in one binary: it is linked once.

mod auto;
mod closed_forms;
mod expectations;
mod failover;
mod fast;
mod paced;
mod protected;
mod receive_buffer;
mod tcp;
