//! The numbers that P4 prints, and what threatens the validity of its reproduction.

/// The values that the text prints, by claim.
pub(super) const PRINTED: &[(&str, &str)] =
    &[("P4-C05", "0"), ("P4-C10", "0 to 102.8 s"), ("P4-C11", "about 200 s and about 800 s")];

/// The threats to the validity of this reproduction.
pub(super) const THREATS: &[&str] = &[
    "The delay of 100 ms may be that of a round trip or of a direction. Both are run, and a claim must hold for both.",
    "The initial slow-start threshold and the receive window of SCTP are not in the paper; fast/threshold and fast/forty change the threshold.",
    "The rate of the access links and the end times of the four flows are not in the paper and are chosen here.",
    "What ends a fast recovery after a time-out is not in the paper. Here it is the rule of RFC 4960, as in ns-2's module; fast/recovered2 and fast/recovered4 have that of RFC 9260.",
    "Nothing is random: there is one run of each figure, and a small change of times may change which flow loses a packet.",
    "ns-2 was not run. Its SCTP is a profile here, which `braidlab check golden` compares with ns-2's packet traces.",
];
