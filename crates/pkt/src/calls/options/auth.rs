//! The options of authentication (RFC 6458 §8.3). Setting one of them enables authentication for future
//! associations. On an existing association keys have no effect unless both sides negotiated
//! authentication.

use braidftp_sctp::{Association, AuthConfig, Config, HmacId, KeyError, SharedKey};
use bytes::Bytes;

use super::super::values::{int, member_int, number, structure};
use super::super::{Outcome, Result, done, fails};
use crate::script::Expr;

/// The errno of a key operation on an existing association.
fn refused(result: std::result::Result<(), KeyError>) -> Option<&'static str> {
    match result {
        Ok(()) | Err(KeyError::NotEnabled) => None,
        Err(KeyError::TooMany) => Some("ENOBUFS"),
        Err(_) => Some("EINVAL"),
    }
}

/// Sets an authentication option for future associations, whose configuration is `config`, and for existing
/// ones; `None` if `option` is another option.
pub(super) fn set(
    config: &mut Config,
    mut existing: Vec<&mut Association>,
    option: &str,
    value: &Expr,
    line: usize,
) -> Result<Option<Outcome>> {
    let auth = || config.security.auth.clone().unwrap_or_default();
    let key = |name: &str| Ok(member_int(value, name, line)?.unwrap_or(0) as u16);
    let outcome = |errno: Option<&'static str>| match errno {
        Some(errno) => fails(errno).map(Some),
        None => done(0).map(Some),
    };
    match option {
        "SCTP_AUTH_CHUNK" => {
            let mut auth = auth();
            let chunk = member_int(value, "sauth_chunk", line)?.and_then(|chunk| u8::try_from(chunk).ok());
            let Some(chunk) = chunk.filter(|chunk| !matches!(chunk, 1 | 2 | 14 | 15)) else {
                return fails("EINVAL").map(Some);
            };
            if !auth.chunks.contains(&chunk) {
                auth.chunks.push(chunk);
            }
            config.security.auth = Some(auth);
            outcome(None)
        }
        "SCTP_HMAC_IDENT" => {
            let Some(Expr::List(idents)) = value.member("shmac_idents") else {
                return fails("EINVAL").map(Some);
            };
            let mut hmacs = Vec::new();
            for ident in idents {
                let code = u16::try_from(int(ident, line)?).unwrap_or(0);
                let Some(hmac) = HmacId::from_code(code) else { return fails("EINVAL").map(Some) };
                hmacs.push(hmac);
            }
            // RFC 4895 §6.1: SHA-1 is mandatory.
            if !hmacs.contains(&HmacId::Sha1) {
                return fails("EINVAL").map(Some);
            }
            config.security.auth = Some(AuthConfig { hmacs, ..auth() });
            outcome(None)
        }
        "SCTP_AUTH_KEY" => {
            let id = key("sca_keynumber")?;
            let mut secret = Vec::new();
            if let Some(Expr::List(bytes)) = value.member("sca_key") {
                for byte in bytes {
                    secret.push(int(byte, line)? as u8);
                }
            }
            let shared = SharedKey { id, secret: Bytes::from(secret) };
            let mut auth = auth();
            auth.keys.retain(|key| key.id != id);
            auth.keys.push(shared.clone());
            if auth.keys.len() > AuthConfig::MAX_KEYS || shared.secret.len() > AuthConfig::MAX_KEY_BYTES {
                return fails("EINVAL").map(Some);
            }
            // Associations that use authentication get the key; a key does not enable authentication.
            if existing.is_empty() || config.security.auth.is_some() {
                config.security.auth = Some(auth);
            }
            outcome(existing.iter_mut().find_map(|association| refused(association.set_key(shared.clone()))))
        }
        "SCTP_AUTH_ACTIVE_KEY" => {
            let id = key("scact_keynumber")?;
            let mut auth = auth();
            let known = auth.keys.iter().any(|key| key.id == id) || (auth.keys.is_empty() && id == 0);
            if existing.is_empty() && !known {
                return fails("EINVAL").map(Some);
            }
            auth.active_key = id;
            if existing.is_empty() || config.security.auth.is_some() {
                config.security.auth = Some(auth);
            }
            outcome(existing.iter_mut().find_map(|association| refused(association.activate_key(id))))
        }
        "SCTP_AUTH_DEACTIVATE_KEY" | "SCTP_AUTH_DELETE_KEY" => {
            let id = key("scact_keynumber")?;
            let deletes = option == "SCTP_AUTH_DELETE_KEY";
            let mut auth = auth();
            let known = auth.keys.iter().any(|key| key.id == id);
            if existing.is_empty() && (!known || auth.active_key == id) {
                return fails("EINVAL").map(Some);
            }
            auth.keys.retain(|key| key.id != id);
            if config.security.auth.is_some() {
                config.security.auth = Some(auth);
            }
            let drop = |association: &mut &mut Association| {
                refused(if deletes { association.delete_key(id) } else { association.deactivate_key(id) })
            };
            outcome(existing.iter_mut().find_map(drop))
        }
        _ => Ok(None),
    }
}

/// Reads an authentication option; `None` if `option` is another option.
pub(super) fn get(
    config: &Config,
    existing: Option<&Association>,
    member: i64,
    option: &str,
) -> Option<Expr> {
    let chunks = |chunks: Vec<u8>| {
        structure(&[
            ("gauth_assoc_id", Expr::Int(member)),
            ("gauth_number_of_chunks", number(chunks.len())),
            ("gauth_chunks", Expr::List(chunks.into_iter().map(|chunk| Expr::Int(chunk.into())).collect())),
        ])
    };
    let default = AuthConfig::default();
    let auth = config.security.auth.as_ref();
    Some(match option {
        "SCTP_HMAC_IDENT" => {
            let hmacs = &auth.unwrap_or(&default).hmacs;
            let codes = hmacs.iter().map(|hmac| Expr::Int(hmac.code().into())).collect();
            structure(&[("shmac_number_of_idents", number(hmacs.len())), ("shmac_idents", Expr::List(codes))])
        }
        "SCTP_AUTH_ACTIVE_KEY" => structure(&[
            ("scact_assoc_id", Expr::Int(member)),
            ("scact_keynumber", number(auth.unwrap_or(&default).active_key)),
        ]),
        "SCTP_PEER_AUTH_CHUNKS" => chunks(existing.map(Association::peer_auth_chunks).unwrap_or_default()),
        "SCTP_LOCAL_AUTH_CHUNKS" => match existing {
            Some(association) => chunks(association.local_auth_chunks()),
            None => chunks(auth.map(|auth| auth.chunks.clone()).unwrap_or_default()),
        },
        _ => return None,
    })
}
