//! The result of commands that may end early with a reply.

use crate::reply::{Code, Reply};
use crate::server::begun::Begun;

/// The result of a function that may end early with a reply.
pub(super) type Early<T> = Result<T, Reply>;

/// Ends with the reply 200.
pub(super) fn ok(text: impl AsRef<[u8]>) -> Early<Begun> {
    Ok(Begun::reply(Reply::new(Code::OK, text)))
}

/// Ends early with this reply.
pub(super) fn no<T>(code: Code, text: impl AsRef<[u8]>) -> Early<T> {
    Err(Reply::new(code, text))
}
