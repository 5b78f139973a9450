//! The options of stream re-configuration (RFC 6525 §6.3).

use braidftp_base::Time;
use braidftp_sctp::{Association, Config, PeerMay, ReconfigError, StreamId, StreamReset, Streams};

use super::super::values::{int, member_int, structure};
use super::super::{Outcome, Result, done, fails};
use super::plain;
use crate::script::Expr;

const RESET_STREAMS: i64 = 1;
const RESET_ASSOCIATION: i64 = 2;
const ADD_STREAMS: i64 = 4;

/// Sets a re-configuration option for future associations, whose configuration is `config`, and for
/// existing ones; `None` if `option` is another option.
pub(super) fn set(
    config: &mut Config,
    existing: Option<&mut Association>,
    now: Time,
    (option, value): (&str, &Expr),
    line: usize,
) -> Result<Option<Outcome>> {
    let count = |key: &str| Ok(member_int(value, key, line)?.unwrap_or(0) as u16);
    let asked = match (option, existing) {
        ("SCTP_ENABLE_STREAM_RESET", existing) => {
            let flags = plain(value, line)?;
            let may = PeerMay {
                reset_streams: flags & RESET_STREAMS != 0,
                reset_association: flags & RESET_ASSOCIATION != 0,
                add_streams: flags & ADD_STREAMS != 0,
            };
            config.streams.peer_may = may;
            match existing.map(|association| association.set_peer_may(may)) {
                // A feature that was not negotiated is not requested.
                None | Some(Err(ReconfigError::NotSupported)) => Ok(()),
                Some(result) => result,
            }
        }
        ("SCTP_RESET_STREAMS" | "SCTP_RESET_ASSOC" | "SCTP_ADD_STREAMS", None) => {
            return fails("ENOTCONN").map(Some);
        }
        ("SCTP_RESET_STREAMS", Some(association)) => {
            let flags = member_int(value, "srs_flags", line)?.unwrap_or(0);
            let list = match value.member("srs_stream_list") {
                Some(Expr::List(list)) => list.iter().map(|id| Ok(StreamId(int(id, line)? as u16))).collect(),
                _ => Ok(Vec::new()),
            }?;
            let streams = || if list.is_empty() { Streams::All } else { Streams::These(list.clone()) };
            association.reset_streams(StreamReset {
                incoming: (flags & 1 != 0).then(streams),
                outgoing: (flags & 2 != 0).then(streams),
            })
        }
        ("SCTP_RESET_ASSOC", Some(association)) => association.reset_association(now),
        ("SCTP_ADD_STREAMS", Some(association)) => {
            association.add_streams(count("sas_outstrms")?, count("sas_instrms")?)
        }
        _ => return Ok(None),
    };
    match asked {
        Ok(()) => done(0),
        Err(ReconfigError::InProgress | ReconfigError::TooSoon) => fails("EALREADY"),
        Err(ReconfigError::NotSupported) => fails("EOPNOTSUPP"),
        Err(ReconfigError::NotUp) => fails("ENOTCONN"),
        Err(_) => fails("EINVAL"),
    }
    .map(Some)
}

/// The value of SCTP_ENABLE_STREAM_RESET.
pub(super) fn get(config: &Config, option: &str) -> Option<Expr> {
    let PeerMay { reset_streams, reset_association, add_streams } = config.streams.peer_may;
    let flags =
        [(reset_streams, RESET_STREAMS), (reset_association, RESET_ASSOCIATION), (add_streams, ADD_STREAMS)];
    let flags = flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag).sum();
    (option == "SCTP_ENABLE_STREAM_RESET").then(|| structure(&[("assoc_value", Expr::Int(flags))]))
}
