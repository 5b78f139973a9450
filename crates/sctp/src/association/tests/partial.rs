//! What is given up (RFC 3758; RFC 8260 §2.3.1): when it can be, what the peer makes of it, and what the user hears.

use super::*;
use crate::association::Violation;
use crate::ids::{Ssn, Tsn};
use crate::wire::{ForwardTsn, IForwardTsn, Parameter, SkippedMid};

fn partial() -> Config {
    Config { partial_reliability: true, ..rfc() }
}

fn interleaved() -> Config {
    Config { interleaving: true, ..partial() }
}

/// A FORWARD TSN to so many TSNs beyond what the server has.
fn forward(pair: &mut Pair, ahead: u32, streams: &[(u16, u16)]) -> Chunk {
    let new_cum_tsn = cum_tsn(pair, Server).plus(ahead);
    let streams = streams.iter().map(|(stream, ssn)| (StreamId(*stream), Ssn(*ssn))).collect();
    Chunk::ForwardTsn(ForwardTsn { new_cum_tsn, streams })
}

fn cum_tsn(pair: &mut Pair, side: Side) -> Tsn {
    pair.association(side).state.up().unwrap().received.cum_tsn()
}

fn init_parameters(pair: &Pair, kind: u8) -> Vec<Parameter> {
    let chunks = pair.log.iter().flat_map(|entry| chunks(&entry.2));
    let mut inits = chunks.filter_map(|chunk| match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) if kind == 1 || init.state_cookie().is_some() => Some(init),
        _ => None,
    });
    inits.next().unwrap().parameters
}

//= specs/rfc3758.txt#section-3.3.1
//= type=test
//# Note that if the endpoint chooses NOT to include the parameter, then
//# at no time during the life of the association can it send or process
//# a FORWARD TSN.  It MUST instead act as if it does NOT support the
//# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
//# FORWARD TSN.
//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# Note that if the endpoint chooses NOT to include the parameter, then
//# at no time during the life of the association can it send or process
//# a FORWARD TSN.  It MUST instead act as if it does NOT support the
//# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
//# FORWARD TSN.
#[test]
fn where_it_was_not_agreed_on_forward_tsn_is_not_known() {
    for (client, server) in [(partial(), rfc()), (rfc(), partial()), (rfc(), rfc())] {
        let mut pair = Pair::with(client, server);
        pair.run(Duration::from_millis(100));
        assert!(!pair.association(Server).extensions().unwrap().partial_reliability());
        pair.send(Client, 0, "a");
        pair.run(Duration::from_secs(1));
        pair.clear_log();
        let before = cum_tsn(&mut pair, Server);
        let chunk = forward(&mut pair, 5, &[(0, 1)]);
        pair.forge(std::slice::from_ref(&chunk));
        let error = Chunk::Error(vec![crate::wire::Cause::UnrecognizedChunkType(chunk.to_bytes())]);
        assert_eq!(pair.packets(Server), [vec![error]]);
        assert_eq!(cum_tsn(&mut pair, Server), before);
    }
}

//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# When a receiver of an INIT detects a Forward-TSN-Supported parameter
//# and does not support the Forward-TSN chunk type, the receiver MUST
//# follow the rules defined in Section 3.3.3 of RFC 2960 [2].
//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# When a receiver of an INIT-ACK detects a Forward-TSN-Supported
//# parameter and it does not support the Forward-TSN chunk type, the
//# receiver MUST follow the rules defined in Section 3.3.3 of RFC 2960
//# [2].
#[test]
fn the_parameter_is_reported_by_whoever_does_not_support_it() {
    let mut pair = Pair::with(partial(), rfc());
    pair.run(Duration::from_millis(100));
    let report = Parameter::Unrecognized(Parameter::ForwardTsnSupported.to_report().unwrap());
    assert!(init_parameters(&pair, 2).contains(&report));
    let mut pair = Pair::with(rfc(), partial());
    pair.run(Duration::from_millis(100));
    assert_eq!(init_parameters(&pair, 1), []);
    let report = Parameter::ForwardTsnSupported.to_report().unwrap();
    let error = Chunk::Error(vec![crate::wire::Cause::UnrecognizedParameters(report)]);
    assert!(pair.packets(Client)[1].contains(&error));
    assert!(pair.association(Client).is_up());
}

#[test]
fn it_is_agreed_on_by_a_parameter_and_listed() {
    let listed = |kinds: &'static [u8]| Parameter::SupportedExtensions(Bytes::from_static(kinds));
    for (config, kinds) in [(partial(), &[192][..]), (interleaved(), &[192, 64, 194])] {
        let mut pair = Pair::new(config);
        pair.run(Duration::from_millis(100));
        for kind in [1, 2] {
            let parameters = init_parameters(&pair, kind);
            assert_eq!(parameters[..2], [Parameter::ForwardTsnSupported, listed(kinds)]);
        }
        for side in [Client, Server] {
            assert!(pair.association(side).extensions().unwrap().partial_reliability());
        }
    }
}

//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# If I-FORWARD-TSN support has been negotiated for an association, the
//# reception of a FORWARD-TSN chunk is a violation of the above rules
//# and therefore the receiver of the FORWARD-TSN chunk MUST abort the
//# association by sending an ABORT chunk.  The ABORT chunk MAY include
//# the 'Protocol Violation' error cause.
#[test]
fn the_form_that_does_not_go_with_the_data_ends_the_association() {
    let mut pair = Pair::up(interleaved());
    let chunk = forward(&mut pair, 1, &[]);
    pair.forge(&[chunk]);
    assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::WrongForwardTsn)));
    // And where one side alone would interleave.
    let mut pair = Pair::with(partial(), interleaved());
    pair.run(Duration::from_millis(100));
    let new_cum_tsn = cum_tsn(&mut pair, Server).next();
    pair.forge(&[Chunk::IForwardTsn(IForwardTsn { new_cum_tsn, streams: vec![] })]);
    assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::WrongForwardTsn)));
    // Of which a side without I-DATA has never heard.
    let mut pair = Pair::up(partial());
    let new_cum_tsn = cum_tsn(&mut pair, Server).next();
    let chunk = Chunk::IForwardTsn(IForwardTsn { new_cum_tsn, streams: vec![] });
    pair.forge(std::slice::from_ref(&chunk));
    let error = Chunk::Error(vec![crate::wire::Cause::UnrecognizedChunkType(chunk.to_bytes())]);
    assert_eq!(pair.packets(Server), [vec![error]]);
}

#[test]
fn forward_tsn_goes_as_far_as_a_window_and_no_further() {
    let window = rfc().receive_buffer_bytes as u32;
    for (ahead, is_taken) in [(window, true), (window + 1, false), (i32::MAX as u32, false)] {
        let mut pair = Pair::up(partial());
        let before = cum_tsn(&mut pair, Server);
        let chunk = forward(&mut pair, ahead, &[]);
        pair.forge(&[chunk]);
        if is_taken {
            assert_eq!(cum_tsn(&mut pair, Server), before.plus(ahead));
            assert_eq!(pair.sacks(Server).len(), 1, "the first of all is answered at once");
        } else {
            let violation = Violation::ForwardTsnTooFar(before.plus(ahead));
            assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(violation)));
        }
    }
}

#[test]
fn forward_tsn_may_be_the_first_of_all_and_name_what_does_not_exist() {
    let config = Config { inbound_streams: 4, ..partial() };
    let mut pair = Pair::up(config);
    let chunk = forward(&mut pair, 2, &[(4, 0), (3, 1), (65_535, 9)]);
    pair.forge(&[chunk]);
    let tsn = cum_tsn(&mut pair, Server).next();
    let data = |flags: u8, ssn| Data {
        begin: flags & 2 != 0,
        end: flags & 1 != 0,
        unordered: false,
        immediate: false,
        tsn,
        stream: StreamId(3),
        ssn: Ssn(ssn),
        interleaved: None,
        ppid: Ppid(0),
        payload: Bytes::from_static(b"x"),
    };
    pair.forge(&[Chunk::Data(data(3, 2))]);
    assert_eq!(pair.read(Server, 3), [b"x"]);
    assert!(pair.closed(Server).is_none());
}

#[test]
fn i_forward_tsn_skips_messages_of_either_order() {
    let mut pair = Pair::up(interleaved());
    let tsn = cum_tsn(&mut pair, Server);
    let data = |ahead: u32, unordered: bool, mid: u32, flags: u8| {
        Chunk::Data(Data {
            begin: flags & 2 != 0,
            end: flags & 1 != 0,
            unordered,
            immediate: false,
            tsn: tsn.plus(ahead),
            stream: StreamId(1),
            ssn: Ssn(0),
            interleaved: Some(crate::wire::Interleaved { mid, fsn: u32::from(flags & 2 == 0) }),
            ppid: Ppid(0),
            payload: Bytes::from_static(b"x"),
        })
    };
    pair.forge(&[data(2, false, 0, 1), data(4, true, 0, 2), data(5, false, 1, 3)]);
    assert_eq!(pair.read(Server, 1).len(), 0);
    let skipped = |unordered, mid| SkippedMid { stream: StreamId(1), unordered, mid };
    let streams = vec![skipped(false, 0), skipped(true, 0)];
    pair.forge(&[Chunk::IForwardTsn(IForwardTsn { new_cum_tsn: tsn.plus(4), streams })]);
    assert_eq!(pair.read(Server, 1).len(), 1);
    assert_eq!(cum_tsn(&mut pair, Server), tsn.plus(5));
    assert_eq!(pair.association(Server).inbound.charged_bytes(), 0);
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# Note that after receiving a FORWARD TSN and updating the cumulative
//# acknowledgement point, if a TSN that was skipped does arrive (i.e.,
//# due to network reordering), then the receiver will follow the normal
//# rules defined in RFC 2960 [2] for handling duplicate data.
#[test]
fn what_was_skipped_and_comes_after_all_is_a_duplicate() {
    let mut pair = Pair::up(partial());
    let chunk = forward(&mut pair, 2, &[(0, 1)]);
    pair.forge(&[chunk]);
    pair.clear_log();
    pair.send(Client, 0, "late");
    pair.run(Duration::from_millis(20));
    let (_, sack) = &pair.sacks(Server)[0];
    assert_eq!(sack.dups, [sack.cum_tsn_ack.minus(1)]);
    assert_eq!(pair.association(Server).stats().duplicates, 1);
    assert_eq!(pair.read(Server, 0).len(), 0);
}
