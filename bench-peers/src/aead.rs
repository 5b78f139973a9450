//! The speed of one AEAD in three libraries, on one core: what a DTLS record costs to seal and to open.
//!
//! ```text
//! cargo run --release --manifest-path bench-peers/Cargo.toml --features aead --bin aead [BYTES [ROUNDS]]
//! ```
//! A record has 1,400 bytes unless BYTES says otherwise. Each round measures all libraries one after another; the figures
//! are medians over the rounds, in nanoseconds of CPU time a record and in MB/s. Keys are expanded once, as an epoch's are.

use std::hint::black_box;
use std::time::Duration;

/// CPU time of one measurement.
const SPAN: Duration = Duration::from_millis(100);
const AAD: [u8; 3] = [0x2b, 0, 1];
const NONCE: [u8; 12] = [7; 12];

/// Seals or opens a record in place, and returns or takes its tag.
struct Contestant {
    library: &'static str,
    suite: &'static str,
    seal: Box<dyn Fn(&mut [u8]) -> [u8; 16]>,
    /// The bytes and their tag.
    open: Box<dyn Fn(&mut [u8])>,
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (bytes, rounds) = (args.next().unwrap_or(1_400), args.next().unwrap_or(7));
    let contestants: Vec<_> = [aws_lc(), ring(), graviola()].into_iter().flatten().collect();
    let mut times = vec![[Vec::new(), Vec::new()]; contestants.len()];
    for _ in 0..rounds {
        for (contestant, times) in contestants.iter().zip(&mut times) {
            let mut record = vec![5; bytes];
            times[0].push(nanoseconds(|| {
                black_box((contestant.seal)(black_box(&mut record)));
            }));
            // An open in place needs the sealed record again, so each turn includes a copy from the cache.
            let mut sealed = vec![5; bytes];
            let tag = (contestant.seal)(&mut sealed);
            sealed.extend(tag);
            let mut record = sealed.clone();
            times[1].push(nanoseconds(|| {
                record.copy_from_slice(&sealed);
                (contestant.open)(black_box(&mut record));
            }));
        }
    }
    println!("{bytes} bytes a record; median of {rounds} rounds\n");
    println!("| cipher suite | library | seal ns | seal MB/s | open ns | open MB/s |");
    println!("|---|---|---|---|---|---|");
    for suite in ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"] {
        for (contestant, times) in contestants.iter().zip(&mut times).filter(|(it, _)| it.suite == suite) {
            let [seal, open] = times.each_mut().map(|times| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            });
            let speed = |ns: f64| bytes as f64 * 1e3 / ns;
            println!(
                "| {suite} | {} | {seal:.0} | {:.0} | {open:.0} | {:.0} |",
                contestant.library,
                speed(seal),
                speed(open)
            );
        }
    }
}

/// CPU time of a turn: other load on the machine does not count.
fn nanoseconds(mut turn: impl FnMut()) -> f64 {
    let (start, mut turns) = (cpu_nanoseconds(), 0u32);
    loop {
        for _ in 0..10_000 {
            turn();
        }
        turns += 10_000;
        let spent = cpu_nanoseconds() - start;
        if spent > SPAN.as_nanos() as u64 {
            return spent as f64 / f64::from(turns);
        }
    }
}

/// Nanoseconds that this thread ran (proc(5): the first field of schedstat).
fn cpu_nanoseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    stat.split(' ').next().and_then(|field| field.parse().ok()).expect("it begins with a number")
}

fn key(len: usize) -> Vec<u8> {
    (0..len as u8).collect()
}

fn aws_lc() -> Vec<Contestant> {
    use aws_lc_rs::aead::{
        AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
    };
    let suites: [(&'static str, &'static Algorithm); 3] = [
        ("AES-128-GCM", &AES_128_GCM),
        ("AES-256-GCM", &AES_256_GCM),
        ("ChaCha20-Poly1305", &CHACHA20_POLY1305),
    ];
    let contestant = |(suite, algorithm): (_, &'static Algorithm)| {
        let new = || LessSafeKey::new(UnboundKey::new(algorithm, &key(algorithm.key_len())).expect("a key"));
        let (sealer, opener) = (new(), new());
        let nonce = || Nonce::assume_unique_for_key(NONCE);
        Contestant {
            library: "aws-lc-rs",
            suite,
            seal: Box::new(move |bytes| {
                let tag = sealer.seal_in_place_separate_tag(nonce(), Aad::from(AAD), bytes).expect("sealed");
                tag.as_ref().try_into().expect("16 bytes")
            }),
            open: Box::new(move |bytes| {
                opener.open_in_place(nonce(), Aad::from(AAD), bytes).expect("opened");
            }),
        }
    };
    suites.into_iter().map(contestant).collect()
}

fn ring() -> Vec<Contestant> {
    use ring::aead::{
        AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
    };
    let suites: [(&'static str, &'static Algorithm); 3] = [
        ("AES-128-GCM", &AES_128_GCM),
        ("AES-256-GCM", &AES_256_GCM),
        ("ChaCha20-Poly1305", &CHACHA20_POLY1305),
    ];
    let contestant = |(suite, algorithm): (_, &'static Algorithm)| {
        let new = || LessSafeKey::new(UnboundKey::new(algorithm, &key(algorithm.key_len())).expect("a key"));
        let (sealer, opener) = (new(), new());
        let nonce = || Nonce::assume_unique_for_key(NONCE);
        Contestant {
            library: "ring",
            suite,
            seal: Box::new(move |bytes| {
                let tag = sealer.seal_in_place_separate_tag(nonce(), Aad::from(AAD), bytes).expect("sealed");
                tag.as_ref().try_into().expect("16 bytes")
            }),
            open: Box::new(move |bytes| {
                opener.open_in_place(nonce(), Aad::from(AAD), bytes).expect("opened");
            }),
        }
    };
    suites.into_iter().map(contestant).collect()
}

fn graviola() -> Vec<Contestant> {
    use graviola::aead::{AesGcm, ChaCha20Poly1305};
    macro_rules! contestant {
        ($suite:expr, $new:expr) => {{
            let (sealer, opener) = ($new, $new);
            Contestant {
                library: "graviola",
                suite: $suite,
                seal: Box::new(move |bytes| {
                    let mut tag = [0; 16];
                    sealer.encrypt(&NONCE, &AAD, bytes, &mut tag);
                    tag
                }),
                open: Box::new(move |bytes| {
                    let (bytes, tag) = bytes.split_last_chunk_mut::<16>().expect("a tag");
                    opener.decrypt(&NONCE, &AAD, bytes, tag).expect("opened");
                }),
            }
        }};
    }
    let long = || key(32).try_into().expect("32 bytes");
    vec![
        contestant!("AES-128-GCM", AesGcm::new(&key(16))),
        contestant!("AES-256-GCM", AesGcm::new(&key(32))),
        contestant!("ChaCha20-Poly1305", ChaCha20Poly1305::new(long())),
    ]
}
