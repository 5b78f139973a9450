//! The umask of the server: permissions removed from new files and folders.

use std::fmt;
use std::str::FromStr;

use rustix::fs::Mode;

/// Bits removed from the mode of a new file or folder, as in umask(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Umask(u32);

impl Umask {
    /// Sets the umask of this process.
    pub(super) fn apply(self) {
        rustix::process::umask(Mode::from_raw_mode(self.0));
    }
}

impl FromStr for Umask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777 && !text.starts_with('+'));
        match bits {
            // The server keeps access to the files that it has written.
            Some(bits) if bits & 0o700 != 0 => Err(format!(
                "the owner keeps all rights, or the server could not use its own files: not `{text}`"
            )),
            Some(bits) => Ok(Self(bits)),
            None => Err(format!("expected three octal digits such as 027, not `{text}`")),
        }
    }
}

impl fmt::Display for Umask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_octal_and_leaves_the_owner_all_rights() {
        assert_eq!("027".parse::<Umask>().unwrap().to_string(), "027");
        assert_eq!("7".parse::<Umask>().unwrap().to_string(), "007");
        for (text, why) in
            [("", "octal"), ("8", "octal"), ("+2", "octal"), ("1000", "octal"), ("700", "owner")]
        {
            assert!(text.parse::<Umask>().unwrap_err().contains(why), "{text}");
        }
    }
}
