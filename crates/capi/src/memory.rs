//! Reads and writes the caller's memory; refuses null pointers and short lengths.
//!
//! Pointers that are not null are trusted, as in every C library; this is where.

use std::ffi::c_void;

use libc::socklen_t;

use crate::abi;
use crate::errno::{Errno, INVALID};

const FAULT: Errno = Errno(libc::EFAULT);

/// A structure of which every bit pattern is a value.
///
/// # Safety
///
/// The type consists of integers and arrays of them.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ty),* $(,)?) => {
        $(
            // SAFETY: a structure of integers.
            unsafe impl Plain for $name {}
        )*
    };
}

plain!(
    u8,
    u16,
    u32,
    i32,
    libc::linger,
    libc::sockaddr_storage,
    abi::sctp_rcvinfo,
    abi::sctp_sndinfo,
    abi::sctp_prinfo,
    abi::sctp_sendv_spa,
    abi::sctp_udpencaps,
    abi::sctp_event,
    abi::sctp_initmsg,
    abi::sctp_rtoinfo,
    abi::sctp_assocparams,
    abi::sctp_setprim,
    abi::sctp_setadaptation,
    abi::sctp_paddrparams,
    abi::sctp_assoc_value,
    abi::sctp_add_streams,
    abi::sctp_sack_info,
    abi::sctp_default_prinfo,
    abi::sctp_paddrinfo,
    abi::sctp_status,
    abi::sctpstat,
);

/// Returns `len` bytes at `at`; EFAULT for a null pointer, unless `len` is 0.
///
/// # Safety
///
/// `at` is null, or `len` bytes can be read there during the call of the API.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(FAULT);
    }
    if isize::try_from(len).is_err() {
        return Err(INVALID);
    }
    // SAFETY: not null, and the caller of the API vouches for `len` readable bytes.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// Reads a structure at the beginning of `bytes`; EINVAL if they are too few.
pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Result<T, Errno> {
    if bytes.len() < size_of::<T>() {
        return Err(INVALID);
    }
    // SAFETY: as many bytes are there, and every bit pattern is a `T`.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of an address.
pub(crate) fn of_storage(storage: &libc::sockaddr_storage) -> &[u8] {
    // SAFETY: a structure of integers without padding.
    unsafe { std::slice::from_raw_parts((&raw const *storage).cast(), size_of_val(storage)) }
}

/// Where a result goes: a place of `len` bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    at: *mut c_void,
    len: usize,
}

impl Place {
    /// # Safety
    ///
    /// `at` is null, or `len` bytes can be written there during the call of the API.
    pub(crate) unsafe fn new(at: *mut c_void, len: usize) -> Self {
        Self { at, len: if at.is_null() { 0 } else { len } }
    }

    /// The number of bytes that fit.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns the present contents of the beginning of the place, for results that depend on it.
    pub(crate) fn read<T: Plain>(self) -> Result<T, Errno> {
        if self.len < size_of::<T>() {
            return Err(INVALID);
        }
        // SAFETY: the place has as many bytes, and the caller of the API has filled in the question.
        Ok(unsafe { self.at.cast::<T>().read_unaligned() })
    }

    /// Writes a structure and returns its length in bytes; EINVAL if it does not fit.
    pub(crate) fn put<T: Plain>(self, value: T) -> Result<usize, Errno> {
        if self.len < size_of::<T>() {
            return Err(INVALID);
        }
        // SAFETY: the place has as many bytes.
        unsafe { self.at.cast::<T>().write_unaligned(value) };
        Ok(size_of::<T>())
    }

    /// Writes as many of these bytes as fit, and returns how many.
    pub(crate) fn fill(self, from: &[u8]) -> usize {
        let len = from.len().min(self.len);
        if len > 0 {
            // SAFETY: both have `len` bytes, and the slice is not the caller's memory.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at.cast(), len) };
        }
        len
    }
}

/// Writes a value to `at`, unless it is null.
///
/// # Safety
///
/// `at` is null, or a `T` can be written there.
pub(crate) unsafe fn put<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: not null, and the caller of the API vouches for it.
        unsafe { at.write_unaligned(value) };
    }
}

/// Reads a length that the caller passed by pointer; 0 for a null pointer.
///
/// # Safety
///
/// `at` is null, or can be read.
pub(crate) unsafe fn length(at: *const socklen_t) -> usize {
    if at.is_null() {
        return 0;
    }
    // SAFETY: not null, and the caller of the API vouches for it.
    unsafe { at.read_unaligned() as usize }
}

/// Copies bytes to memory that the program frees with `free`.
pub(crate) fn allocate(from: &[u8]) -> Result<*mut c_void, Errno> {
    // SAFETY: at least one byte is asked for, so that the pointer is unique.
    let at = unsafe { libc::malloc(from.len().max(1)) };
    if at.is_null() {
        return Err(Errno(libc::ENOMEM));
    }
    // SAFETY: `malloc` returned as many bytes.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at.cast(), from.len()) };
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_pointers_are_faults_and_short_lengths_are_invalid() {
        // SAFETY: null is allowed.
        let (none, fault) = unsafe { (bytes(std::ptr::null(), 0), bytes(std::ptr::null(), 1)) };
        assert_eq!((none, fault), (Ok(&[][..]), Err(FAULT)));
        assert_eq!(read::<u32>(&[1, 2, 3]), Err(INVALID));
        assert_eq!(read::<u16>(&[1, 0, 3]), Ok(u16::from_ne_bytes([1, 0])));
        let mut room = [0u8; 3];
        // SAFETY: three bytes are there; null is allowed.
        let (place, nowhere) =
            unsafe { (Place::new(room.as_mut_ptr().cast(), 3), Place::new(std::ptr::null_mut(), 9)) };
        assert_eq!((place.put(7u32), nowhere.put(7u32), nowhere.fill(b"x")), (Err(INVALID), Err(INVALID), 0));
        assert_eq!((place.put(7u16), place.fill(b"abcd")), (Ok(2), 3));
        assert_eq!(&room, b"abc");
    }
}
