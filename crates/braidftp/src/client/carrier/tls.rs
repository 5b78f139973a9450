//! Decides whether a session over TCP is protected by TLS, and states the reason where it must be.

use braidftp_ftp::client::Protection as Wanted;

use crate::client::Login;
use crate::client::{Options, Protection};
use crate::exit::{Error, Result};
use crate::identity::Peer;
use crate::tls::client::Binding;
use crate::url::{Scheme, Url};

/// How a session over TCP is protected.
#[derive(Debug)]
pub(super) struct Plan {
    /// The protection to request from the server.
    pub(super) wanted: Wanted,
    /// The TLS settings; present unless [`Wanted::None`] is requested.
    pub(super) binding: Option<Binding>,
    /// Why the session must be protected; appended to errors about a server's refusal.
    pub(super) why: &'static str,
}

impl Plan {
    /// Decides from URL, user and options.
    ///
    /// # Errors
    ///
    /// They contradict each other, or `known_hosts` cannot be read.
    pub(super) fn of(url: &Url, login: &Login, options: &Options) -> Result<Self> {
        let trust = match (&options.protection, url.scheme) {
            (Protection::Plain, Scheme::Ftps | Scheme::Ftpes) => {
                return Err(Error::usage(format_args!("use --plain with {url}"), "the URL requires TLS")
                    .hint("write ftp://, or leave out --plain"));
            }
            (Protection::Plain, _) => return Ok(Self { wanted: Wanted::None, binding: None, why: "" }),
            (Protection::Usual(trust) | Protection::Required(trust), _) => trust,
        };
        let binding = Some(Binding::towards(url, trust)?);
        let (wanted, why) = match (url.scheme, &options.protection) {
            (Scheme::Ftps, _) => (Wanted::Implicit, ""),
            (Scheme::Ftpes, _) | (_, Protection::Required(_)) => (Wanted::Required, ""),
            // An attacker on the path could remove the offer of TLS.
            _ if trust.known_hosts.knows(&Peer::new(&url.host.to_string(), url.port))? => {
                (Wanted::Required, ", and it has protected its sessions before (known_hosts)")
            }
            _ if !login.is_anonymous() => (Wanted::Required, ", and the password would travel in the clear"),
            _ => (Wanted::IfOffered, ""),
        };
        Ok(Self { wanted, binding, why })
    }
}
