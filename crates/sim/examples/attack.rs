//! Attacks a live server of FTP over SCTP in UDP, as `sim::attack` does in the simulator.
//!
//! ```text
//! attack --list
//! attack NAME SERVER:PORT SECONDS [FILE]
//! ```
//! Attacks the server, which must be on this host because the attack uses addresses of 127/8, for the given
//! number of seconds. Attacks that request data ask for FILE (default: `big`). Then the attacker vanishes and
//! prints a summary of its associations.
#![expect(clippy::disallowed_types, reason = "this is a driver: it has sockets and a clock")]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sim::Actor;
use braidftp_sim::attack::{ATTACKS, Attacker, Target, Words};
use bytes::Bytes;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The SCTP port of an FTP server.
const PORT: u16 = 21;
/// The first source address of an attack.
const FIRST: u32 = 0x7f02_0001;
/// The sleep when there is nothing to do.
const NAP: Duration = Duration::from_micros(200);
/// The most packets sent between two reads of the sockets.
const BURST: usize = 64;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (name, server, seconds, file) = match args[..] {
        ["--list"] => {
            ATTACKS.iter().for_each(|attack| println!("{:<20}{}", attack.name, attack.what));
            return Ok(());
        }
        [name, server, seconds] => (name, server, seconds, "big"),
        [name, server, seconds, file] => (name, server, seconds, file),
        _ => return Err("usage: attack --list | attack NAME SERVER:PORT SECONDS [FILE]".into()),
    };
    let attack = *ATTACKS
        .iter()
        .find(|attack| attack.name == name)
        .ok_or_else(|| format!("there is no attack `{name}`; see attack --list"))?;
    let server: SocketAddr = server.parse()?;
    let lasts = Duration::from_secs_f64(seconds.parse()?);
    let sockets = (0..u32::from(attack.addresses())).map(|nth| {
        let socket = UdpSocket::bind((Ipv4Addr::from(FIRST + nth), 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    let sockets: Vec<UdpSocket> = sockets.collect::<std::io::Result<_>>()?;
    let from: Vec<SocketAddr> = sockets.iter().map(UdpSocket::local_addr).collect::<std::io::Result<_>>()?;
    let lines = |lines: &[String]| lines.iter().map(|line| Bytes::from(format!("{line}\r\n"))).collect();
    let words = Words {
        log_in: lines(&["USER anonymous", "PASS attack@example.org", "TYPE I"].map(str::to_owned)),
        ask: lines(&[format!("SIZE {file}"), format!("RETR {file}")]),
        store: Some(|nth| Bytes::from(format!("STOR upload-{nth}\r\n"))),
        quit: lines(&["QUIT".to_owned()]),
    };
    let mut attacker = Attacker::new(attack, Target { server, port: PORT, from: from.clone() }, &words, 1);
    let start = Instant::now();
    let mut buffer = vec![0; 65_536];
    while start.elapsed() < lasts {
        let now = || Time::ZERO + start.elapsed();
        let mut idle = true;
        for (socket, &to) in sockets.iter().zip(&from) {
            loop {
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) => {
                        idle = false;
                        let payload = Bytes::copy_from_slice(&buffer[..length]);
                        attacker.handle(now(), Datagram { from, to, ecn: Ecn::NotEct, payload });
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // An ICMP error for an earlier packet.
                    Err(_) => idle = false,
                }
            }
        }
        for _ in 0..BURST {
            match attacker.poll(now()) {
                Output::Send(datagram) => {
                    idle = false;
                    let socket = from.iter().position(|from| *from == datagram.from);
                    let socket = &sockets[socket.expect("it sends from where it was told to")];
                    // What the kernel does not take is lost.
                    let _ = socket.send_to(&datagram.payload, datagram.to);
                }
                Output::Wait(_) => break,
                Output::Event(never) => match never {},
            }
        }
        if idle {
            std::thread::sleep(NAP);
        }
    }
    println!(
        "{name}: {} packets sent, {} MB of uploads taken by the server, {} MB taken from it; of {} associations {} are at it, \
         {} were ended by the server",
        attacker.packets_sent(),
        attacker.moved().0 / 1_000_000,
        attacker.moved().1 / 1_000_000,
        attack.associations,
        attacker.at_it(),
        attacker.over()
    );
    Ok(())
}
