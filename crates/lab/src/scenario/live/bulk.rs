//! A bulk flow between the hosts of a pair: over the kernel's TCP, or over SCTP of `braidftp-net`. Its window and its
//! round-trip time are sampled as in the simulator: by TCP_INFO, or from the association.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use braidftp_emu::tcp_info;
use braidftp_emu::tun::{Host, Running};
use braidftp_net::{Association, Message, Ppid, StreamId};
use bytes::Bytes;

use super::commands::TCP_PORT;
use super::sctp::{Ends, block_on};
use crate::papers::live as kernel;
use crate::scenario::run::{Sums, of_paths};

/// How often a task looks whether its flow has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The transport of a flow.
#[derive(Debug, Clone)]
pub(super) enum Transport {
    /// The kernel's TCP to this address.
    Tcp(Ipv4Addr),
    /// SCTP.
    Sctp(Ends),
}

/// When a flow sends, and how much at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// When its sender connects, after the start of the links.
    pub starts: Duration,
    /// When it writes for the last time.
    pub ends: Option<Duration>,
    /// The bytes of a message.
    pub write_bytes: usize,
}

/// A flow.
#[derive(Debug)]
pub(super) struct Bulk {
    transport: Transport,
    span: Span,
    read: Arc<AtomicU64>,
    /// The reader's association over SCTP.
    receiver: Arc<OnceLock<Association>>,
    /// Ends its writer and its reader.
    stops: [Arc<AtomicBool>; 2],
    /// The sender once it has connected.
    sender: Arc<OnceLock<Sender>>,
    /// The sums of the sampled windows and round-trip times.
    pub samples: Sums,
}

#[derive(Debug)]
enum Sender {
    Tcp(TcpStream),
    Sctp(Association),
}

/// The state of a sender.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// The congestion window in bytes, of all paths together.
    pub cwnd: Option<f64>,
    /// The smoothed round-trip time of the first path in seconds.
    pub srtt: Option<f64>,
    /// Chunks or segments that were sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs; TCP_INFO has none.
    pub timeouts: u64,
}

impl Bulk {
    /// Starts the reader on a host, and waits until it listens. Returns the flow and the reader.
    pub(super) fn listen(
        host: &Host,
        transport: Transport,
        span: Span,
    ) -> Result<(Self, Running<Result<(), String>>), String> {
        let stops: [Arc<AtomicBool>; 2] = Default::default();
        let (read, stop, at) = (Arc::new(AtomicU64::new(0)), stops[1].clone(), transport.clone());
        let (ready, is_ready) = channel();
        let receiver: Arc<OnceLock<Association>> = Arc::default();
        let reader = host.spawn({
            let (read, receiver) = (read.clone(), receiver.clone());
            move || {
                let ready = || ready.send(()).unwrap_or_default();
                let read = match at {
                    Transport::Tcp(at) => {
                        kernel::read((at, TCP_PORT), &read, &stop, ready).map_err(|error| error.to_string())
                    }
                    Transport::Sctp(ends) => block_on(receive(&ends, (&read, &receiver), &stop, ready)),
                };
                read.map_err(|error| format!("a bulk flow's reader: {error}"))
            }
        });
        match is_ready.recv() {
            Ok(()) => {
                let (sender, samples) = (Arc::default(), Sums::default());
                Ok((Self { transport, span, read, receiver, stops, sender, samples }, reader))
            }
            // It ended before it listened, and says why.
            Err(_) => Err(reader.join().err().unwrap_or_else(|| "a bulk flow's reader ended".to_owned())),
        }
    }

    /// Starts the writer on a host; it connects at its time.
    pub(super) fn write(&self, host: &Host, began: Instant) -> Running<Result<(), String>> {
        let (transport, span) = (self.transport.clone(), self.span);
        let (stops, sender) = (self.stops.clone(), self.sender.clone());
        host.spawn(move || {
            sleep(span.starts.saturating_sub(began.elapsed()));
            // It is set once: a flow has one sender.
            let opened = |its| sender.set(its).unwrap_or_default();
            let wrote = match transport {
                Transport::Tcp(to) => {
                    let opened = |stream: &TcpStream| {
                        stream.try_clone().map(|stream| opened(Sender::Tcp(stream))).unwrap_or_default();
                    };
                    kernel::write((to, TCP_PORT), &stops[0], opened).map_err(|error| error.to_string())
                }
                Transport::Sctp(ends) => {
                    let opened = |its: &Association| opened(Sender::Sctp(its.clone()));
                    block_on(send(&ends, span.write_bytes, &stops, opened))
                }
            };
            wrote.map_err(|error| format!("a bulk flow's writer: {error}"))
        })
    }

    /// Ends the writer when its time has come.
    pub(super) fn end_at(&self, now: Duration) {
        if self.span.ends.is_some_and(|ends| ends <= now) {
            self.stops[0].store(true, Ordering::Relaxed);
        }
    }

    /// Ends the writer and the reader.
    pub(super) fn stop(&self) {
        self.stops.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
    }

    /// The bytes of user data that have arrived in order: read, or of a message whose end has not arrived.
    pub(super) fn read_bytes(&self) -> u64 {
        let partial = self.receiver.get().map_or(0, |association| association.stats().partial_bytes as u64);
        self.read.load(Ordering::Relaxed) + partial
    }

    /// The state of the sender, once it has connected.
    pub(super) fn state(&self) -> State {
        match self.sender.get() {
            None => State::default(),
            Some(Sender::Tcp(stream)) => tcp_info(stream).map_or_else(
                |_| State::default(),
                |info| State {
                    cwnd: Some(info.cwnd_bytes as f64),
                    srtt: Some(info.srtt.as_secs_f64()).filter(|srtt| *srtt > 0.0),
                    retransmissions: info.retransmissions,
                    timeouts: 0,
                },
            ),
            Some(Sender::Sctp(association)) => {
                let paths = association.stats().paths;
                let (cwnd, srtt) = of_paths(&paths);
                let retransmissions = paths.iter().map(|path| path.retransmitted_chunks).sum();
                State { cwnd, srtt, retransmissions, timeouts: paths.iter().map(|path| path.timeouts).sum() }
            }
        }
    }

    /// Samples the sender.
    pub(super) fn sample(&mut self) {
        let State { cwnd, srtt, .. } = self.state();
        self.samples.add(cwnd, srtt);
    }
}

async fn receive(
    ends: &Ends,
    (read, receiver): (&AtomicU64, &OnceLock<Association>),
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let endpoint = ends.bind(1)?;
    let listener = ends.listen(&endpoint)?;
    ready();
    let mut association = None;
    while !stop.load(Ordering::Relaxed) {
        let piece = async {
            if association.is_none() {
                association = listener.accept().await;
                association.iter().for_each(|its| receiver.set(its.clone()).unwrap_or_default());
            }
            match &association {
                Some(association) => association.recv(StreamId(0)).await,
                None => Ok(None),
            }
        };
        match tokio::time::timeout(LOOK, piece).await {
            Ok(Ok(Some(piece))) => drop(read.fetch_add(piece.len() as u64, Ordering::Relaxed)),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(reason)) if stop.load(Ordering::Relaxed) => drop(reason),
            Ok(Err(reason)) => return Err(reason.to_string()),
            Err(_) => {}
        }
    }
    match association {
        Some(_) => Ok(()),
        None => Err("no association was opened".to_owned()),
    }
}

async fn send(
    ends: &Ends,
    bytes: usize,
    [stop, reader_stop]: &[Arc<AtomicBool>; 2],
    opened: impl FnOnce(&Association),
) -> Result<(), String> {
    let endpoint = ends.bind(0)?;
    let association = ends.connect(&endpoint)?;
    opened(&association);
    let bytes = Bytes::from(vec![0x5a; bytes]);
    while !stop.load(Ordering::Relaxed) {
        let message = Message::new(Ppid(0), bytes.clone());
        // A cancelled call has sent nothing.
        if let Ok(Err(error)) = tokio::time::timeout(LOOK, association.send(StreamId(0), message)).await
            && !stop.load(Ordering::Relaxed)
        {
            return Err(error.to_string());
        }
    }
    // What was written is delivered while the reader listens.
    association.start_shutdown();
    while !reader_stop.load(Ordering::Relaxed)
        && tokio::time::timeout(LOOK, association.closed()).await.is_err()
    {}
    Ok(())
}
