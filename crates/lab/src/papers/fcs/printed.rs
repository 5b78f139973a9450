//! The numbers that P1 prints, and what threatens the validity of its reproduction.

/// The values that the text prints, by claim.
pub(super) const PRINTED: &[(&str, &str)] =
    &[("P1-C06", "about 350 s"), ("P1-C16", "11"), ("P1-C17", "4 legs, not 3"), ("P1-C18", "3 to 4 blocks")];

/// The threats to the validity of this reproduction.
pub(super) const THREATS: &[&str] = &[
    "The paper's stacks were not run: `newreno-bsd46` and `rfc2960-kame` are profiles after the sources and the RFCs of that year, whose values `braidlab profiles` lists.",
    "The paper gives neither buffers nor the length of segments. Here packets have 1500 bytes, and SCTP's receive buffer is as large as TCP's.",
    "At 10 % loss the time is that of time-outs, and what the paper does not say about them changes it by a multiple (fcs/changes).",
    "The testbed's control network may have carried retransmissions without loss (P2 section 5.1). The curve `sctp-clean` shows how much that changes.",
    "Losses are independent and equally likely in both directions, as Dummynet's. Where only packets towards the client are lost, 8 to 9 % of them give both printed numbers (fcs/fewer). Hosts take no time for their work.",
    "The pictures of the figures were not available: only what the text says is compared.",
];
