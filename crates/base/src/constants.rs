//! Structs of named constants, each of which an experiment can move by a part of its value.

use std::time::Duration;

/// A value that can be moved by a part of itself.
pub trait Scale: Copy {
    /// Returns `percent` hundredths of this value, rounded to the nearest.
    #[must_use]
    fn scaled(self, percent: u32) -> Self;
}

macro_rules! scale {
    ($($kind:ty)*) => {$(
        impl Scale for $kind {
            fn scaled(self, percent: u32) -> Self {
                let hundredths = self as i128 * i128::from(percent);
                ((hundredths + 50 * hundredths.signum()) / 100) as Self
            }
        }
    )*};
}
scale!(i8 i32 u32 u64 u128 usize);

impl Scale for Duration {
    fn scaled(self, percent: u32) -> Self {
        self * percent / 100
    }
}

/// Defines a struct of constants with its `DEFAULT`, the `NAMES` of its fields, and `moved`, which changes one of them:
///
/// ```
/// use braidftp_base::constants;
/// constants! {
///     /// The constants of an algorithm.
///     pub struct Constants {
///         /// A limit in packets.
///         limit: u32 = 40,
///         /// A weight in hundredths.
///         weight: u64 = 110,
///     }
/// }
/// assert_eq!(Constants::NAMES, ["limit", "weight"]);
/// assert_eq!(Constants::DEFAULT.moved("limit", 130).map(|moved| moved.limit), Some(52));
/// assert_eq!(Constants::DEFAULT.moved("width", 130), None);
/// ```
#[macro_export]
macro_rules! constants {
    ($(#[doc = $says:expr])* pub struct $type:ident {
        $($(#[doc = $doc:expr])* $name:ident: $kind:ty = $value:expr,)*
    }) => {
        $(#[doc = $says])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $type {
            $($(#[doc = $doc])* pub $name: $kind,)*
        }

        impl $type {
            /// The values in use; only experiments set others.
            pub const DEFAULT: Self = Self { $($name: $value,)* };

            /// The names of the constants.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Returns these constants with one of them at `percent` hundredths of its value; `None` if none
            /// has this name.
            pub fn moved(mut self, name: &str, percent: u32) -> Option<Self> {
                match name {
                    $(stringify!($name) => self.$name = $crate::Scale::scaled(self.$name, percent),)*
                    _ => return None,
                }
                Some(self)
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        impl Default for &'static $type {
            fn default() -> Self {
                &$type::DEFAULT
            }
        }

        /// Formats the constants that differ from the default.
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($type));
                $(if self.$name != Self::DEFAULT.$name {
                    text.field(stringify!($name), &self.$name);
                })*
                text.finish_non_exhaustive()
            }
        }
    };
}
