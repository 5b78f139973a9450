//! Attacks by sessions: their number and their silence.

use super::*;

pub(super) fn sessions(_: Row) {
    let settings = Settings { max_sessions: 5, max_sessions_per_address: 3, ..quick() };
    let (all, each) = (limit(Row::Sessions, &settings), limit(Row::SessionsPerAddress, &settings));
    let (_folder, served) = with(settings);
    let user = |from: u8| Control::open_from(&served, Some(Ipv4Addr::new(127, 0, 0, from).into())).log_in();
    let mut users: Vec<Control> = (0..each).map(|_| user(2)).collect();
    let refused = |from: u8| {
        let mut words = String::new();
        let mut refused = connect_from(served.address, Some(Ipv4Addr::new(127, 0, 0, from).into()));
        let _ = refused.read_to_string(&mut words);
        words
    };
    assert!(refused(2).starts_with("421"), "{each} from one address");
    // Sessions without a login make room for each other and for users.
    let silent = (0..3 * all).map(|_| {
        let mut silent = connect_from(served.address, None);
        // The place is granted or refused.
        let _ = silent.read(&mut [0; 3]);
        silent
    });
    let silent: Vec<_> = silent.collect();
    users.extend((each..all).map(|_| user(3)));
    assert!(refused(3).starts_with("421"), "{all} in all");
    users.iter_mut().for_each(|user| drop(user.command("NOOP", "200")));
    // Five for three addresses: each may have one, and an address without a session takes the place of one of the address with
    // most.
    let mut third = user(4);
    let spared: Vec<&mut Control> = users.iter_mut().skip(1).chain([&mut third]).collect();
    spared.into_iter().for_each(|user| drop(user.command("NOOP", "200")));
    let told = users[0].rest();
    assert!(told.contains("421") && told.contains("was idle"), "it was silent longest: {told}");
    assert!(refused(4).starts_with("421"), "it has its part");
    drop(silent);
}

/// More connections of one network than may wait for their turn, and one of another.
pub(super) fn connections_without_end(row: Row) {
    let settings = Settings { tcp_connections: 1, ..quick() };
    let (rate, waiting) = (limit(Row::TcpConnections, &settings), limit(row, &settings));
    let (_folder, served) = with(settings);
    // All of them are asked for before the other one. While the last ones are, some may have had their turn.
    let crowd: Vec<_> = (0..waiting + 10 * rate).map(|_| connect_from(served.address, None)).collect();
    let _other = Control::open_from(&served, Some(Ipv4Addr::new(127, 0, 1, 1).into()));
    let mut said = [0; 256];
    let said = crowd.iter().filter_map(|mut one| {
        one.set_nonblocking(true).unwrap();
        let count = one.read(&mut said).ok()?;
        Some(String::from_utf8_lossy(&said[..count]).into_owned())
    });
    let said: Vec<String> = said.collect();
    let greeted = said.iter().filter(|said| said.starts_with("220")).count();
    let refused = said.iter().filter(|said| said.starts_with("421 Too many connections at once")).count();
    assert!(refused > 0 && greeted + refused < crowd.len(), "{row:?}: {greeted} greeted, {refused} refused");
}

/// Logged-in sessions that do nothing: sessions idle for an hour must not keep a user out. The idle time is a
/// constant of `limits`, tested there; here it is the longest time for which they keep a user out.
pub(super) fn idle_sessions(row: Row) {
    let settings = Settings { max_sessions: 2, ..quick() };
    let silence = limit(row, &settings) as u64;
    assert!(silence < limit(Row::IdleTime, &settings) as u64, "it is told before the session ends by itself");
    let (_folder, served) = with(settings);
    let idle: Vec<Control> = (0..2).map(|_| Control::anonymous(&served)).collect();
    assert!(Control::try_open(&served).is_none(), "they were heard just now");
    drop(idle);
}

pub(super) fn silence(_: Row) {
    let (_folder, served) = with(session(|config| {
        config.idle = Duration::from_millis(400);
        config.idle_before_login = Duration::from_millis(200);
    }));
    assert!(Control::open(&served).rest().contains("421"));
    // A session that sends all the time and never logs in.
    let (_folder, speaks) = with(session(|config| config.login_within = Duration::from_millis(400)));
    let mut control = Control::open(&speaks);
    let mut words = String::new();
    while !words.contains("421") {
        let _ = control.stream.write_all(b"NOOP\r\n");
        words = control.reply();
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut logged_in = Control::open(&served).log_in();
    assert!(logged_in.rest().contains("421"));
}

/// A client over SCTP that has stopped, at the limit of its address: a new session waits for the time in
/// which the client may answer, and only as many wait as permitted.
pub(super) fn stopped_clients(_: Row) {
    let settings = Settings { max_sessions_per_address: 1, ..quick() };
    let time = limit(Row::ProbeAnswer, &settings) as u64;
    let waiting = limit(Row::ProbesWaiting, &settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = Folder::new();
    let entered = server.enter();
    let bound = Server::builder(folder.root())
        .settings(settings)
        .listen(Listen::SctpUdp(vec![SocketAddr::from(([127, 0, 0, 1], 0))]))
        .listen(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))))
        .bind()
        .unwrap();
    let [Listen::SctpUdp(udp), Listen::Tcp(tcp)] = &bound.local_addrs()[..] else { panic!("two listeners") };
    let (udp, tcp) = (udp[0], *tcp);
    tokio::spawn(bound.run());
    drop(entered);
    // No code of this client runs after its login.
    let client = runtime.block_on(async {
        let client = connect(udp, streams(3));
        say(&client.1, LOG_IN).await;
        hear(&client.1, "200").await;
        client
    });
    // A client whose packet has just arrived is not probed.
    std::thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    let (told, replies) = std::sync::mpsc::channel();
    let beyond = 8;
    for _ in 0..waiting + beyond {
        let told = told.clone();
        std::thread::spawn(move || {
            let mut code = [0; 3];
            let mut stream = connect_from(tcp, None);
            let read = stream.read_exact(&mut code);
            let _ = told.send((read.is_ok() && &code == b"220", stream));
        });
    }
    drop(told);
    // An admitted session stays, so that the next reply of this kind belongs to another one.
    let mut all = Vec::new();
    let refused = loop {
        let (is_greeted, stream) = replies.recv().unwrap();
        all.push(stream);
        if is_greeted {
            break all.len() - 1;
        }
    };
    assert!(start.elapsed() >= Duration::from_millis(time), "it had {:?} to answer", start.elapsed());
    assert!(refused >= beyond, "{refused} were refused while others waited");
    drop(client);
}
