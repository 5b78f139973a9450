//! Names for display on a terminal: one line, without control characters.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Displays a name on one line of a terminal: control characters and invalid UTF-8 appear as `\xNN`.
pub fn escaped(path: &Path) -> impl fmt::Display {
    struct Escaped(Vec<u8>);
    impl fmt::Display for Escaped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for chunk in self.0.utf8_chunks() {
                for c in chunk.valid().chars() {
                    if c.is_control() {
                        let mut buffer = [0; 4];
                        for byte in c.encode_utf8(&mut buffer).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    } else {
                        write!(f, "{c}")?;
                    }
                }
                for byte in chunk.invalid() {
                    write!(f, "\\x{byte:02x}")?;
                }
            }
            Ok(())
        }
    }
    Escaped(path.as_os_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn names_are_shown_without_control_characters() {
        let name = Path::new(OsStr::from_bytes(b"a\x1b[2J\xffz\n"));
        assert_eq!(escaped(name).to_string(), "a\\x1b[2J\\xffz\\x0a");
    }
}
