//! The transfer log in the format of wu-ftpd (xferlog(5)), which statistics programs read: a line for each
//! file that was sent or received, and none for listings.
//!
//! ```text
//! Tue Nov 24 08:56:52 2026 3 192.0.2.1 1048576 /pub/a_file b _ o a anonymous ftp 0 * c
//! ```
//!
//! Times are UTC. In names, spaces and bytes other than printable ASCII are replaced by `_`, as in wu-ftpd,
//! so that no name can forge a field.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use braidftp_ftp::command::Type;
use braidftp_ftp::stamp::Timestamp;

use super::activity::{Direction, Finished};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The line of a transfer that has just ended; `None` for a listing.
pub(super) fn line(finished: &Finished, peer: IpAddr, user: &str) -> Option<String> {
    line_at(SystemTime::now(), finished, peer, user)
}

fn line_at(now: SystemTime, finished: &Finished, peer: IpAddr, user: &str) -> Option<String> {
    let direction = match finished.direction {
        Direction::Download => 'o',
        Direction::Upload => 'i',
        Direction::Listing => return None,
    };
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let civil = Timestamp::from_seconds(seconds).civil();
    let day = DAYS[seconds.div_euclid(86_400).rem_euclid(7) as usize];
    let month = MONTHS.get(civil.month as usize - 1).unwrap_or(&"Jan");
    let kind = if finished.representation == Type::Ascii { 'a' } else { 'b' };
    let access = if matches!(user, "anonymous" | "ftp") { 'a' } else { 'r' };
    let status = if finished.failure.is_none() { 'c' } else { 'i' };
    Some(format!(
        "{day} {month} {:2} {:02}:{:02}:{:02} {} {} {peer} {} /{} {kind} _ {direction} {access} {} ftp 0 * {status}\n",
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        civil.year,
        finished.took.as_secs_f64().round().max(1.0),
        finished.bytes,
        one_word(finished.path.as_bytes()),
        one_word(user.as_bytes()),
    ))
}

fn one_word(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use braidftp_ftp::SafePath;
    use braidftp_ftp::server::Failure;

    use super::*;

    #[test]
    fn a_line_has_the_fourteen_fields_of_wu_ftpd_and_no_name_forges_one() {
        let finished = |direction, failure| Finished {
            path: SafePath::ROOT.resolve("/pub/a b\u{fc} c".as_bytes()).unwrap(),
            direction,
            representation: Type::Image,
            took: Duration::from_millis(2_600),
            bytes: 1_048_576,
            failure,
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_795_510_612);
        let peer = IpAddr::from([192, 0, 2, 1]);
        let line = |direction, failure, user| line_at(now, &finished(direction, failure), peer, user);
        assert_eq!(
            line(Direction::Download, None, "anonymous").unwrap(),
            "Tue Nov 24 08:56:52 2026 3 192.0.2.1 1048576 /pub/a_b___c b _ o a anonymous ftp 0 * c\n"
        );
        let failed = line(Direction::Upload, Some(Failure::DataLost), "an na").unwrap();
        assert!(failed.ends_with(" b _ i r an_na ftp 0 * i\n"), "{failed}");
        // The date consists of five words.
        assert_eq!(failed.split_whitespace().count(), 18);
        assert_eq!(line(Direction::Listing, None, "anonymous"), None);
    }
}
