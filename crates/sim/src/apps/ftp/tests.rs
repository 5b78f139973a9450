//! Complete gets with every variant: their end, dialogue and counters.

use super::*;
use crate::link::Loss;
use crate::random::Probability;
use crate::world::Sight;

const LAN: &str = "rate=3mbit,delay=1ms,queue=500kB,overhead=20";
const SATELLITE: &str = "rate=256kbit,delay=125ms,queue=500kB,overhead=20";

fn path(link: &str, loss: f64) -> Vec<[LinkConfig; 2]> {
    let mut link: LinkConfig = link.parse().unwrap();
    if loss > 0.0 {
        link.loss = Loss::Bernoulli(Probability::new(loss).unwrap());
    }
    vec![[link.clone(), link]]
}

fn get(variant: Variant, loss: f64) -> Session {
    let sctp = sctp::Config::default().with(|c| c.path_mtu.packet_bytes = 1_480);
    Session { variant, sctp, paths: path(LAN, loss), files: vec![10_000; 10], ..Session::default() }
}

fn is_whole(outcome: &Outcome) -> bool {
    outcome.failed.is_none() && outcome.files.iter().all(|file| file.whole && file.done.is_some())
}

#[test]
fn every_variant_brings_every_file_whole_whatever_is_lost() {
    for variant in Variant::ALL {
        for loss in [0.0, 0.03, 0.1] {
            for seed in 0..4 {
                let files = vec![0, 1, 10_000, 50_000, 200_001];
                let outcome = Session { seed, files, ..get(*variant, loss) }.run();
                assert!(is_whole(&outcome), "{variant} {loss} {seed}: {outcome:?}");
                assert_eq!(outcome.reconnections, 0);
            }
        }
    }
}

/// Credit on stream 0 follows more commands than a server takes at once.
#[test]
fn hundreds_of_files_that_wait_for_credit_arrive_in_one_session() {
    let paths = path("rate=95mbit,delay=20ms,queue=3MB,overhead=28", 0.0);
    let outcome = Session { paths, files: vec![50_000; 400], ..get("braid".parse().unwrap(), 0.0) }.run();
    assert!(is_whole(&outcome), "{outcome:?}");
    assert_eq!(outcome.reconnections, 0);
}

#[test]
fn over_a_satellite_a_get_at_ten_percent_ends_too() {
    for variant in Variant::ALL {
        let outcome =
            Session { paths: path(SATELLITE, 0.1), files: vec![50_000; 10], ..get(*variant, 0.0) }.run();
        assert!(is_whole(&outcome), "{variant}: {outcome:?}");
    }
}

#[test]
fn one_seed_is_one_run_and_another_is_another() {
    for variant in Variant::ALL {
        let run = |seed| Session { seed, ..get(*variant, 0.05) }.run();
        let (one, same, other) = (run(1), run(1), run(2));
        let numbers = |outcome: &Outcome| {
            (outcome.fingerprint, outcome.since_asked, outcome.to_client, outcome.to_server)
        };
        assert_eq!(numbers(&one), numbers(&same), "{variant}");
        assert_ne!(one.fingerprint, other.fingerprint, "{variant}");
    }
}

#[test]
fn observation_changes_nothing() {
    for variant in Variant::ALL {
        let session = get(*variant, 0.05);
        let watch = Watch { windows: true, packets: true, memory: true, silence: true, stats: true };
        let (unseen, seen) = (session.run(), Session { watch, ..session }.run());
        assert_eq!(
            (unseen.fingerprint, unseen.since_asked),
            (seen.fingerprint, seen.since_asked),
            "{variant}"
        );
        assert!(!seen.windows.is_empty() && !seen.packets.is_empty());
        let sent = seen.transcript().len() as u64;
        assert_eq!(sent, seen.to_client.total().packets + seen.to_server.total().packets, "{variant}");
    }
}

/// P1-C16, P2-C46: "each run involved eleven connection establishments".
#[test]
fn connections_are_as_many_as_the_variant_says() {
    let expected =
        [(Variant::Tcp, 12), (Variant::Naive, 12), (Variant::Ms, 1), (Variant::MsCp, 1), (Variant::Braid, 1)];
    for (variant, connections) in expected {
        let outcome = get(variant, 0.0).run();
        // The one of control, one for the names, one for each file.
        assert_eq!(outcome.connections, connections, "{variant}");
        assert_eq!(outcome.timeouts, 0);
    }
    for (variant, connections) in
        [(Variant::TcpOneCp, 1), (Variant::TcpTwo, 2), (Variant::TcpTwoCp, 2), (Variant::TcpParallel, 5)]
    {
        assert_eq!(get(variant, 0.0).run().connections, connections, "{variant}");
    }
}

/// P2-C34: naive has at least seven packets more for each file: four to open its association and three to close it.
#[test]
fn an_association_of_its_own_costs_a_file_seven_packets() {
    let setup = |variant| {
        let outcome = get(variant, 0.0).run();
        outcome.to_client.setup.packets + outcome.to_server.setup.packets
    };
    // Eleven associations of data. COOKIE ACK may travel with data, and SHUTDOWN with a SACK.
    assert_eq!(setup(Variant::Naive), 11 * 7);
    assert_eq!(setup(Variant::Ms), 0);
    // SYN, SYN ACK, and the client's FIN: the server's is in the last segment of data, and the third leg of opening and the
    // last of closing are acknowledgements like others.
    assert_eq!(setup(Variant::Tcp), 11 * 3);
}

/// P2-C21: "Transferring a 10K file only involves ~7 PDUs".
#[test]
fn ten_kilobytes_are_seven_packets() {
    for variant in [Variant::Tcp, Variant::Naive, Variant::Ms] {
        let one = Session { files: vec![10_000], ..get(variant, 0.0) }.run();
        // And one with the name.
        assert_eq!(one.to_client.data.packets, 1 + 7, "{variant}");
    }
}

/// P2-C03, P2-C14, P2-C49: what a server holds for a session.
#[test]
fn a_server_has_one_association_for_ms_and_many_time_wait_connections_for_tcp() {
    let blocks = |variant| {
        let outcome = Session { files: vec![10_000; 30], ..get(variant, 0.0) }.run();
        (outcome.control_blocks_max, outcome.control_blocks_mean)
    };
    assert_eq!(blocks(Variant::Ms), (1, 1.0));
    assert_eq!(blocks(Variant::MsCp), (1, 1.0));
    let (most, mean) = blocks(Variant::Naive);
    assert!((2..=3).contains(&most) && mean > 1.5, "{most} {mean}");
    let (most, mean) = blocks(Variant::Tcp);
    assert!(most > 25 && mean > 10.0, "{most} {mean}");
}

#[test]
fn a_nat_that_rewrites_no_payload_breaks_port_and_leaves_one_association_alone() {
    for variant in Variant::ALL {
        let outcome = Session { nat: NatBox::InFrontOfClient, attempts: 2, ..get(*variant, 0.0) }.run();
        let needs_port = matches!(variant, Variant::Tcp | Variant::Naive);
        assert_eq!(is_whole(&outcome), !needs_port, "{variant}: {:?}", outcome.failed);
        assert_eq!(outcome.turned_away > 0, *variant == Variant::Naive, "{variant}");
    }
}

/// P2-C50: what timed out on the first path is sent again on the second, where nothing is lost.
#[test]
fn a_lossless_second_path_repairs_losses_of_the_first() {
    let paths = [path(LAN, 0.1), path(LAN, 0.0)].concat();
    let watch = Watch { packets: true, ..Watch::default() };
    let outcome = Session { paths, watch, files: vec![200_000; 3], ..get(Variant::Naive, 0.0) }.run();
    assert!(is_whole(&outcome), "{:?}", outcome.failed);
    let second = topology::address(1, SERVER);
    let caught = outcome.packets.iter().filter(|seen| seen.datagram.from.ip() == second).count();
    assert!(caught > 10 && outcome.timeouts > 0, "{caught}");
}

#[test]
fn data_is_bundled_with_cookie_echo_if_configured() {
    let watch = Watch { packets: true, ..Watch::default() };
    for (handshake, expected) in [(Handshake::First, 0), (Handshake::WithData, 11)] {
        let outcome = Session { handshake, watch, ..get(Variant::Naive, 0.0) }.run();
        assert!(is_whole(&outcome));
        let rides = |pdu: &&Pdu| pdu.says.starts_with("COOKIE ECHO + DATA");
        assert_eq!(outcome.transcript().iter().filter(rides).count(), expected);
    }
}

#[test]
fn a_run_that_is_not_done_in_time_has_failed_and_says_so() {
    let outcome =
        Session { at_most: Duration::from_secs(1), files: vec![1_000_000], ..get(Variant::Ms, 0.0) }.run();
    assert!(outcome.failed.unwrap().contains("after 1 s"));
}

#[test]
fn files_of_a_megabyte_at_ten_percent_come_whole() {
    for variant in [Variant::Tcp, Variant::Naive, Variant::Ms, Variant::MsCp, Variant::Braid] {
        let outcome = Session { files: vec![1_000_000; 2], ..get(variant, 0.1) }.run();
        assert!(is_whole(&outcome), "{variant}: {:?}", outcome.failed);
    }
}

/// The two clocks: the second begins when the 150 to NLST arrives.
#[test]
fn the_second_clock_begins_a_round_trip_or_more_after_the_first() {
    for variant in Variant::ALL {
        let outcome = Session { paths: path(SATELLITE, 0.0), ..get(*variant, 0.0) }.run();
        let apart = (outcome.since_asked - outcome.since_opened).as_secs_f64();
        // EPRT and NLST; NLST alone.
        let round_trips = if matches!(variant, Variant::Tcp | Variant::Naive) { 2.0 } else { 1.0 };
        assert!((0.25 * round_trips..0.25 * round_trips + 0.1).contains(&apart), "{variant} {apart}");
    }
}

#[test]
fn lost_acknowledgements_are_acknowledgements_alone() {
    let lost_acks = Probability::new(0.3);
    let watch = Watch { packets: true, ..Watch::default() };
    for variant in [Variant::Tcp, Variant::Naive, Variant::Ms] {
        let outcome = Session { lost_acks, watch, files: vec![50_000; 3], ..get(variant, 0.0) }.run();
        assert!(is_whole(&outcome), "{variant}: {:?}", outcome.failed);
        // Counters count packets that left the host; the record has those that reached a link.
        let reached = outcome.transcript().into_iter().filter(|pdu| pdu.from == End::Client);
        let reached = |purpose| reached.clone().filter(|pdu| pdu.purpose == purpose).count() as u64;
        let left = outcome.to_server;
        assert_eq!(reached(Purpose::Control), left.control.packets, "{variant}");
        assert_eq!(reached(Purpose::Setup), left.setup.packets, "{variant}");
        assert!(reached(Purpose::Ack) < left.acks.packets * 9 / 10, "{variant}");
    }
}

/// The memory of a server's transports: at least a control block, at most with full buffers.
#[test]
fn memory_is_that_of_control_blocks_and_buffers() {
    let watch = Watch { memory: true, ..Watch::default() };
    let memory = |variant| {
        let outcome = Session { watch, files: vec![200_000; 3], ..get(variant, 0.0) }.run();
        (outcome.memory_bytes_max, outcome.memory_bytes_mean)
    };
    let buffer = sctp::Config::default().memory.send_buffer_bytes;
    let (most, mean) = memory(Variant::Ms);
    assert!(size_of::<sctp::Association>() < mean as usize && mean < most as f64);
    // A file of 200 KB is in the buffer at once.
    assert!((200_000..buffer).contains(&most), "{most}");
    let (most, _) = memory(Variant::Tcp);
    let config = tcp::Profile::NewrenoBsd46.config();
    let least = size_of::<tcp::Connection>() + config.send_buffer_bytes;
    assert!((least..2 * least).contains(&most), "{most}");
    assert_eq!(get(Variant::Ms, 0.0).run().memory_bytes_max, 0, "nobody watched");
}

/// Under loss bursts a stack may give up, and its last packet be lost; without a time limit neither side would send again.
#[test]
fn a_client_reconnects_after_its_server_timed_out_silently() {
    let part = |value| Probability::new(value).unwrap();
    let bursts = crate::link::GilbertElliott {
        to_bad: part(1.0 / 24.0),
        to_good: part(1.0 / 6.0),
        pass_good: part(1.0),
        pass_bad: part(0.5),
    };
    let mut paths = path(LAN, 0.0);
    for link in paths.iter_mut().flatten() {
        link.loss = Loss::GilbertElliott(bursts);
    }
    let mut lost = 0;
    for seed in 0..40 {
        let tcp = tcp::Config { data_retries: 6, ..tcp::Profile::NewrenoBsd46.config() };
        let session =
            Session { seed, tcp, paths: paths.clone(), files: vec![100_000; 4], ..get(Variant::Tcp, 0.0) };
        let outcome = Session { attempts: 50, ..session }.run();
        assert!(is_whole(&outcome), "{seed}: {:?} after {:?}", outcome.failed, outcome.since_asked);
        lost += u32::from(outcome.reconnections > 0 && outcome.since_asked > Duration::from_secs(7_800));
    }
    assert!(lost > 0, "no silence was long enough to show anything");
}

#[test]
fn a_job_that_requests_at_once_sends_its_login_with_cookie_echo() {
    let watch = Watch { packets: true, ..Watch::default() };
    let session = Session { asks: Asks::AtOnce, watch, ..get(Variant::Braid, 0.0) };
    let outcome = session.run();
    assert!(is_whole(&outcome), "{outcome:?}");
    let says: Vec<String> = outcome.transcript().iter().take(4).map(|pdu| pdu.to_string()).collect();
    assert!(says[2].contains("COOKIE ECHO") && says[2].contains("NLST"), "{says:?}");
    assert_eq!(outcome.since_started, outcome.since_asked);
    assert_eq!(outcome.packets_before, [0, 0]);
}

#[test]
fn the_dialog_of_braidftp_asks_for_features_and_opens_tcp_connections_from_the_client() {
    let run = |variant, loss, dialog, seed| {
        let paths = path("rate=3mbit,delay=50ms,queue=500kB,overhead=20", loss);
        Session { asks: Asks::AtOnce, dialog, paths, seed, ..get(variant, loss) }.run()
    };
    for variant in [Variant::Tcp, Variant::Naive, Variant::Ms, Variant::MsCp, Variant::Braid] {
        for (loss, seed) in [(0.0, 1), (0.03, 1), (0.03, 2), (0.1, 3)] {
            let outcome = run(variant, loss, Dialog::Braidftp, seed);
            assert!(is_whole(&outcome), "{variant} {loss} {seed}: {outcome:?}");
        }
        let [papers, ours] = [Dialog::Papers, Dialog::Braidftp].map(|dialog| run(variant, 0.0, dialog, 1));
        let trips = (ours.since_started.as_secs_f64() - papers.since_started.as_secs_f64()) / 0.1;
        match variant {
            Variant::Tcp => assert!(trips < -10.0, "at least one less for each file: {trips}"),
            Variant::Braid => assert_eq!(ours.fingerprint, papers.fingerprint, "it asks for nothing"),
            _ => assert!((0.99..1.1).contains(&trips), "{variant}: FEAT takes one: {trips}"),
        }
        assert_eq!(ours.connections, papers.connections, "{variant}");
    }
}

#[test]
fn the_end_of_a_transfer_in_passive_mode_is_reported_behind_its_first_flight() {
    // 37 kB take two flights. The 226 and the port of the next file wait behind the first one, 0.16 s, and cross the path twice.
    let outcome = Session {
        asks: Asks::AtOnce,
        dialog: Dialog::Braidftp,
        tcp: tcp::Config { send_buffer_first_bytes: Some(131_072), ..tcp::Profile::Modern.config() },
        paths: path("rate=740kbit,delay=117ms,queue=200kB,overhead=20", 0.0),
        files: vec![37_000; 10],
        ..get(Variant::Tcp, 0.0)
    }
    .run();
    let seconds = outcome.since_started.as_secs_f64();
    assert!((9.0..9.6).contains(&seconds), "the real programs take 9.3 s, not {seconds}");
}

#[test]
fn a_transcript_names_the_side_that_sent_a_packet_on_whichever_path() {
    let link: LinkConfig = LAN.parse().unwrap();
    let mut sctp = sctp::Profile::Modern.config();
    sctp.paths.multipath = Some(sctp::Multipath::default());
    let session = Session {
        paths: vec![[link.clone(), link]; 2],
        sctp,
        watch: Watch { packets: true, ..Watch::default() },
        ..get(Variant::Braid, 0.0)
    };
    let outcome = session.run();
    let sent = outcome.packets.iter().filter(|seen| seen.what == Sight::Sent);
    let mut by_path = [0; 2];
    for (pdu, seen) in outcome.transcript().into_iter().zip(sent) {
        let path = (0..2).find(|path| seen.datagram.from.ip() == topology::address(*path, SERVER));
        assert_eq!(pdu.from == End::Server, path.is_some(), "{pdu} from {}", seen.datagram.from);
        by_path[usize::from(path.unwrap_or_default())] += usize::from(path.is_some());
    }
    assert!(by_path.iter().all(|packets| *packets > 10), "{by_path:?}");
}

#[test]
fn a_lost_cookie_echo_causes_a_silence_of_its_timer() {
    let links = |lost: Vec<u64>| {
        let link: LinkConfig = LAN.parse().unwrap();
        let up = LinkConfig {
            loss: if lost.is_empty() { Loss::None } else { Loss::Script(lost) },
            ..link.clone()
        };
        vec![[up, link]]
    };
    let watch = Watch { silence: true, ..Watch::default() };
    let session =
        |lost| Session { asks: Asks::AtOnce, watch, paths: links(lost), ..get(Variant::Braid, 0.0) };
    let (plain, lossy) = (session(vec![]).run(), session(vec![1]).run());
    assert!(plain.silent[0] < Duration::from_millis(50), "{:?}", plain.silent);
    // The client waits; of it, and not of the server, something is missing.
    assert!(lossy.silent[0] > Duration::from_millis(50), "{:?}", lossy.silent);
    assert!(lossy.since_started >= plain.since_started + lossy.silent[0], "{:?}", lossy.silent);
    assert!(lossy.silent[1] < Duration::from_millis(50), "{:?}", lossy.silent);
}

#[test]
fn a_job_that_quits_ends_after_its_files_whatever_is_lost() {
    for variant in [Variant::Tcp, Variant::Naive, Variant::MsCp, Variant::Braid] {
        for loss in [0.0, 0.1] {
            for seed in 0..8 {
                let session =
                    Session { ends: Ends::WithQuit, asks: Asks::AtOnce, seed, ..get(variant, loss) };
                let outcome = session.run();
                assert!(is_whole(&outcome), "{variant} {loss} {seed}: {outcome:?}");
                let exit = outcome.until_exit.unwrap_or_else(|| panic!("{variant} {loss} {seed} never left"));
                assert!(exit > outcome.since_started, "{variant} {loss} {seed}");
            }
        }
    }
}
