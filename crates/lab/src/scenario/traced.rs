//! The choice of a host of a run whose events are recorded.

/// A host of a run, for a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// The index of its workload.
    pub workload: usize,
    /// The flow of the workload, from 0.
    pub flow: usize,
    /// The end.
    pub end: TracedEnd,
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedEnd {
    /// The end that opens connections.
    Client,
    /// The end that accepts them.
    Server,
}

/// What can be traced of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traceable {
    /// Its name.
    pub name: String,
    /// Whether it runs over TCP.
    pub is_tcp: bool,
    /// The number of its flows.
    pub flows: usize,
    /// The end that sends most of the data.
    pub sends: TracedEnd,
}
