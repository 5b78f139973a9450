//! The numbers that P3 prints, and what threatens the validity of its reproduction.

/// The values that the text prints, by claim.
pub(super) const PRINTED: &[(&str, &str)] = &[
    ("P3-C02", "about 1.3 Mbit/s"),
    ("P3-C05", "5.5 to 75 % shorter"),
    ("P3-C07", "9 to 38 % shorter"),
    ("P3-C11", "9 to 75 % higher"),
    ("P3-C15", "about 50 %"),
    ("P3-C16", "57 to 90 % higher"),
    ("P3-C17", "up to 81 % higher"),
    ("ADaLR-X1", "up to 61 % and 76 %"),
    ("ADaLR-X3", "up to 43 %"),
];

/// The threats to the validity of this reproduction.
pub(super) const THREATS: &[&str] = &[
    "ADaLR is a reconstruction: the authors' formulas are not public. Claims are decided with k = 1; whether throughput rises beyond 50 MB depends on k alone, and k = 0.1 makes P3-C09, P3-C11 and P3-C13 true together (adalr/growth).",
    "The printed values exclude each other: 75 % more throughput are 43 % less time, and 38 % less time are 61 % more throughput (P3-C07, P3-C11, P3-C16).",
    "The rate of the return direction, the delays of Figure 3 and the place of the delay are not in the paper and are chosen here.",
    "OPNET reports means of intervals of five seconds. Here throughput is the size of the file by the duration, so that trends below a hundredth may differ (P3-C14).",
    "A receiver accepts data beyond its advertised window here. That of the authors may not.",
];
