//! The default memory limit of an endpoint's associations: a fraction of the memory of the machine, or of
//! the process's control group.

use std::fs;

/// The divisor of the available memory.
const FRACTION: usize = 16;
/// The minimum in bytes: a few associations at full speed.
const MIN_BYTES: usize = 16 << 20;
/// The maximum in bytes: more would rarely be faster, and the process should stay below 256 MB.
const MAX_BYTES: usize = 88 << 20;

/// Returns the default of [`Limits::memory_bytes`](crate::sctp::Limits::memory_bytes): a sixteenth of this machine's memory, or of
/// what its control group allows, and 16 MiB to 88 MiB.
pub fn default_memory_bytes() -> usize {
    share_of(machine_memory_bytes())
}

/// Returns the memory of this machine, or of its control group, in bytes; `None` if neither is known.
pub fn machine_memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let group =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

/// Returns the share of this memory for the associations of an endpoint.
fn share_of(memory_bytes: Option<u64>) -> usize {
    let Some(bytes) = memory_bytes else { return MAX_BYTES };
    usize::try_from(bytes).unwrap_or(usize::MAX).div_euclid(FRACTION).clamp(MIN_BYTES, MAX_BYTES)
}

/// Parses the machine's memory in bytes from the text of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_of_the_memory_within_bounds() {
        assert_eq!(total_of("MemTotal:        1048576 kB\nMemFree: 5 kB\n"), Some(1 << 30));
        assert_eq!(total_of("MemFree: 5 kB\n"), None);
        assert_eq!(share_of(Some(1 << 30)), 64 << 20);
        assert_eq!(share_of(Some(64 << 20)), MIN_BYTES);
        assert_eq!(share_of(Some(1 << 40)), MAX_BYTES);
        assert_eq!(share_of(None), MAX_BYTES);
    }
}
