//! What other stacks got wrong, trap by trap, and the tests that keep this one out of each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A trap, where it was seen, and the tests named after it, here or in the crates that the trap lies in.
const TRAPS: &[(&str, &[&str])] = &[
    (
        "T3 is armed by every SACK, or not at all (sctp-proto PR 7, usrsctp #750)",
        &[
            "a_sack_that_acks_nothing_earliest_leaves_t3_running",
            "t3_stops_with_the_last_chunk_of_its_path_only",
        ],
    ),
    (
        "a window of zero that never opens, if the chunk that was dropped is the last (webrtc-rs #822, rtc #201)",
        &[
            "a_tail_dropped_by_a_full_receiver_is_recovered",
            "the_next_chunk_in_sequence_is_accepted_although_the_buffer_is_full",
            "a_buffer_full_of_one_message_with_a_gap_is_read_up_to_the_gap",
            "a_message_that_fills_the_whole_window_unfinished_becomes_readable",
            "a_closed_window_is_probed_indefinitely_without_ending_the_association",
            "a_lost_window_update_is_repaired_by_a_window_probe",
        ],
    ),
    (
        "the passive side takes no window and no threshold from the INIT (sctp-proto #28, rtc #111)",
        &["the_passive_side_knows_the_peers_window_and_starts_slowly"],
    ),
    (
        "flight leaks when chunks are abandoned or sent again (aiortc #1438, pion #104)",
        &[
            "chunks_lost_and_reported_later_stay_tracked",
            "trap_abandoned_chunks_are_removed_from_flight_and_window",
        ],
    ),
    (
        "SACKs: a loop to 65,535 in 16 bits, half of one applied, the wrap, blocks below, blocks twice, counts that are \
         believed, one longer than a packet (pion #469, #480, usrsctp #443, GHSA-jwjp-4649-v8jp)",
        &[
            "a_block_that_ends_at_65535_ends",
            "a_sack_that_is_wrong_in_part_is_not_applied_in_part",
            "sacks_are_read_across_the_wrap_of_tsns",
            "blocks_out_of_order_and_overlapping_are_equivalent",
            "a_sacks_counts_must_account_for_its_length",
            "a_sack_with_more_gaps_than_fit_is_one_packet",
        ],
    ),
    (
        "FORWARD TSN that ends within a message, names what was never sent, or costs a walk over the window (pion, dcSCTP, \
         usrsctp #547)",
        &[
            "trap_an_abandoned_partly_sent_message_ends_where_a_message_ends",
            "forward_tsn_advances_by_a_window_at_most",
            "a_flood_of_forward_tsn_costs_what_it_removes",
        ],
    ),
    (
        "chunks of next to no data cost nothing of the window, and memory is without limit (pion #471)",
        &["tiny_messages_cost_more_than_their_bytes", "tiny_fragments_of_i_data_cost_more_than_their_bytes"],
    ),
    (
        "a chunk of length 0 is read for ever; two parsers disagree about the last parameter (CVE-2021-3655, \
         CVE-2019-20503)",
        &[
            "a_chunk_shorter_than_its_header_ends_its_packet",
            "the_last_parameters_padding_may_count_in_the_chunk_or_not",
            "a_parameter_or_cause_that_exceeds_its_chunk_is_rejected",
        ],
    ),
    (
        "the tag is looked at after the chunks (CVE-2021-3772)",
        &[
            "a_wrong_tag_is_silently_discarded_for_every_chunk_type",
            "a_malformed_chunk_with_a_wrong_tag_is_discarded",
        ],
    ),
    (
        "cookies that anyone can make, that half work when stale, of a length that is believed, or used twice \
         (GHSA-p7x2-g5cq-fhmq, CVE-2013-2206)",
        &[
            "a_cookie_with_any_bit_changed_is_forged",
            "a_cookie_cut_short_or_grown_is_forged",
            "a_forged_cookie_is_silently_discarded_with_its_packet",
            "a_stale_cookie_is_answered_with_its_staleness_and_its_data_dropped",
            "a_replayed_cookie_is_acknowledged_again_and_changes_nothing",
        ],
    ),
    (
        "the RTO is shifted out of its bounds (CVE-2025-40281)",
        &["back_off_doubles_up_to_the_maximum_and_a_sample_ends_it", "the_rto_stays_within_the_bounds"],
    ),
    (
        "AUTH before there is a key, and ASCONF of a length that is believed (CVE-2026-23125, usrsctp #380, \
         CVE-2022-46871)",
        &["an_auth_chunk_before_keys_are_agreed_is_harmless", "an_asconf_with_a_wrong_length_is_rejected"],
    ),
    (
        "heartbeats never find a dead peer, or believe what comes back (mediasoup #1824, #439)",
        &["heartbeats_monitor_an_idle_path", "an_unsolicited_heartbeat_ack_gives_no_rtt_sample"],
    ),
    (
        "SHUTDOWN comes twice; data comes after it and is not answered at once (dcSCTP, pion)",
        &["a_duplicate_shutdown_is_harmless", "data_after_shutdown_is_answered_at_once"],
    ),
    (
        "round trips measured on retransmissions; a reduction for each loss (dcSCTP, sipsorcery #1088)",
        &[
            "retransmitted_chunks_give_no_rtt_sample",
            "only_chunks_sent_once_can_be_measured",
            "three_missing_reports_bring_a_fast_retransmission_and_one_reduction",
        ],
    ),
    (
        "T3 in the wrong unit; an RTO.Min below the peer's delay of SACKs (werift #551, open5gs #895)",
        &[
            "a_peer_that_vanishes_is_given_up_after_association_max_retrans",
            "a_modern_sender_does_not_time_out_on_a_peer_that_delays_its_sacks",
        ],
    ),
    (
        "NAT: an ABORT for an address that changed, data to one that nobody verified, a port that is not followed \
         (usrsctp #499, #98, #316)",
        &[
            "a_packet_with_a_stolen_tag_from_another_address_is_discarded_without_abort",
            "a_path_is_verified_before_use_and_never_used_if_unanswered",
            "each_address_has_its_own_encapsulation_port",
        ],
    ),
    (
        "a checksum of zero is taken without agreement (pion v1.8.12)",
        &["a_zero_checksum_is_invalid_unless_negotiated", "a_zero_checksum_is_accepted_only_where_announced"],
    ),
    (
        "a tick of 10 ms, a call to the kernel for each packet (usrsctp #633)",
        &[
            "an_association_is_woken_at_the_very_time_it_asked_for",
            "full_packets_leave_in_batches_of_one_size",
        ],
    ),
    (
        "text made of each packet, lists walked at each SACK (dcSCTP, rtc #104, #106)",
        &["no_text_is_formatted_on_the_packet_path", "a_full_window_is_acknowledged_chunk_by_chunk"],
    ),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The sources under a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_trap_has_its_tests() {
    let mut files = Vec::new();
    for folder in ["sctp/src", "sctp/tests", "cc/src"] {
        sources(&crates().join(folder), &mut files);
    }
    let mut tests = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")?.split_once('('));
        tests.extend(names.map(|(name, _)| name.to_owned()));
    }
    for (trap, named) in TRAPS {
        let missing: Vec<_> = named.iter().filter(|name| !tests.contains(**name)).collect();
        assert!(missing.is_empty() && !named.is_empty(), "{trap}: there is no test {missing:?}");
    }
}

#[test]
fn no_text_is_formatted_on_the_packet_path() {
    // dcSCTP formatted every packet for a log that was off, and was 25 to 31 times slower for it.
    let passed = [
        "association/receive.rs",
        "association/received.rs",
        "association/reassembly.rs",
        "association/send_queue.rs",
        "association/sent.rs",
        "association/transmit.rs",
        "wire/chunk.rs",
        "wire/data.rs",
        "wire/packet.rs",
        "wire/sack.rs",
    ];
    for file in passed {
        let text = fs::read_to_string(crates().join("sctp/src").join(file)).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for word in ["format!", "to_string()", "write!(", "println!", "log::", "tracing"] {
            assert!(!code.contains(word), "{file} has {word}");
        }
    }
}
