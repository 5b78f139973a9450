//! A net without root privileges. This test has no harness, because a user namespace must be entered before
//! any thread starts. It prints SKIPPED where user namespaces are not permitted.

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
    assert_eq!(rustix::process::getuid(), user, "file ownership is unchanged");
    println!("a net for user {}: {:?}", user.as_raw(), net.down());
}
