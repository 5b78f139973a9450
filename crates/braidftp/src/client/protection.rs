//! Protection of a session: whether it is encrypted, and which servers the client trusts.

use std::sync::Arc;

use braidftp_ftp::Mode;

use crate::client::Login;
use crate::exit::{Error, Result};
use crate::identity::Trust;

/// The protection of a session, with the same options for SCTP and for TCP.
#[derive(Debug, Clone, Default)]
pub enum Protection {
    /// None, as requested by `--plain`: names, passwords and contents can be read on the network. A server
    /// that requires protection refuses the session.
    #[default]
    Plain,
    /// The default of the mode: `braid` is always protected; `naive`, `ms` and `ms-cp` are modes of a paper
    /// and not protected; `tcp` is protected if the server offers it. Passwords are never sent without
    /// protection.
    Usual(Arc<Trust>),
    /// Required in every mode (`--protect`).
    Required(Arc<Trust>),
}

impl Protection {
    /// The trust settings, if anything may be protected.
    pub fn trust(&self) -> Option<&Arc<Trust>> {
        match self {
            Self::Plain => None,
            Self::Usual(trust) | Self::Required(trust) => Some(trust),
        }
    }

    /// The trust settings, if an association of this mode is protected.
    pub fn of_association(&self, mode: Mode) -> Option<&Arc<Trust>> {
        match self {
            Self::Plain => None,
            Self::Usual(trust) => (mode == Mode::Braid).then_some(trust),
            Self::Required(trust) => Some(trust),
        }
    }

    /// Checks that this login may be sent in an unprotected session.
    ///
    /// # Errors
    ///
    /// The password is secret, and `--plain` was not given.
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
