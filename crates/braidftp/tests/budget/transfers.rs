//! Attacks by transfers: many, slow, and never beginning or ending ones.

use super::*;

/// Uploads without frames, twice as many as may begin.
pub(super) fn uploads(row: Row) {
    let settings = quick();
    let most = limit(row, &settings);
    let carrier = machine::Carrier::Braid { data_streams: 2 };
    let mut session = machine::Session::new(settings.session.clone(), carrier, Time::ZERO);
    let uploads = (0..2 * most).map(|nth| format!("STOR {nth}\r\n"));
    let lines = [LOG_IN.to_owned(), uploads.collect()].concat();
    session.handle(Time::ZERO, machine::Input::Received(lines.into()));
    let mut begun = 0;
    loop {
        match session.poll(Time::ZERO) {
            Output::Event(machine::Do::Authenticate { .. } | machine::Do::Admit { .. }) => {
                session.handle(Time::ZERO, machine::Input::Authenticated(Ok(())));
            }
            Output::Event(machine::Do::Receive { .. }) => begun += 1,
            Output::Event(_) | Output::Send(_) => {}
            Output::Wait(_) => break,
        }
    }
    assert_eq!(begun, most);
}

pub(super) fn downloads(_: Row) {
    in_tokio(async {
        let served = sctp_server(quick(), |folder| folder.put("big", pattern(1 << 20)));
        let most = limit(Row::Streams, &quick());
        let (_endpoint, association) = connect(served.address, streams(most as u16 + 30));
        let up = association.up().await.unwrap();
        assert_eq!(usize::from(up.outbound_streams), 1 + most);
        assert_eq!(usize::from(up.inbound_streams.min(up.outbound_streams)), 1 + most);
        say(&association, LOG_IN).await;
        hear(&association, "230").await;
        let at_once = limit(Row::Downloads, &quick());
        say(&association, "RETR big\r\n".repeat(2 * at_once)).await;
        // No credit is sent: each stream carries a header and the content within the initial credit.
        let mut headers = 0;
        while headers < at_once {
            let (_, piece) = association.recv_any().await.unwrap().expect("a frame");
            headers += usize::from(piece.ppid.0 == ppid::FIRST && piece.end);
        }
        let more = async {
            while let Ok(Some((_, piece))) = association.recv_any().await {
                assert_ne!(piece.ppid.0, ppid::FIRST, "more than {at_once} at once");
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), more).await;
    });
}

pub(super) fn slow_readers(row: Row) {
    const READERS: u64 = 40;
    let (folder, room) = (Folder::new(), Room::new());
    folder.put("big", pattern(64 << 20));
    let (server, address) = program(&folder, &room, "ftp://127.0.0.1:0");
    let before = resident(server.0.id());
    let mut readers: Vec<Control> = (0..READERS).map(|_| Control::at(address, None).log_in()).collect();
    let data: Vec<_> = readers.iter_mut().map(|control| control.begin("RETR big")).collect();
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident(server.0.id()).saturating_sub(before);
    // The additional memory of a session, a task and its buffers.
    let most = READERS * (limit(row, &quick()) as u64 + (256 << 10)) + (16 << 20);
    assert!(grown < most, "{grown} bytes for {READERS} transfers that nobody reads; may be {most}");
    drop(data);
}

/// Sessions of braid that request more files than all sessions together may have open, and accept no more
/// than an initial window.
pub(super) fn many_slow_readers(_: Row) {
    const SESSIONS: usize = 24;
    let (folder, room) = (Folder::new(), Room::new());
    folder.put("big", pattern(2 << 20));
    let (server, address) = program(&folder, &room, "ftp+sctp://127.0.0.1:0");
    let process = server.0.id();
    let open_files = || std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let (before, files_before) = (resident(process), open_files());
    in_tokio(async {
        let asks = limit(Row::Downloads, &quick());
        let all = limit(Row::TransfersInAll, &quick());
        assert!(SESSIONS * asks > all);
        let window = 64 << 10;
        let config = streams(1 + asks as u16).with(|c| {
            c.memory.receive_buffer_bytes = window;
            c.memory.receive_buffer_max_bytes = None;
        });
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let (endpoint, association) = connect(address, config.clone());
            say(&association, LOG_IN).await;
            hear(&association, "200").await;
            say(&association, "RETR big\r\n".repeat(asks)).await;
            clients.push((endpoint, association));
        }
        // Until no more files are opened.
        let mut most = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if open_files() <= most {
                break;
            }
            most = open_files();
        }
        assert!(most > files_before + all / 2, "{most} files are open: the attack was none");
        // Each session may have one more open, and threads a few.
        assert!(most <= files_before + all + 3 * SESSIONS + 32, "{most} files are open");
        let grown = resident(process).saturating_sub(before) as usize;
        let files = limit(Row::FileBytesInAll, &quick())
            + SESSIONS * limit(Row::FileBytesOfSession, &quick())
            + (all + 2 * SESSIONS) * (4 << 10);
        // Data in flight is less than that.
        let besides = SESSIONS * 2 * limit(Row::SctpSendQueue, &quick());
        // The sizes of jemalloc's blocks are a quarter apart at most.
        let may_be = (files + besides) * 5 / 4;
        assert!(
            grown < may_be,
            "{grown} bytes; may be {may_be}, of which {files} of files and {besides} in flight"
        );
    });
}

/// Sessions of braid that list a deep tree as often as they may concurrently, and stop reading while the
/// server is deep in the tree.
pub(super) fn deep_listings(_: Row) {
    const SESSIONS: usize = 8;
    let (folder, room) = (Folder::new(), Room::new());
    let deepest = "d/".repeat(limit(Row::TreeDepth, &quick()) - 2);
    (0..2_000).for_each(|nth| folder.put(format!("{deepest}{nth}"), ""));
    let (server, address) = program(&folder, &room, "ftp+sctp://127.0.0.1:0");
    let process = server.0.id();
    let open_files = || std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let before = open_files();
    in_tokio(async {
        let asks = limit(Row::Downloads, &quick());
        let config = streams(1 + asks as u16).with(|c| {
            c.memory.receive_buffer_bytes = 64 << 10;
            c.memory.receive_buffer_max_bytes = None;
        });
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let (endpoint, association) = connect(address, config.clone());
            say(&association, LOG_IN).await;
            hear(&association, "200").await;
            say(&association, "XTREE\r\n".repeat(asks)).await;
            clients.push((endpoint, association));
        }
        // Until no more folders are opened.
        let mut most = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if open_files() <= most {
                break;
            }
            most = open_files();
        }
        let walks = SESSIONS * asks;
        assert!(most > before + walks / 2, "{most} files are open: the attack was none");
        let may = before + 2 * walks + limit(Row::OpenFolders, &quick()) + 3 * SESSIONS + 32;
        assert!(most <= may, "{most} files are open; may be {may}");
        // All walks read at the same time. A thread outlives its work by seconds; other threads belong to the
        // runtime.
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().count();
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let may = limit(Row::DiskThreads, &quick()) + workers + 4;
        assert!(threads <= may, "{threads} threads; may be {may}");
    });
}

pub(super) fn passive_sockets(row: Row) {
    assert_eq!(limit(row, &quick()), 1);
    let (_folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    let sockets: Vec<SocketAddr> = (0..20).map(|_| control.passive()).collect();
    let open = sockets.iter().filter(|address| std::net::TcpStream::connect(address).is_ok()).count();
    assert_eq!(open, 1, "of {} that were asked for", sockets.len());
}

pub(super) fn no_data_connection(_: Row) {
    let (folder, served) = with(Settings { data_open: Duration::from_millis(200), ..quick() });
    folder.put("a", "hello");
    let mut control = Control::anonymous(&served);
    control.passive();
    control.send("RETR a");
    let replies = [control.reply(), control.reply()].concat();
    assert!(replies.contains("425"), "{replies}");
}

pub(super) fn standstill(_: Row) {
    let (folder, served) = with(Settings { stall: Duration::from_millis(300), ..quick() });
    folder.put("big", pattern(64 << 20));
    let mut control = Control::anonymous(&served);
    let unread = control.begin("RETR big");
    control.expect("426");
    drop(unread);
}

pub(super) fn upload_without_frames(_: Row) {
    in_tokio(async {
        let served = sctp_server(Settings { awaited: Duration::from_millis(300), ..quick() }, |_| {});
        let (_endpoint, association) = connect(served.address, streams(3));
        say(&association, [LOG_IN, "STOR never\r\n"].concat()).await;
        hear(&association, "426").await;
    });
}

/// A peer that stops acknowledging in the middle of an upload.
pub(super) fn vanished_uploader(_: Row) {
    in_tokio(async {
        // Without own heartbeats, so that nothing else ends the association.
        let sctp = Profile::Modern.config().with(|c| c.timers.heartbeat_interval = None);
        let silence = Duration::from_secs(2);
        let served = sctp_server(Settings { silence, sctp, ..quick() }, |_| {});
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (through, to) = (socket.local_addr().unwrap(), served.address);
        let relay = tokio::spawn(async move {
            let (mut buffer, mut client) = (vec![0; 65_536], None);
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                client = if from == to { client } else { Some(from) };
                let target = if from == to { client } else { Some(to) };
                if let Some(target) = target {
                    let _ = socket.send_to(&buffer[..length], target).await;
                }
            }
        });
        let (_endpoint, association) = connect(through, streams(3));
        say(&association, [LOG_IN, "STOR half\r\n"].concat()).await;
        hear(&association, "200").await;
        let header = Frame { transfer: TransferNumber(1), offset: 0, size: None, modified: None };
        for (kind, payload) in [(ppid::FIRST, header.encode()), (ppid::BYTES, Bytes::from_static(b"half"))] {
            association.send(StreamId(1), Message::new(Ppid(kind), payload)).await.unwrap();
        }
        // When everything is acknowledged the wire is cut.
        while association.stats().outstanding_bytes + association.stats().queued_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        relay.abort();
        while served.endpoint.associations() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
