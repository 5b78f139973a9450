//! A net without being root outside: this test has no harness, because a user namespace is entered before any thread.
//! Skipped, and said so, where there may be none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use braidftp_emu::tun::{Net, TunConfig, enter_user_namespace};

fn main() {
    let user = rustix::process::getuid();
    let net = match enter_user_namespace().and_then(|()| Net::up(TunConfig::default())) {
        Ok(net) => net,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    let listener = net.server().run(|| TcpListener::bind((Net::SERVER, 2121)).unwrap());
    let serving = net.server().spawn(move || listener.accept().unwrap().0.write_all(b"hello").unwrap());
    let mut got = String::new();
    net.client().run(|| TcpStream::connect((Net::SERVER, 2121)).unwrap()).read_to_string(&mut got).unwrap();
    serving.join();
    assert_eq!(got, "hello");
    assert_eq!(rustix::process::getuid(), user, "files belong to the same user as before");
    println!("a net for user {}: {:?}", user.as_raw(), net.down());
}
