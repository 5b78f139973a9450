//! The packets of each FTP variant for two files of 10 kB, compared with transcripts that follow Figures 3 to
//! 5 of the second paper.
//!
//! Any additional, missing or moved packet fails the test. To accept the current packets after review:
//! `BLESS=1 cargo test -p braidftp-sim --test transcripts`.

use braidftp_sctp as sctp;
use braidftp_sim::LinkConfig;
use braidftp_sim::apps::ftp::{Session, Variant, Watch};

#[test]
fn each_variant_matches_its_transcript() {
    let link: LinkConfig = "rate=3mbit,delay=1ms,queue=500kB,overhead=20".parse().unwrap();
    for variant in [Variant::Tcp, Variant::Naive, Variant::Ms, Variant::MsCp, Variant::Braid] {
        let session = Session {
            variant,
            files: vec![10_000; 2],
            sctp: sctp::Config::default().with(|c| c.path_mtu.packet_bytes = 1_480),
            paths: vec![[link.clone(), link.clone()]],
            watch: Watch { packets: true, ..Watch::default() },
            ..Session::default()
        };
        let said: String = session.run().transcript().iter().map(|pdu| format!("{pdu}\n")).collect();
        let file = format!("{}/tests/transcripts/{variant}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &said).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(said == expected, "{variant} says:\n{said}\nand not what is in {file}:\n{expected}");
    }
}
