//! Named values, as command lines, sweeps and tables refer to them.

/// Implements `Display` and `FromStr` by name for a type that has a list `ALL` and a `name()`. The error for
/// an unknown name lists the known ones:
///
/// ```
/// # use braidftp_base::named;
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Fruit {
///     Apple,
///     Pear,
/// }
/// impl Fruit {
///     const ALL: &[Self] = &[Self::Apple, Self::Pear];
///     const fn name(self) -> &'static str {
///         match self {
///             Self::Apple => "apple",
///             Self::Pear => "pear",
///         }
///     }
/// }
/// named!(Fruit, UnknownFruit, "fruit");
/// assert_eq!("pear".parse(), Ok(Fruit::Pear));
/// assert_eq!(Fruit::Apple.to_string(), "apple");
/// let error = "fig".parse::<Fruit>().unwrap_err().to_string();
/// assert_eq!(error, "no fruit is called `fig`; there are apple, pear");
/// ```
#[macro_export]
macro_rules! named {
    ($type:ty, $unknown:ident, $what:literal) => {
        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        #[doc = concat!("No ", $what, " has this name.")]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $unknown(String);

        impl ::std::fmt::Display for $unknown {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let names: Vec<_> = <$type>::ALL.iter().map(|one| one.name()).collect();
                let name = self.0.escape_debug();
                write!(f, concat!("no ", $what, " is called `{}`; there are {}"), name, names.join(", "))
            }
        }

        impl ::std::error::Error for $unknown {}

        impl ::std::str::FromStr for $type {
            type Err = $unknown;

            fn from_str(text: &str) -> Result<Self, $unknown> {
                let known = Self::ALL.iter().find(|one| one.name() == text);
                known.copied().ok_or_else(|| $unknown(text.to_owned()))
            }
        }
    };
}
