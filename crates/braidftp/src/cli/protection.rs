//! Options for protection: whether sessions are encrypted, and which servers are trusted.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::client;
use crate::exit::Result;
use crate::identity::{Authorities, ClientIdentity, Files, Fingerprint, KnownHosts, OnUnknown, Trust};

/// Options for protection, of every command that connects to a server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Protection")]
pub struct Protection {
    /// Protect nothing: names, passwords and contents can be read on the network, and the server is not
    /// authenticated
    #[arg(long, conflicts_with_all = ["protect", "pins", "accept_new", "ca"])]
    pub plain: bool,
    /// Also protect --mode ms and ms-cp (braid always is), and over TCP require TLS
    #[arg(long)]
    pub protect: bool,
    /// Accept only a server with this key (printed by `braidftp serve`); may be given several times
    #[arg(long = "pin", value_name = "FINGERPRINT")]
    pub pins: Vec<Fingerprint>,
    /// Trust new servers and add them to known_hosts; without this, a script refuses a new server
    #[arg(long, conflicts_with = "pins")]
    pub accept_new: bool,
    /// The file of trusted servers [default: ~/.config/braidftp/known_hosts]
    #[arg(long, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
    /// Certificates of authorities that are trusted to identify servers (PEM), instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl Protection {
    /// The protection of a client with these options.
    ///
    /// # Errors
    ///
    /// There is no location for `known_hosts`, or the file of authorities cannot be used.
    pub fn of_client(&self) -> Result<client::Protection> {
        if self.plain {
            return Ok(client::Protection::Plain);
        }
        let known_hosts = match &self.known_hosts {
            Some(file) => KnownHosts::at(file),
            // Not used in this case.
            None if !self.pins.is_empty() => KnownHosts::at("/dev/null"),
            None => KnownHosts::usual()?,
        };
        let trust = Arc::new(Trust {
            pins: self.pins.clone(),
            authorities: self.ca.as_deref().map_or(Ok(Authorities::system()), Authorities::of_file)?,
            on_unknown: if self.accept_new { OnUnknown::Accept } else { OnUnknown::Ask },
            own_server: Files::usual().ok(),
            key: ClientIdentity::usual().ok().map_or(Ok(None), |files| ClientIdentity::load(&files))?,
            ..Trust::new(known_hosts)
        });
        // Options about trust would have no effect.
        let is_wanted = self.protect || self.accept_new || !self.pins.is_empty() || self.ca.is_some();
        Ok(match is_wanted {
            true => client::Protection::Required(trust),
            false => client::Protection::Usual(trust),
        })
    }
}
