//! The options of authentication (RFC 6458 §8.3). Setting one of them enables authentication for future
//! associations. On an existing association keys have no effect unless both sides negotiated
//! authentication.

use braidftp_sctp::{Association, AuthConfig, Config, HmacId, KeyError, SharedKey};
use bytes::Bytes;

use super::super::values::{int, member_int, number, structure};
use super::super::{Outcome, Result, done, fails};
use crate::script::Expr;

/// The errno of a call that failed.
type Errno = Option<&'static str>;

/// The errno of a key operation on an existing association.
fn refused(result: std::result::Result<(), KeyError>) -> Errno {
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
    let existing = &mut existing[..];
    let errno = match option {
        "SCTP_AUTH_CHUNK" => set_chunk(config, value, line)?,
        "SCTP_HMAC_IDENT" => set_hmacs(config, value, line)?,
        "SCTP_AUTH_KEY" => set_key(config, existing, value, line)?,
        "SCTP_AUTH_ACTIVE_KEY" => set_active_key(config, existing, value, line)?,
        "SCTP_AUTH_DEACTIVATE_KEY" | "SCTP_AUTH_DELETE_KEY" => {
            remove_key(config, existing, option, value, line)?
        }
        _ => return Ok(None),
    };
    match errno {
        Some(errno) => fails(errno).map(Some),
        None => done(0).map(Some),
    }
}

fn auth_of(config: &Config) -> AuthConfig {
    config.security.auth.clone().unwrap_or_default()
}

fn key_number(value: &Expr, name: &str, line: usize) -> Result<u16> {
    Ok(member_int(value, name, line)?.unwrap_or(0) as u16)
}

/// Requires AUTH for another type of chunk.
fn set_chunk(config: &mut Config, value: &Expr, line: usize) -> Result<Errno> {
    let mut auth = auth_of(config);
    let chunk = member_int(value, "sauth_chunk", line)?.and_then(|chunk| u8::try_from(chunk).ok());
    let Some(chunk) = chunk.filter(|chunk| !matches!(chunk, 1 | 2 | 14 | 15)) else {
        return Ok(Some("EINVAL"));
    };
    if !auth.chunks.contains(&chunk) {
        auth.chunks.push(chunk);
    }
    config.security.auth = Some(auth);
    Ok(None)
}

/// Sets the HMACs, in the order of preference.
fn set_hmacs(config: &mut Config, value: &Expr, line: usize) -> Result<Errno> {
    let Some(Expr::List(idents)) = value.member("shmac_idents") else {
        return Ok(Some("EINVAL"));
    };
    let mut hmacs = Vec::new();
    for ident in idents {
        let code = u16::try_from(int(ident, line)?).unwrap_or(0);
        let Some(hmac) = HmacId::from_code(code) else { return Ok(Some("EINVAL")) };
        hmacs.push(hmac);
    }
    // RFC 4895 §6.1: SHA-1 is mandatory.
    if !hmacs.contains(&HmacId::Sha1) {
        return Ok(Some("EINVAL"));
    }
    config.security.auth = Some(AuthConfig { hmacs, ..auth_of(config) });
    Ok(None)
}

/// Adds a shared key.
fn set_key(
    config: &mut Config,
    existing: &mut [&mut Association],
    value: &Expr,
    line: usize,
) -> Result<Errno> {
    let id = key_number(value, "sca_keynumber", line)?;
    let mut secret = Vec::new();
    if let Some(Expr::List(bytes)) = value.member("sca_key") {
        for byte in bytes {
            secret.push(int(byte, line)? as u8);
        }
    }
    let shared = SharedKey { id, secret: Bytes::from(secret) };
    let mut auth = auth_of(config);
    auth.keys.retain(|key| key.id != id);
    auth.keys.push(shared.clone());
    if auth.keys.len() > AuthConfig::MAX_KEYS || shared.secret.len() > AuthConfig::MAX_KEY_BYTES {
        return Ok(Some("EINVAL"));
    }
    // Associations that use authentication get the key; a key does not enable authentication.
    if existing.is_empty() || config.security.auth.is_some() {
        config.security.auth = Some(auth);
    }
    Ok(existing.iter_mut().find_map(|association| refused(association.set_key(shared.clone()))))
}

/// Chooses the key for sending.
fn set_active_key(
    config: &mut Config,
    existing: &mut [&mut Association],
    value: &Expr,
    line: usize,
) -> Result<Errno> {
    let id = key_number(value, "scact_keynumber", line)?;
    let mut auth = auth_of(config);
    let known = auth.keys.iter().any(|key| key.id == id) || (auth.keys.is_empty() && id == 0);
    if existing.is_empty() && !known {
        return Ok(Some("EINVAL"));
    }
    auth.active_key = id;
    if existing.is_empty() || config.security.auth.is_some() {
        config.security.auth = Some(auth);
    }
    Ok(existing.iter_mut().find_map(|association| refused(association.activate_key(id))))
}

/// Deletes a key, or stops its use for sending.
fn remove_key(
    config: &mut Config,
    existing: &mut [&mut Association],
    option: &str,
    value: &Expr,
    line: usize,
) -> Result<Errno> {
    let id = key_number(value, "scact_keynumber", line)?;
    let deletes = option == "SCTP_AUTH_DELETE_KEY";
    let mut auth = auth_of(config);
    let known = auth.keys.iter().any(|key| key.id == id);
    if existing.is_empty() && (!known || auth.active_key == id) {
        return Ok(Some("EINVAL"));
    }
    auth.keys.retain(|key| key.id != id);
    if config.security.auth.is_some() {
        config.security.auth = Some(auth);
    }
    let drop = |association: &mut &mut Association| {
        refused(if deletes { association.delete_key(id) } else { association.deactivate_key(id) })
    };
    Ok(existing.iter_mut().find_map(drop))
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
