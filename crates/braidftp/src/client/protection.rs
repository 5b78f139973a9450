//! Protection of a session: whether it is encrypted, and which servers the client trusts.

use std::sync::Arc;

use braidftp_ftp::Mode;

use crate::client::Login;
use crate::exit::{Error, Result};
use crate::identity::Trust;

/// Whether what a session says is protected: one set of words for SCTP and for TCP.
#[derive(Debug, Clone, Default)]
pub enum Protection {
    /// Nothing is, as somebody wished (`--plain`): names, passwords and contents can be read on the way. A server that protects
    /// refuses the session.
    #[default]
    Plain,
    /// As the mode has it when nothing is said: `braid` is protected or does not happen; `naive`, `ms` and `ms-cp` are those of
    /// a paper, and plain; `tcp` is protected if the server offers it. Passwords are not sent without protection.
    Usual(Arc<Trust>),
    /// All is protected, whichever the mode, or there is no session (`--protect`).
    Required(Arc<Trust>),
}

impl Protection {
    /// Who is trusted, if anything may be protected.
    pub fn trust(&self) -> Option<&Arc<Trust>> {
        match self {
            Self::Plain => None,
            Self::Usual(trust) | Self::Required(trust) => Some(trust),
        }
    }

    /// Who is trusted, if an association of this mode is protected.
    pub fn of_association(&self, mode: Mode) -> Option<&Arc<Trust>> {
        match self {
            Self::Plain => None,
            Self::Usual(trust) => (mode == Mode::Braid).then_some(trust),
            Self::Required(trust) => Some(trust),
        }
    }

    /// Checks that a session that is not protected may say this password.
    ///
    /// # Errors
    /// It is a secret, and nobody wished for plain.
    pub(crate) fn check_plain_login(&self, login: &Login) -> Result<()> {
        if matches!(self, Self::Plain) || login.is_anonymous() {
            return Ok(());
        }
        let user = String::from_utf8_lossy(&login.user);
        Err(Error::usage(
            format_args!("log in as {user}"),
            "the password would travel in the clear, for this session is not protected",
        )
        .hint("--protect protects it if the server can; --plain sends the password all the same"))
    }
}
