//! Returning free memory to the system, in a program whose allocator is that of `braidftp`.

use std::fs;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The resident memory of this process in kB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn freed_memory_is_returned() {
    let held: Vec<Vec<u8>> = (0..4_000).map(|number| vec![number as u8; 16 << 10]).collect();
    let most = resident();
    drop(held);
    braidftp_emu::release_free_memory();
    let left = resident();
    assert!(left + 50_000 < most, "{left} kB of {most} kB are left of 64 MB");
}
