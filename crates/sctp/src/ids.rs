//! Newtypes for the numbers of RFC 9260. Serial numbers are compared with `before` and `after` (RFC 1982)
//! and do not implement `<`.

use std::fmt;

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            /// Whether this comes before `other` in serial arithmetic.
            pub const fn before(self, other: Self) -> bool {
                let ahead = other.0.wrapping_sub(self.0);
                ahead != 0 && ahead < (1 << (<$int>::BITS - 1))
            }

            /// Whether this comes after `other` in serial arithmetic.
            pub const fn after(self, other: Self) -> bool {
                other.before(self)
            }

            /// Returns the number that is `count` higher.
            #[must_use]
            pub const fn plus(self, count: $int) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// Returns the number that is `count` lower.
            #[must_use]
            pub const fn minus(self, count: $int) -> Self {
                Self(self.0.wrapping_sub(count))
            }

            /// The next number.
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// Returns how many numbers this one is ahead of `base`.
            pub const fn distance_from(self, base: Self) -> $int {
                self.0.wrapping_sub(base.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

//= specs/rfc9260.txt#section-1.6
//# Since the space is finite, all arithmetic dealing with Transmission
//# Sequence Numbers MUST be performed modulo 2^32.
//= specs/rfc9260.txt#section-1.6
//# Comparisons and arithmetic on TSNs in this document SHOULD use Serial
//# Number Arithmetic, as defined in [RFC1982], where SERIAL_BITS = 32.
//= specs/rfc9260.txt#section-1.6
//# That is, the next TSN a DATA chunk MUST use after transmitting TSN =
//# 2^32 - 1 is TSN = 0.
serial! {
    /// Transmission sequence number (RFC 9260 §1.3, §3.3.1).
    Tsn(u32)
}
//= specs/rfc9260.txt#section-1.6
//# Any arithmetic done on Stream Sequence Numbers SHOULD use Serial
//# Number Arithmetic, as defined in [RFC1982], where SERIAL_BITS = 16.
serial! {
    /// Stream sequence number.
    Ssn(u16)
}
serial! {
    /// Re-configuration Request Sequence Number (RFC 6525 §4.1).
    RequestNumber(u32)
}

/// A stream's number, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// The slot of a path in its association; the initial primary is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

/// Verification tag (RFC 9260 §8.5). The tag 0 belongs to INIT alone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct VerificationTag(pub u32);

impl fmt::Debug for VerificationTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerificationTag({:#010x})", self.0)
    }
}

/// Payload protocol identifier: opaque to SCTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ppid(pub u32);

/// Identifies an association within its [`Endpoint`](crate::Endpoint); never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_compare_across_the_wrap() {
        //= specs/rfc9260.txt#section-1.6
        //= type=test
        //# Comparisons and arithmetic on TSNs in this document SHOULD use Serial
        //# Number Arithmetic, as defined in [RFC1982], where SERIAL_BITS = 32.
        //= specs/rfc9260.txt#section-1.6
        //= type=test
        //# Any arithmetic done on Stream Sequence Numbers SHOULD use Serial
        //# Number Arithmetic, as defined in [RFC1982], where SERIAL_BITS = 16.
        //= specs/rfc9260.txt#section-1.6
        //= type=test
        //# Since the space is finite, all arithmetic dealing with Transmission
        //# Sequence Numbers MUST be performed modulo 2^32.
        //= specs/rfc9260.txt#section-1.6
        //= type=test
        //# That is, the next TSN a DATA chunk MUST use after transmitting TSN =
        //# 2^32 - 1 is TSN = 0.
        assert!(Tsn(u32::MAX).before(Tsn(0)));
        assert!(Tsn(0).after(Tsn(u32::MAX)));
        assert!(!Tsn(5).before(Tsn(5)));
        assert!(Ssn(65_535).before(Ssn(3)));
        assert_eq!(Tsn(2).distance_from(Tsn(u32::MAX)), 3);
        assert_eq!((Tsn(u32::MAX).next(), Ssn(65_535).next()), (Tsn(0), Ssn(0)));
    }
}
