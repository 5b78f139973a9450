//! The words that keys accept, from the types that define them.

use braidftp_sctp as sctp;
use braidftp_sim::apps::ftp::Variant;
use braidftp_tcp as tcp;

/// The profiles of SCTP.
pub(super) fn sctp_profiles() -> Vec<&'static str> {
    sctp::Profile::ALL.iter().map(|profile| profile.name()).collect()
}

/// The profiles of TCP.
pub(super) fn tcp_profiles() -> Vec<&'static str> {
    tcp::Profile::ALL.iter().map(|profile| profile.name()).collect()
}

/// The modes of FTP.
pub(super) fn modes() -> Vec<&'static str> {
    Variant::ALL.iter().map(|variant| variant.name()).collect()
}

/// The starts of an FTP session's measured time.
pub(super) fn clocks() -> Vec<&'static str> {
    vec!["started", "asked", "opened"]
}

/// The distributions.
pub(super) fn distributions() -> Vec<&'static str> {
    vec!["exponential", "uniform", "pareto", "lognormal"]
}

/// The directions of a link.
pub(super) fn directions() -> Vec<&'static str> {
    vec!["both", "there", "back"]
}

/// How means are drawn.
pub(super) fn marks() -> Vec<&'static str> {
    vec!["lines", "bars", "tail"]
}

/// Checks a multipath configuration.
pub(super) fn check_multipath(text: &str) -> Result<(), String> {
    match text {
        "off" => Ok(()),
        _ => text.parse::<sctp::Multipath>().map(drop).map_err(|error| error.to_string()),
    }
}
