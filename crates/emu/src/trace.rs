//! Reads recorded link rates from files: the value of `trace=FILE`.

use std::fs::File;
use std::io::Read;

/// The largest file that is read as a trace, in bytes.
const TRACE_FILE_MAX: u64 = 128 << 20;

/// Reads the text of a trace file, for [`LinkConfig::apply_reading`](crate::LinkConfig::apply_reading).
///
/// # Errors
///
/// The file cannot be read, or is longer than 128 MiB.
pub fn read_trace(path: &str) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    // Devices and pipes have no length, so only reading shows it.
    file.take(TRACE_FILE_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > TRACE_FILE_MAX {
        return Err(format!("it is longer than {TRACE_FILE_MAX} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkConfig;

    #[test]
    fn a_trace_is_read_from_its_file_and_invalid_files_are_rejected() {
        let file = std::env::temp_dir().join(format!("braidftp-trace-{}", std::process::id()));
        std::fs::write(&file, "1\n2\n4\n").unwrap();
        let text = format!("trace={},delay=1ms", file.display());
        let mut config = LinkConfig::default();
        config.apply_reading(&text, &read_trace).unwrap();
        assert!(config.to_string().starts_with(&text));
        std::fs::write(&file, "1\ntwo\n").unwrap();
        let error = config.apply_reading(&text, &read_trace).unwrap_err().to_string();
        assert!(error.contains("line 2: `two`"), "{error}");
        std::fs::remove_file(&file).unwrap();
        let error = config.apply_reading(&text, &read_trace).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        let endless = config.apply_reading("trace=/dev/zero", &read_trace).unwrap_err().to_string();
        assert!(endless.contains("it is longer than"), "{endless}");
    }
}
