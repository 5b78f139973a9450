//! Errors as C programs see them: a return value and `errno`.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use braidftp_net::{BindError, ConnectError, ListenError, Reason, SendError};

/// A value of `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// The call is known and not offered.
pub(crate) const NOT_OFFERED: Errno = Errno(libc::EOPNOTSUPP);
/// An argument is wrong.
pub(crate) const INVALID: Errno = Errno(libc::EINVAL);

/// Runs a call of the API: `failed` is returned for an error, whose number is then in `errno`. A panic is a bug of this
/// library, and EIO; it does not reach the caller.
pub(crate) fn guard<T>(failed: T, call: impl FnOnce() -> Result<T, Errno>) -> T {
    match catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Errno(libc::EIO))) {
        Ok(value) => value,
        Err(error) => {
            error.set();
            failed
        }
    }
}

impl Errno {
    /// Sets `errno` of the calling thread.
    fn set(self) {
        // SAFETY: the C library returns a valid pointer to the calling thread's own `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<&Reason> for Errno {
    fn from(reason: &Reason) -> Self {
        Self(match reason {
            Reason::NoAnswer | Reason::PeerUnreachable | Reason::StaleCookie | Reason::ShutdownTimeout => {
                libc::ETIMEDOUT
            }
            Reason::Refused => libc::ECONNREFUSED,
            Reason::Shutdown => libc::EPIPE,
            Reason::OutOfMemory => libc::ENOBUFS,
            _ => libc::ECONNRESET,
        })
    }
}

impl From<SendError> for Errno {
    fn from(error: SendError) -> Self {
        Self(match error {
            SendError::ShuttingDown => libc::EPIPE,
            SendError::TooLong => libc::EMSGSIZE,
            SendError::Closed(reason) => return (&reason).into(),
            SendError::Empty | SendError::NoSuchStream | SendError::NotProtected => libc::EINVAL,
        })
    }
}

impl From<BindError> for Errno {
    fn from(error: BindError) -> Self {
        let BindError::Address { error, .. } = error else { return INVALID };
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<ConnectError> for Errno {
    fn from(error: ConnectError) -> Self {
        use braidftp_net::sctp::ConnectError as Refusal;
        Self(match error {
            ConnectError::Closed => libc::ENETDOWN,
            ConnectError::NoLocalAddress => libc::EAFNOSUPPORT,
            ConnectError::NoRoute { error, .. } => error.raw_os_error().unwrap_or(libc::ENETUNREACH),
            ConnectError::Refused(Refusal::InUse | Refusal::NoPortLeft) => libc::EADDRINUSE,
            ConnectError::Refused(Refusal::TooMany) => libc::ENOBUFS,
            ConnectError::Refused(_) => libc::EINVAL,
        })
    }
}

impl From<ListenError> for Errno {
    fn from(error: ListenError) -> Self {
        Self(match error {
            ListenError::PortZero => libc::EINVAL,
            ListenError::InUse => libc::EADDRINUSE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_eio_and_does_not_reach_the_caller() {
        let failed = guard(-1, || panic!("a bug"));
        assert_eq!(failed, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn an_error_is_returned_and_left_in_errno() {
        assert_eq!(guard(-1, || Err(NOT_OFFERED)), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(guard(-1, || Ok(7)), 7);
    }
}
