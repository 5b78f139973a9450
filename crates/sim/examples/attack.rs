//! Attacks a live server of FTP over SCTP in UDP, as `sim::attack` does in the simulator.
//!
//! ```text
//! attack --list
//! attack NAME SERVER:PORT SECONDS [FILE [FOLDER]]
//! ```
//! Attacks the server, which must be on this host because the attack uses addresses of 127/8, for the given
//! number of seconds. Attacks that request data ask for FILE (default: `big`), or for listings of FOLDER (default: `/`). Then
//! the attacker vanishes and prints a summary of its associations.
//!
//! Two attacks are over TCP: `hellos-tcp` begins TLS on control connections, each with a ClientHello, and leaves when the server
//! has answered; `silent-tcp` opens as many control connections as there may be, from four addresses, and says nothing.
#![expect(clippy::disallowed_types, reason = "this is a driver: it has sockets and a clock")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sim::Actor;
use braidftp_sim::attack::hello::client_hello;
use braidftp_sim::attack::{ATTACKS, Attacker, Target, Words};
use bytes::Bytes;
use socket2::{Domain, Socket, Type};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The SCTP port of an FTP server.
const PORT: u16 = 21;
/// The first source address of an attack.
const FIRST: u32 = 0x7f02_0001;
/// The sleep when there is nothing to do.
const NAP: Duration = Duration::from_micros(200);
/// The most packets sent between two reads of the sockets.
const BURST: usize = 64;

/// The name of the attack by TLS handshakes over TCP.
const HELLOS_TCP: &str = "hellos-tcp";
/// Its maximum number of concurrent sessions.
const HELLOS_AT_ONCE: usize = 40;
/// The time limit of one session.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name of the attack by silent connections, its addresses, and its connections from each.
const SILENT_TCP: &str = "silent-tcp";
const SILENT_ADDRESSES: u32 = 4;
const SILENT_FROM_EACH: usize = 50;
/// The pause between two checks of the connections.
const LOOK: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (name, server, seconds, file, folder) = match args[..] {
        ["--list"] => {
            ATTACKS.iter().for_each(|attack| println!("{:<20}{}", attack.name, attack.what));
            println!(
                "{HELLOS_TCP:<20}ClientHellos on {HELLOS_AT_ONCE} control connections over TCP at once, without end"
            );
            println!(
                "{SILENT_TCP:<20}{SILENT_FROM_EACH} silent control connections over TCP from each of {SILENT_ADDRESSES} \
                 addresses, each opened again when it is closed"
            );
            return Ok(());
        }
        [HELLOS_TCP, server, seconds, ..] => {
            return hellos_over_tcp(server.parse()?, Duration::from_secs_f64(seconds.parse()?));
        }
        [SILENT_TCP, server, seconds, ..] => {
            return silence_over_tcp(server.parse()?, Duration::from_secs_f64(seconds.parse()?));
        }
        [name, server, seconds] => (name, server, seconds, "big", "/"),
        [name, server, seconds, file] => (name, server, seconds, file, "/"),
        [name, server, seconds, file, folder] => (name, server, seconds, file, folder),
        _ => return Err("usage: attack --list | attack NAME SERVER:PORT SECONDS [FILE [FOLDER]]".into()),
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
        list: lines(&["LIST", "MLSD", "XTREE"].map(|command| format!("{command} {folder}"))),
        digest: lines(&["HASH", "XCRC"].map(|command| format!("{command} {file}"))),
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
                    // A packet that the kernel does not accept counts as lost.
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
    let uploaded =
        attacker.uploaded().map(|bytes| format!("{} MB of uploads taken by the server, ", bytes / 1_000_000));
    println!(
        "{name}: {} packets sent, {}{} MB taken from it; of {} associations {} are at it, {} were ended by the server",
        attacker.packets_sent(),
        uploaded.unwrap_or_default(),
        attacker.taken() / 1_000_000,
        attack.associations,
        attacker.active(),
        attacker.over()
    );
    Ok(())
}

/// Opens connections that begin TLS, repeatedly.
fn hellos_over_tcp(server: SocketAddr, lasts: Duration) -> Result<()> {
    let (begun, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..HELLOS_AT_ONCE {
            scope.spawn(|| {
                while start.elapsed() < lasts {
                    begun.fetch_add(1, Ordering::Relaxed);
                    match hello_over_tcp(server) {
                        Ok(()) => _ = answered.fetch_add(1, Ordering::Relaxed),
                        // The server has no place for it.
                        Err(_) => std::thread::sleep(Duration::from_millis(10)),
                    }
                }
            });
        }
    });
    let (begun, answered) = (begun.into_inner(), answered.into_inner());
    println!(
        "{HELLOS_TCP}: {begun} sessions, {answered} ClientHellos answered, {:.0} a second",
        answered as f64 / lasts.as_secs_f64()
    );
    Ok(())
}

fn hello_over_tcp(server: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut expect = |code: &str| {
        let mut line = String::new();
        replies.read_line(&mut line)?;
        if line.starts_with(code) { Ok(()) } else { Err(std::io::Error::other(line)) }
    };
    expect("220")?;
    stream.write_all(b"AUTH TLS\r\n")?;
    expect("234")?;
    stream.write_all(&client_hello())?;
    // A record that is a handshake message.
    let mut first = [0];
    stream.read_exact(&mut first)?;
    if first == [22] { Ok(()) } else { Err(std::io::Error::other("no ServerHello")) }
}

/// Opens control connections that send nothing, and keeps them open.
fn silence_over_tcp(server: SocketAddr, lasts: Duration) -> Result<()> {
    let mut connections: Vec<(Ipv4Addr, Option<TcpStream>)> = (0..SILENT_ADDRESSES)
        .flat_map(|nth| [Ipv4Addr::from(FIRST + nth); SILENT_FROM_EACH])
        .map(|from| (from, None))
        .collect();
    let (mut opened, start) = (0_u64, Instant::now());
    while start.elapsed() < lasts {
        for (from, connection) in &mut connections {
            if connection.as_ref().is_some_and(is_open) {
                continue;
            }
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddr::from((*from, 0)).into())?;
            socket.connect_timeout(&server.into(), PATIENCE)?;
            socket.set_nonblocking(true)?;
            *connection = Some(socket.into());
            opened += 1;
        }
        std::thread::sleep(LOOK);
    }
    let open = connections.iter().filter(|(_, one)| one.as_ref().is_some_and(is_open)).count();
    println!("{SILENT_TCP}: {opened} connections opened, {open} open at the end");
    Ok(())
}

/// Whether the server has kept the connection open.
fn is_open(mut connection: &TcpStream) -> bool {
    let mut buffer = [0; 512];
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
