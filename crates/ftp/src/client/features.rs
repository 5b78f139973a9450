//! The features in a reply to FEAT (RFC 2389 §3.2).

use crate::hash::HashName;
use crate::reply::Reply;

/// The features of a server that a client uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// MLST and MLSD.
    pub mlst: bool,
    /// MDTM.
    pub mdtm: bool,
    /// SIZE.
    pub size: bool,
    /// REST STREAM.
    pub rest_stream: bool,
    /// EPSV.
    pub epsv: bool,
    /// MFMT.
    pub mfmt: bool,
    /// UTF8.
    pub utf8: bool,
    /// TVFS: complete paths are accepted.
    pub tvfs: bool,
    /// PIPELINE: the number of commands that may be sent ahead.
    pub pipeline: Option<u32>,
    /// XSTREAMS: the number of data streams.
    pub streams: Option<u16>,
    /// XFRAME 2.
    pub frames: bool,
    /// XTREE.
    pub tree: bool,
    /// XPART.
    pub partial: bool,
    /// AUTH TLS.
    pub tls: bool,
    /// HASH: the supported functions, in our order of preference.
    pub hash: Vec<HashName>,
    /// Commands that compute one digest each: XSHA256, XMD5, ….
    pub digests: Vec<HashName>,
}

impl Features {
    /// The features of every braid server, known without FEAT.
    //= specs/ftp-over-sctp.md#section-7.5
    //# The client need not wait for the greeting, nor for FEAT, before it uses anything of this section
    pub fn of_braid() -> Self {
        Self {
            mlst: true,
            mdtm: true,
            size: true,
            rest_stream: true,
            epsv: false,
            mfmt: true,
            utf8: true,
            tvfs: true,
            pipeline: None,
            streams: None,
            frames: true,
            tree: true,
            partial: true,
            tls: false,
            hash: vec![HashName::Blake3, HashName::Sha256],
            digests: Vec::new(),
        }
    }

    /// Parses the reply to FEAT; an error means no features.
    pub fn parse(reply: &Reply) -> Self {
        let mut found = Self::default();
        for line in reply.inner() {
            let line = line.trim_ascii().to_ascii_uppercase();
            let (name, value) = crate::command::split_verb(&line);
            let value = value.unwrap_or_default().trim_ascii();
            let number = crate::command::parse_number(value);
            match name {
                // Some servers only list MLSD.
                b"MLST" | b"MLSD" => found.mlst = true,
                b"MDTM" => found.mdtm = true,
                b"SIZE" => found.size = true,
                b"REST" => found.rest_stream = value == b"STREAM",
                b"EPSV" => found.epsv = true,
                b"MFMT" => found.mfmt = true,
                b"UTF8" => found.utf8 = true,
                b"TVFS" => found.tvfs = true,
                b"PIPELINE" => found.pipeline = number.and_then(|n| u32::try_from(n).ok()),
                b"XSTREAMS" => found.streams = number.and_then(|n| u16::try_from(n).ok()),
                b"XFRAME" => found.frames = value.split(|byte| *byte == b' ').any(|version| version == b"2"),
                b"XTREE" => found.tree = true,
                b"XPART" => found.partial = true,
                // `AUTH TLS`, or several in one line: `AUTH TLS;SSL` (RFC 4217 §6).
                b"AUTH" => {
                    found.tls |= value.split(|byte| matches!(byte, b';' | b' ')).any(|name| name == b"TLS");
                }
                // `HASH SHA-256*;MD5`: a star marks the selected function (draft-bryan-ftpext-hash §3).
                b"HASH" => {
                    let named = String::from_utf8_lossy(value).replace('*', "");
                    found
                        .hash
                        .extend(named.split([';', ' ']).filter_map(|name| name.parse::<HashName>().ok()));
                }
                b"XSHA" | b"XSHA1" => found.digests.push(HashName::Sha1),
                b"XSHA256" => found.digests.push(HashName::Sha256),
                b"XSHA512" => found.digests.push(HashName::Sha512),
                b"XMD5" => found.digests.push(HashName::Md5),
                b"XCRC" => found.digests.push(HashName::Crc32),
                _ => {}
            }
        }
        found.hash.sort_unstable();
        found.digests.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Code;

    #[test]
    fn features_of_our_and_other_servers_are_parsed() {
        let reply = Reply::multi(
            Code::SYSTEM_STATUS,
            "Features:",
            [
                "AUTH TLS;SSL",
                "MLST type*;size*;",
                "rest STREAM",
                "PIPELINE 256",
                "XSTREAMS 4",
                "XFRAME 2",
                "HASH MD5;SHA-256*;WHIRLPOOL",
                "XCRC",
                "xmd5 filename;start;end",
                "Xnothing",
            ],
            "End",
        );
        let expected = Features {
            mlst: true,
            rest_stream: true,
            pipeline: Some(256),
            streams: Some(4),
            frames: true,
            tls: true,
            hash: vec![HashName::Sha256, HashName::Md5],
            digests: vec![HashName::Md5, HashName::Crc32],
            ..Features::default()
        };
        assert_eq!(Features::parse(&reply), expected);
        assert_eq!(Features::parse(&Reply::new(Code::NOT_IMPLEMENTED, "no")), Features::default());
    }
}
