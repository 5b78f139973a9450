//! `uring [DIR]` (root): what a small file costs by io_uring and by system calls, on the file system of DIR.
//!
//! Files of 1,000 bytes, 100 to a folder. Writing is what a small upload or download does: a file without a name is opened
//! (O_TMPFILE), written, given its time, linked under its name and closed. Reading is open, fstat, read and close. io_uring
//! passes each step of 64 files to the kernel with one io_uring_enter; the time is set by utimensat in all cases, because io_uring
//! has no operation for it. Each round runs every way once and prints µs a file: elapsed, and of all threads' processor time.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};

const ROUNDS: usize = 5;
const FILES: usize = 20_000;
const FILE_BYTES: usize = 1_000;
const FOLDER_FILES: usize = 100;
const BATCH: usize = 64;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The folders below the root, by descriptor, and the names in each of them.
struct Tree {
    folders: Vec<RawFd>,
    names: Vec<CString>,
}

impl Tree {
    fn make(root: &Path) -> Result<Self> {
        let folders = (0..FILES / FOLDER_FILES).map(|at| {
            let path = root.join(at.to_string());
            fs::create_dir_all(&path)?;
            open(
                libc::AT_FDCWD,
                &CString::new(path.into_os_string().into_encoded_bytes())?,
                libc::O_PATH | libc::O_DIRECTORY,
            )
        });
        let names = (0..FOLDER_FILES).map(|at| Ok(CString::new(format!("file{at:02}"))?));
        Ok(Self { folders: folders.collect::<Result<_>>()?, names: names.collect::<Result<_>>()? })
    }

    fn files(&self) -> Vec<(RawFd, &CStr)> {
        self.folders.iter().flat_map(|folder| self.names.iter().map(|name| (*folder, &**name))).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for folder in &self.folders {
            // SAFETY: the descriptor is this value's.
            unsafe { libc::close(*folder) };
        }
    }
}

fn checked(result: i64) -> Result<i64> {
    if result < 0 { Err(io::Error::last_os_error().into()) } else { Ok(result) }
}

fn open(folder: RawFd, name: &CStr, flags: i32) -> Result<RawFd> {
    // SAFETY: the name ends with a NUL.
    Ok(checked(unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, 0o644) }.into())?
        as RawFd)
}

fn set_time(file: RawFd) -> Result<()> {
    let time = libc::timespec { tv_sec: 1_600_000_000, tv_nsec: 0 };
    // SAFETY: two times, and no path: the descriptor itself.
    checked(unsafe {
        libc::syscall(libc::SYS_utimensat, file, std::ptr::null::<u8>(), [time; 2].as_ptr(), 0)
    })?;
    Ok(())
}

const UNNAMED: i32 = libc::O_RDWR | libc::O_TMPFILE;

fn write_by_calls(files: &[(RawFd, &CStr)]) -> Result<()> {
    let bytes = [7u8; FILE_BYTES];
    for (folder, name) in files {
        let file = open(*folder, c".", UNNAMED)?;
        // SAFETY: the buffer and the names outlive the calls.
        unsafe {
            checked(libc::write(file, bytes.as_ptr().cast(), bytes.len()) as i64)?;
            set_time(file)?;
            let flags = libc::AT_EMPTY_PATH;
            checked(libc::linkat(file, c"".as_ptr(), *folder, name.as_ptr(), flags).into())?;
            checked(libc::close(file).into())?;
        }
    }
    Ok(())
}

fn read_by_calls(files: &[(RawFd, &CStr)]) -> Result<()> {
    let mut bytes = [0u8; FILE_BYTES];
    for (folder, name) in files {
        let file = open(*folder, name, libc::O_RDONLY)?;
        // SAFETY: the buffer outlives the calls; the zeroed stat is written by the kernel.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            checked(libc::fstat(file, &mut stat).into())?;
            checked(libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) as i64)?;
            checked(libc::close(file).into())?;
        }
    }
    Ok(())
}

/// Passes one operation for each item to the kernel together and returns their results.
fn submit(ring: &mut IoUring, operations: impl Iterator<Item = squeue::Entry>) -> Result<Vec<i32>> {
    let mut count = 0;
    for operation in operations {
        // SAFETY: the callers keep what the operations point to until this returns.
        unsafe { ring.submission().push(&operation.user_data(count))? };
        count += 1;
    }
    ring.submit_and_wait(count as usize)?;
    let mut results = vec![0; count as usize];
    for done in ring.completion() {
        if done.result() < 0 {
            return Err(io::Error::from_raw_os_error(-done.result()).into());
        }
        results[done.user_data() as usize] = done.result();
    }
    Ok(results)
}

fn write_by_ring(files: &[(RawFd, &CStr)]) -> Result<()> {
    let mut ring = IoUring::new(BATCH as u32)?;
    let bytes = [7u8; FILE_BYTES];
    for batch in files.chunks(BATCH) {
        let opens = batch.iter().map(|(folder, _)| {
            opcode::OpenAt::new(types::Fd(*folder), c".".as_ptr())
                .flags(UNNAMED | libc::O_CLOEXEC)
                .mode(0o644)
                .build()
        });
        let opened = submit(&mut ring, opens)?;
        let write =
            |file: &RawFd| opcode::Write::new(types::Fd(*file), bytes.as_ptr(), bytes.len() as u32).build();
        submit(&mut ring, opened.iter().map(write))?;
        opened.iter().try_for_each(|file| set_time(*file))?;
        let links = batch.iter().zip(&opened).map(|((folder, name), file)| {
            let (file, folder) = (types::Fd(*file), types::Fd(*folder));
            opcode::LinkAt::new(file, c"".as_ptr(), folder, name.as_ptr()).flags(libc::AT_EMPTY_PATH).build()
        });
        submit(&mut ring, links)?;
        submit(&mut ring, opened.iter().map(|file| opcode::Close::new(types::Fd(*file)).build()))?;
    }
    Ok(())
}

fn read_by_ring(files: &[(RawFd, &CStr)]) -> Result<()> {
    let mut ring = IoUring::new(BATCH as u32)?;
    let mut bytes = vec![[0u8; FILE_BYTES]; BATCH];
    // SAFETY: integers only.
    let mut stats: Vec<libc::statx> = vec![unsafe { std::mem::zeroed() }; BATCH];
    for batch in files.chunks(BATCH) {
        let opens = batch.iter().map(|(folder, name)| {
            opcode::OpenAt::new(types::Fd(*folder), name.as_ptr())
                .flags(libc::O_RDONLY | libc::O_CLOEXEC)
                .build()
        });
        let opened = submit(&mut ring, opens)?;
        let looks = opened.iter().zip(&mut stats).map(|(file, stat)| {
            let stat = std::ptr::from_mut(stat).cast();
            let mask = libc::STATX_BASIC_STATS;
            opcode::Statx::new(types::Fd(*file), c"".as_ptr(), stat)
                .flags(libc::AT_EMPTY_PATH)
                .mask(mask)
                .build()
        });
        submit(&mut ring, looks)?;
        let reads = opened.iter().zip(&mut bytes).map(|(file, bytes)| {
            opcode::Read::new(types::Fd(*file), bytes.as_mut_ptr(), FILE_BYTES as u32).build()
        });
        submit(&mut ring, reads)?;
        submit(&mut ring, opened.iter().map(|file| opcode::Close::new(types::Fd(*file)).build()))?;
    }
    Ok(())
}

type Way = fn(&[(RawFd, &CStr)]) -> Result<()>;

const WAYS: [(&str, usize, Way, Way); 4] = [
    ("system calls, one thread", 1, write_by_calls, read_by_calls),
    ("system calls, two threads", 2, write_by_calls, read_by_calls),
    ("io_uring, one thread", 1, write_by_ring, read_by_ring),
    ("io_uring, two threads", 2, write_by_ring, read_by_ring),
];

fn cpu_seconds() -> f64 {
    // SAFETY: the zeroed value is written by the kernel.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|time| time.tv_sec as f64 + time.tv_usec as f64 / 1e6).sum()
}

/// Returns µs a file, elapsed and of processor time.
fn timed(files: &[(RawFd, &CStr)], threads: usize, way: Way) -> Result<[f64; 2]> {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    std::thread::scope(|scope| {
        let running: Vec<_> =
            files.chunks(files.len().div_ceil(threads)).map(|part| scope.spawn(move || way(part))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let seconds = [begun.elapsed().as_secs_f64(), cpu_seconds() - cpu];
    Ok(seconds.map(|seconds| seconds * 1e6 / files.len() as f64))
}

fn main() -> Result<()> {
    let parent = std::env::args_os().nth(1).map_or_else(|| "/dev/shm".into(), PathBuf::from);
    let dir = parent.join("braidftp-uring");
    println!("{FILES} files of {FILE_BYTES} bytes in {}; µs a file, elapsed (processor)", dir.display());
    for round in 1..=ROUNDS {
        for (name, threads, write, read) in WAYS {
            let tree = Tree::make(&dir)?;
            let write = timed(&tree.files(), threads, write)?;
            let read = timed(&tree.files(), threads, read)?;
            println!(
                "round {round}: {name:<26} write {:>6.2} ({:>6.2})   read {:>6.2} ({:>6.2})",
                write[0], write[1], read[0], read[1]
            );
            drop(tree);
            fs::remove_dir_all(&dir)?;
        }
    }
    Ok(())
}
