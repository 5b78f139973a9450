//! The program `braidftp`, implemented by the library: [`braidftp::cli`].

/// Small files are a few dozen small allocations each, many of which another thread frees. glibc keeps seven of a size for each
/// thread and takes a lock for the others.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// By default there are four arenas for each processor, each of which keeps free memory, for 10 s.
#[allow(unsafe_code, reason = "jemalloc reads its settings from a symbol of this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_SETTINGS: &[u8; 47] = b"narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0\0";

fn main() -> std::process::ExitCode {
    braidftp::cli::run()
}
