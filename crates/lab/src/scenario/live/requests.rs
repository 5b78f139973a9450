//! Requests and answers between the hosts of a pair, over the kernel's TCP or over SCTP of `braidftp-net`: the transfers that
//! `sim::apps::transfers` simulates, with the same sizes and times, by the same rules and the same bytes on the connection.
//!
//! A transfer's time begins when its client acts on it, so that late wake-ups of this process are no part of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use braidftp_base::Time;
use braidftp_emu::tun::{Host, Running};
use braidftp_net::{Association, Endpoint, Ppid, StreamId};
use braidftp_sim::apps::transfers::{Connections, Due, Fate, Transfer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use super::bulk::Transport;
use super::commands::TCP_PORT;
use super::sctp::{Ends, block_on};

/// The first bytes of a request: the lengths of request and answer.
const HEAD: usize = 16;
/// The most bytes written or read at a time.
const PART: usize = 16 << 10;

/// The requests of a workload.
#[derive(Debug)]
pub(super) struct Requests {
    transport: Transport,
    plan: Vec<Transfer>,
    connections: Connections,
    seen: Arc<Seen>,
    /// The client and the server end when it is dropped.
    stop: watch::Sender<()>,
}

/// The observations of the client.
#[derive(Debug)]
struct Seen {
    began: Instant,
    fates: Mutex<Vec<Fate>>,
    read: AtomicU64,
}

/// A transfer that has begun. One that is dropped before its end has failed.
struct Begun {
    seen: Arc<Seen>,
    number: usize,
    transfer: Transfer,
    /// Receives when it has ended.
    ended: Option<oneshot::Sender<Instant>>,
}

type Reading = Box<dyn AsyncRead + Unpin>;
type Writing = Box<dyn AsyncWrite + Unpin>;

impl Requests {
    /// Starts the server on a host, and waits until it listens. Returns the requests and the server.
    pub(super) fn listen(
        host: &Host,
        transport: Transport,
        plan: Vec<Transfer>,
        connections: Connections,
    ) -> Result<(Self, Running<Result<(), String>>), String> {
        let (stop, stopped) = watch::channel(());
        let (ready, is_ready) = mpsc::channel();
        let at = transport.clone();
        let serve = move || {
            let serve = until(stopped, serve(at, move || ready.send(()).unwrap_or_default()));
            block_on(serve).map_err(|error| format!("a server of requests: {error}"))
        };
        let server = host.spawn(serve);
        if is_ready.recv().is_err() {
            // It ended before it listened, and says why.
            return Err(server.join().err().unwrap_or_else(|| "a server of requests ended".to_owned()));
        }
        let fates = Mutex::new(vec![Fate::default(); plan.len()]);
        let seen = Arc::new(Seen { began: Instant::now(), fates, read: AtomicU64::new(0) });
        Ok((Self { transport, plan, connections, seen, stop }, server))
    }

    /// Starts the client on a host. The times of its transfers count from `began`.
    pub(super) fn ask(&mut self, host: &Host, began: Instant) -> Running<Result<(), String>> {
        let fates = Mutex::new(vec![Fate::default(); self.plan.len()]);
        self.seen = Arc::new(Seen { began, fates, read: AtomicU64::new(0) });
        let (transport, plan, connections) = (self.transport.clone(), self.plan.clone(), self.connections);
        let (seen, stopped) = (self.seen.clone(), self.stop.subscribe());
        host.spawn(move || {
            let ask = until(stopped, ask(transport, plan, connections, seen));
            block_on(ask).map_err(|error| format!("a client of requests: {error}"))
        })
    }

    /// The results so far.
    pub(super) fn fates(&self) -> Vec<Fate> {
        self.seen.fates().clone()
    }

    /// Whether each transfer is done or has failed.
    pub(super) fn is_over(&self) -> bool {
        self.seen.fates().iter().all(|fate| fate.done.is_some() || fate.failed)
    }

    /// The bytes of answers that the client has read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.seen.read.load(Ordering::Relaxed)
    }
}

/// Does some work until the flow is stopped.
async fn until(
    mut stopped: watch::Receiver<()>,
    work: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    tokio::select! {
        done = work => done,
        _ = stopped.changed() => Ok(()),
    }
}

impl Seen {
    fn fates(&self) -> MutexGuard<'_, Vec<Fate>> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.began)
    }
}

impl Begun {
    /// The answer is complete.
    fn done(mut self) {
        let now = Instant::now();
        self.seen.fates()[self.number].done = Some(self.seen.time(now));
        self.end(now);
    }

    fn end(&mut self, now: Instant) {
        if let Some(ended) = self.ended.take() {
            // Nobody waits for the end of most transfers.
            let _ = ended.send(now);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.seen.fates()[self.number].failed = true;
            self.end(Instant::now());
        }
    }
}

/// How the client opens connections.
enum Dialer {
    Tcp(SocketAddr),
    Sctp(Ends, Endpoint),
}

impl Dialer {
    async fn open(&self) -> Result<(Reading, Writing), String> {
        match self {
            Self::Tcp(to) => {
                let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
                halves_of_tcp(stream)
            }
            Self::Sctp(ends, endpoint) => Ok(halves_of_sctp(&ends.connect(endpoint)?)),
        }
    }
}

fn halves_of_tcp(stream: TcpStream) -> Result<(Reading, Writing), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (reading, writing) = stream.into_split();
    Ok((Box::new(reading), Box::new(writing)))
}

fn halves_of_sctp(association: &Association) -> (Reading, Writing) {
    let (writing, reading) = association.stream(StreamId(0), Ppid(0));
    (Box::new(reading), Box::new(writing))
}

/// The client: begins each transfer when it is due, until all have ended.
async fn ask(
    transport: Transport,
    plan: Vec<Transfer>,
    connections: Connections,
    seen: Arc<Seen>,
) -> Result<(), String> {
    let dialer = match transport {
        Transport::Tcp(to) => Dialer::Tcp((to, TCP_PORT).into()),
        Transport::Sctp(ends) => {
            let endpoint = ends.bind(0)?;
            Dialer::Sctp(ends, endpoint)
        }
    };
    let dialer = std::rc::Rc::new(dialer);
    let mut previous: Option<oneshot::Receiver<Instant>> = None;
    let mut shared: Option<UnboundedSender<Begun>> = None;
    let mut running = tokio::task::JoinSet::new();
    for (number, transfer) in plan.into_iter().enumerate() {
        let due = match transfer.due {
            Due::At(at) => seen.began + at,
            Due::After(pause) => match previous.take() {
                // The sender tells of the end of each transfer.
                Some(ended) => ended.await.unwrap_or_else(|_| Instant::now()) + pause,
                None => seen.began + pause,
            },
        };
        tokio::time::sleep(due.saturating_duration_since(Instant::now())).await;
        seen.fates()[number].due = Some(seen.time(Instant::now()));
        let (ended, has_ended) = oneshot::channel();
        previous = Some(has_ended);
        let begun = Begun { seen: seen.clone(), number, transfer, ended: Some(ended) };
        let refused = match &shared {
            Some(connection) => connection.send(begun).map_err(|refused| refused.0).err(),
            None => Some(begun),
        };
        // The first one, or the shared connection has ended.
        if let Some(begun) = refused {
            let (asks, asked) = unbounded_channel();
            // The channel is open: its receiver is here.
            let _ = asks.send(begun);
            shared = Some(asks).filter(|_| connections == Connections::Shared);
            let dialer = dialer.clone();
            running.spawn_local(async move { connection(&dialer, asked).await });
        }
    }
    drop(shared);
    while running.join_next().await.is_some() {}
    Ok(())
}

/// A connection of the client, for the transfers of a channel until it is closed. If the connection fails, they fail.
async fn connection(dialer: &Dialer, mut asked: UnboundedReceiver<Begun>) {
    let Ok((mut reading, mut writing)) = dialer.open().await else { return };
    let (expects, mut expected) = unbounded_channel::<Begun>();
    let ask = async move {
        while let Some(begun) = asked.recv().await {
            let Transfer { request_bytes, answer_bytes, .. } = begun.transfer;
            let request_bytes = request_bytes.max(HEAD as u64);
            // The receiver lives as long as this task.
            let _ = expects.send(begun);
            let head = [request_bytes.to_be_bytes(), answer_bytes.max(1).to_be_bytes()].concat();
            write(&mut writing, head, request_bytes).await?;
        }
        // It is kept open until the last answer.
        Ok(writing)
    };
    let read = async move {
        while let Some(begun) = expected.recv().await {
            let read = |bytes| {
                begun.seen.read.fetch_add(bytes, Ordering::Relaxed);
            };
            skip(&mut reading, begun.transfer.answer_bytes.max(1), read).await?;
            begun.done();
        }
        Ok(())
    };
    // Transfers that an error leaves behind have failed.
    let _: std::io::Result<_> = tokio::try_join!(ask, read);
}

/// The server: answers on each connection.
async fn serve(transport: Transport, ready: impl FnOnce()) -> Result<(), String> {
    match transport {
        Transport::Tcp(at) => {
            let listener = TcpListener::bind((at, TCP_PORT)).await.map_err(|error| error.to_string())?;
            ready();
            loop {
                let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
                let (reading, writing) = halves_of_tcp(stream)?;
                tokio::task::spawn_local(answer(reading, writing));
            }
        }
        Transport::Sctp(ends) => {
            let endpoint = ends.bind(1)?;
            let listener = ends.listen(&endpoint)?;
            ready();
            while let Some(association) = listener.accept().await {
                let (reading, writing) = halves_of_sctp(&association);
                tokio::task::spawn_local(answer(reading, writing));
            }
            Ok(())
        }
    }
}

/// Answers the requests of a connection in order, while further ones are read.
async fn answer(mut reading: Reading, mut writing: Writing) {
    let (asks, mut asked) = unbounded_channel::<u64>();
    let read = async move {
        loop {
            let mut head = [0; HEAD];
            // The client closes a connection between requests.
            if reading.read_exact(&mut head).await.is_err() {
                return Ok(());
            }
            let number = |at: usize| head[at..at + 8].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            skip(&mut reading, number(0) - HEAD as u64, |_| {}).await?;
            // The receiver lives as long as this task.
            let _ = asks.send(number(8));
        }
    };
    let write = async move {
        while let Some(bytes) = asked.recv().await {
            write(&mut writing, Vec::new(), bytes).await?;
        }
        Ok(())
    };
    // The client notices a connection that ends early.
    let _: std::io::Result<_> = tokio::try_join!(read, write);
}

/// Writes so many bytes, the first of which are given.
async fn write(writing: &mut Writing, mut first: Vec<u8>, bytes: u64) -> std::io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let part = left.min(PART as u64) as usize;
        first.resize(part, 0x5a);
        writing.write_all(&first).await?;
        first.clear();
        left -= part as u64;
    }
    writing.flush().await
}

/// Reads so many bytes, and reports them as they arrive.
async fn skip(reading: &mut Reading, mut bytes: u64, read: impl Fn(u64)) -> std::io::Result<()> {
    let mut buffer = vec![0; PART];
    while bytes > 0 {
        let most = bytes.min(PART as u64) as usize;
        let some = reading.read(&mut buffer[..most]).await?;
        if some == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes -= some as u64;
        read(some as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    /// Runs transfers over loopback, against a server if there is one. Returns their results and the bytes of answers.
    fn ran(
        transport: &Transport,
        has_server: bool,
        plan: &[Transfer],
        connections: Connections,
    ) -> (Vec<Fate>, u64) {
        let fates = Mutex::new(vec![Fate::default(); plan.len()]);
        let seen = Arc::new(Seen { began: Instant::now(), fates, read: AtomicU64::new(0) });
        block_on(async {
            let (ready, is_ready) = oneshot::channel();
            let server = async {
                if has_server {
                    serve(transport.clone(), || ready.send(()).unwrap_or_default()).await
                } else {
                    drop(ready);
                    std::future::pending().await
                }
            };
            let client = async {
                // Without a server nothing is sent here.
                let _ = is_ready.await;
                ask(transport.clone(), plan.to_vec(), connections, seen.clone()).await
            };
            let both = async {
                tokio::select! {
                    ended = server => ended,
                    asked = client => asked,
                }
            };
            tokio::time::timeout(Duration::from_secs(120), both).await.map_err(|_| "it hangs".to_owned())?
        })
        .unwrap();
        (seen.fates().clone(), seen.read.load(Ordering::Relaxed))
    }

    fn transfer(due: Due, request_bytes: u64, answer_bytes: u64) -> Transfer {
        Transfer { due, request_bytes, answer_bytes }
    }

    fn over(host: u8) -> [Transport; 2] {
        let paths = vec![[Ipv4Addr::new(127, 77, host, 1), Ipv4Addr::new(127, 77, host, 2)]];
        let config = Arc::new(braidftp_sctp::Profile::Modern.config());
        [Transport::Tcp(Ipv4Addr::new(127, 77, host, 2)), Transport::Sctp(Ends::new(28, paths, config))]
    }

    #[test]
    fn answers_have_the_requested_lengths_on_one_connection_or_several() {
        let step = Duration::from_millis(5);
        let plan = [
            transfer(Due::At(Duration::ZERO), 0, 0),
            transfer(Due::At(step), 100, 200_000),
            transfer(Due::At(step), 50_000, 3),
            transfer(Due::After(step), PART as u64, PART as u64 + 1),
        ];
        for (host, connections) in [(1, Connections::OneEach), (2, Connections::Shared)] {
            for transport in over(host) {
                let (fates, read) = ran(&transport, true, &plan, connections);
                assert!(
                    fates.iter().all(|fate| fate.done >= fate.due && fate.due.is_some() && !fate.failed),
                    "{fates:?}"
                );
                assert_eq!(read, 1 + 200_000 + 3 + PART as u64 + 1, "{transport:?}");
                assert!(fates[1].due >= Some(Time::ZERO + step));
                assert!(fates[3].due.unwrap() >= fates[2].done.unwrap() + step, "it follows the third one");
            }
        }
    }

    #[test]
    fn transfers_without_a_connection_fail_and_the_next_ones_are_begun() {
        let plan = [transfer(Due::After(Duration::ZERO), 100, 5); 3];
        for connections in [Connections::OneEach, Connections::Shared] {
            let [tcp, _] = over(3);
            let (fates, read) = ran(&tcp, false, &plan, connections);
            assert!(
                fates.iter().all(|fate| fate.failed && fate.due.is_some() && fate.done.is_none()),
                "{fates:?}"
            );
            assert_eq!(read, 0);
        }
    }
}
