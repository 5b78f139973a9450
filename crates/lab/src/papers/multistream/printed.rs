//! The numbers that P2 prints, and what threatens the validity of its reproduction.

/// The values that the text prints, by claim.
pub(super) const PRINTED: &[(&str, &str)] = &[
    ("P2-C03", "2"),
    ("P2-C14", "at most half"),
    ("P2-C15", "4 MTU"),
    ("P2-C16", "about 10 % slower (10K, satellite)"),
    ("P2-C21", "about 7"),
    ("P2-C24", "4 times"),
    ("P2-C30", "roughly half"),
    ("P2-C31", "30 to 40 % faster"),
    ("P2-C32", "about 40 % faster"),
    ("P2-C33", "about 20 % faster"),
    ("P2-C34", "at least 7"),
    ("P2-C35", "about 500 and about 3"),
    ("P2-C36", "1 to 2 % slower"),
    ("P2-C38", "up to 8 times"),
    ("P2-C39", "30 % better"),
    ("P2-C49", "twice"),
];

/// The threats to the validity of this reproduction.
pub(super) const THREATS: &[&str] = &[
    "The paper's stacks were not run: `newreno-bsd46` and `rfc2960-kame` are profiles after the sources and the RFCs of that year, whose values `braidlab profiles` lists.",
    "The paper compares two patches of KAME's SCTP, 24 for MS and CP and 25 for naive. Here all three have one profile, so that what the patches differ in is missing (P2-C36).",
    "The text does not say whether data travels with COOKIE ECHO, which decides half a round trip for each file.",
    "K is 1000 and M a million here.",
    "At 10 % loss the time is that of time-outs, and what the paper does not say about them changes it by a multiple (fcs/changes).",
    "Losses are independent and equally likely in both directions, as Dummynet's. Hosts take no time for their work.",
    "The pictures of the figures were not available: only what the text says is compared.",
];
