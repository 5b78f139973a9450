//! Error messages for refused certificates.

use braidftp_ftp::stamp::Timestamp;
use rustls::CertificateError;
use rustls::pki_types::UnixTime;

/// What is wrong with a certificate, as in `has expired on 2024-05-01`; `None` if the only problem is an
/// unknown issuer.
pub(super) fn in_words(error: &CertificateError) -> Option<String> {
    let day = |time: &UnixTime| {
        let day = Timestamp::from_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX)).civil();
        format!("{:04}-{:02}-{:02}", day.year, day.month, day.day)
    };
    Some(match error {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("has expired on {} (it is {} here)", day(not_after), day(time))
        }
        CertificateError::Expired => "has expired".into(),
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("is not valid before {} (it is {} here)", day(not_before), day(time))
        }
        CertificateError::NotValidYet => "is not valid yet".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| printable(name)).collect();
            format!("is for {}, not for {}", list(&names), expected.to_str())
        }
        CertificateError::NotValidForName => "is another server's".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for servers (its extended key usage lacks serverAuth)".into()
        }
        CertificateError::Revoked => "was revoked".into(),
        CertificateError::BadSignature => "has an invalid signature".into(),
        CertificateError::BadEncoding => "is damaged".into(),
        CertificateError::UnhandledCriticalExtension => "has an unknown critical extension".into(),
        _ => return None,
    })
}

/// rustls prints names of certificates as `DnsName("a.example")`.
fn printable(name: &str) -> &str {
    name.split('"').nth(1).unwrap_or(name)
}

fn list(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    match names {
        [] => "no name".into(),
        few if few.len() <= SHOWN => few.join(", "),
        many => format!("{} and {} others", many[..SHOWN].join(", "), many.len() - SHOWN),
    }
}
