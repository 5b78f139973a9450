//! The treatment of unrecognized chunks and parameters, by the two high bits of their type (RFC 9260 §3.2, §3.2.1).

/// The treatment of an unknown chunk or parameter by the two high bits of its type (RFC 9260 §3.2,
/// §3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrecognized {
    /// 00: stop processing.
    Stop,
    /// 01: stop processing, and report.
    StopAndReport,
    /// 10: skip.
    Skip,
    /// 11: skip, and report.
    SkipAndReport,
}

impl Unrecognized {
    /// For an unknown chunk type.
    pub const fn of_chunk(kind: u8) -> Self {
        match kind >> 6 {
            0b00 => Self::Stop,
            0b01 => Self::StopAndReport,
            0b10 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// For an unknown parameter type.
    pub const fn of_parameter(kind: u16) -> Self {
        Self::of_chunk((kind >> 8) as u8)
    }

    /// Whether processing stops.
    pub const fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::StopAndReport)
    }

    /// Whether it must be reported to the sender.
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }
}
