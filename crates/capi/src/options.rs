//! Socket options (RFC 6458 §8, RFC 6525 §6.3, RFC 6951 §6.1).
//!
//! An option applies to future associations of the socket, or to one association if a number is given that stands for one (for a
//! one-to-one socket: to its association too). Zero leaves a value as it is, where RFC 6458 says so.

use std::ffi::c_int;
use std::time::Duration;

use braidftp_net::cc::rtt::Bounds;
use braidftp_net::sctp::{PeerMay, Phase};
use braidftp_net::{
    Association, Config, PathName, PathParams, PathState, PathStats, SackTiming, StreamId, StreamReset,
    Streams,
};

use crate::abi::*;
use crate::address::Address;
use crate::errno::{Errno, INVALID, NOT_OFFERED};
use crate::memory::{Place, Plain, of_storage, read};
use crate::notices::OFFERED;
use crate::socket::{Options, Socket, State, Style};

/// The largest socket buffer in bytes.
const BUFFER_MAX: usize = 1 << 30;

/// No such key, path or request now.
const NOT_NOW: Errno = Errno(libc::ENOENT);

/// Sets an option.
pub(crate) fn set(socket: &Socket, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let mut state = socket.lock();
    let style = socket.style;
    match level {
        libc::SOL_SOCKET => set_of_socket(&mut state.options, name, value),
        libc::IPPROTO_SCTP => match set_of_options(&mut state.options, name, value)? {
            Done::Yes => Ok(()),
            Done::No => set_of_associations(&mut state, style, name, value),
        },
        _ => Err(Errno(libc::ENOPROTOOPT)),
    }
}

/// Whether an option was handled.
enum Done {
    Yes,
    No,
}

fn set_of_socket(options: &mut Options, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let size = || {
        let size = usize::try_from(read::<i32>(value)?).map_err(|_| INVALID)?;
        if (1..=BUFFER_MAX).contains(&size) { Ok(size) } else { Err(INVALID) }
    };
    match name {
        libc::SO_SNDBUF => options.config.memory.send_buffer_bytes = size()?,
        libc::SO_RCVBUF => options.config.memory.receive_buffer_bytes = size()?,
        libc::SO_LINGER => {
            let linger: libc::linger = read(value)?;
            options.aborts = linger.l_onoff != 0 && linger.l_linger == 0;
        }
        // A port is free as soon as its socket is closed.
        libc::SO_REUSEADDR => {}
        _ => return Err(NOT_OFFERED),
    }
    Ok(())
}

/// Options of the socket alone.
fn set_of_options(options: &mut Options, name: c_int, value: &[u8]) -> Result<Done, Errno> {
    let flag = || Ok::<_, Errno>(read::<i32>(value)? != 0);
    // Features that are always on or off: only that value is accepted.
    let only = |wanted: bool| if flag()? == wanted { Ok(()) } else { Err(NOT_OFFERED) };
    match name {
        SCTP_RECVRCVINFO => options.rcvinfo = flag()?,
        SCTP_I_WANT_MAPPED_V4_ADDR => options.maps_v4 = flag()?,
        // Messages are always sent as soon as the windows permit.
        SCTP_NODELAY => only(true)?,
        SCTP_RECVNXTINFO | SCTP_DISABLE_FRAGMENTS | SCTP_EXPLICIT_EOR | SCTP_AUTO_ASCONF => only(false)?,
        SCTP_REUSE_PORT => {}
        SCTP_AUTOCLOSE => only(false)?,
        SCTP_FRAGMENT_INTERLEAVE if matches!(read::<u32>(value)?, 0 | 1) => {}
        SCTP_EVENT => {
            let event: sctp_event = read(value)?;
            if !OFFERED.contains(&event.se_type) {
                return Err(if event.se_on == 0 { INVALID } else { NOT_OFFERED });
            }
            let bit = 1 << event.se_type;
            options.events = if event.se_on != 0 { options.events | bit } else { options.events & !bit };
        }
        SCTP_CONTEXT => options.context = read::<sctp_assoc_value>(value)?.assoc_value,
        SCTP_REMOTE_UDP_ENCAPS_PORT => {
            options.udp_port = u16::from_be(read::<sctp_udpencaps>(value)?.sue_port);
        }
        SCTP_DEFAULT_SNDINFO => options.sndinfo = read(value)?,
        SCTP_DEFAULT_PRINFO => options.prinfo = read(value)?,
        SCTP_INITMSG => set_init(&mut options.config, &read(value)?),
        SCTP_ADAPTATION_LAYER => {
            options.config.handshake.adaptation = Some(read::<sctp_setadaptation>(value)?.ssb_adaptation_ind);
        }
        SCTP_PR_SUPPORTED
        | SCTP_ECN_SUPPORTED
        | SCTP_RECONFIG_SUPPORTED
        | SCTP_NRSACK_SUPPORTED
        | SCTP_ASCONF_SUPPORTED => {
            *extension(&mut options.config, name) = read::<sctp_assoc_value>(value)?.assoc_value != 0;
        }
        SCTP_AUTH_SUPPORTED if read::<sctp_assoc_value>(value)?.assoc_value == 0 => {
            options.config.security.auth = None;
        }
        SCTP_PKTDROP_SUPPORTED if read::<sctp_assoc_value>(value)?.assoc_value == 0 => {}
        _ => return Ok(Done::No),
    }
    Ok(Done::Yes)
}

/// The switch of an extension.
fn extension(config: &mut Config, name: c_int) -> &mut bool {
    match name {
        SCTP_PR_SUPPORTED => &mut config.messages.partial_reliability,
        SCTP_ECN_SUPPORTED => &mut config.congestion.ecn,
        SCTP_RECONFIG_SUPPORTED => &mut config.streams.reconfiguration,
        SCTP_NRSACK_SUPPORTED => &mut config.sack.nr_sack,
        _ => &mut config.paths.asconf,
    }
}

fn set_init(config: &mut Config, init: &sctp_initmsg) {
    let some = |value: u16| Some(value).filter(|value| *value != 0);
    config.streams.outbound = some(init.sinit_num_ostreams).unwrap_or(config.streams.outbound);
    config.streams.inbound = some(init.sinit_max_instreams).unwrap_or(config.streams.inbound);
    let attempts = some(init.sinit_max_attempts).map(u32::from);
    config.handshake.max_init_retransmits = attempts.unwrap_or(config.handshake.max_init_retransmits);
    // `sinit_max_init_timeo` bounds the RTO of INIT alone; here every RTO has one bound.
    if let Some(most) = some(init.sinit_max_init_timeo) {
        let initial = config.timers.rto.initial;
        config.timers.rto.initial = initial.min(Duration::from_millis(most.into()));
    }
}

/// Options of associations: existing ones, or those to come.
fn set_of_associations(state: &mut State, style: Style, name: c_int, value: &[u8]) -> Result<(), Errno> {
    match name {
        SCTP_RTOINFO => {
            let info: sctp_rtoinfo = read(value)?;
            let targets = Targets::of(state, style, info.srto_assoc_id)?;
            let now = targets.config(state).timers.rto;
            let new = bounds(now, &info)?;
            targets.apply(state, |config| config.timers.rto = new, |association| association.set_rto(new));
        }
        SCTP_ASSOCINFO => set_association_info(state, style, &read(value)?)?,
        SCTP_DELAYED_SACK => {
            let info: sctp_sack_info = read(value)?;
            if info.sack_delay > 500 {
                return Err(INVALID);
            }
            let targets = Targets::of(state, style, info.sack_assoc_id)?;
            let sack = &targets.config(state).sack;
            let delay = some(info.sack_delay).map_or(sack.delay, |ms| Duration::from_millis(ms.into()));
            let frequency = some(info.sack_freq).unwrap_or(sack.frequency);
            let set = |config: &mut Config| (config.sack.delay, config.sack.frequency) = (delay, frequency);
            targets.apply(state, set, |association| {
                association.set_delayed_sack(SackTiming { delay, frequency })
            });
        }
        SCTP_MAX_BURST => {
            let value: sctp_assoc_value = read(value)?;
            let targets = Targets::of(state, style, value.assoc_id)?;
            let burst = some(value.assoc_value);
            let set = |config: &mut Config| config.congestion.max_burst = burst;
            targets.apply(state, set, |association| association.set_max_burst(burst));
        }
        SCTP_ENABLE_STREAM_RESET => {
            let value: sctp_assoc_value = read(value)?;
            let may = peer_may(value.assoc_value)?;
            let targets = Targets::of(state, style, value.assoc_id)?;
            let set = |config: &mut Config| config.streams.peer_may = may;
            // An association without the extension has no such permission.
            let permit = |association: &Association| {
                let _ = association.set_peer_may(may);
            };
            targets.apply(state, set, permit);
        }
        SCTP_PEER_ADDR_PARAMS => return set_path_params(state, style, &read(value)?),
        SCTP_PRIMARY_ADDR => {
            let prim: sctp_setprim = read(value)?;
            let association = &state.member(style, prim.ssp_assoc_id)?.association;
            let address = Address::parse(value)?;
            let path = path_to(association, address).ok_or(INVALID)?;
            association.set_primary(PathName::of(&path)).map_err(|_| INVALID)?;
        }
        SCTP_RESET_STREAMS => return reset_streams(state, style, value),
        SCTP_RESET_ASSOC => {
            let id = read::<u32>(value)?;
            state.member(style, id)?.association.reset_association().map_err(|_| NOT_NOW)?;
        }
        SCTP_ADD_STREAMS => {
            let add: sctp_add_streams = read(value)?;
            let association = &state.member(style, add.sas_assoc_id)?.association;
            association.add_streams(add.sas_outstrms, add.sas_instrms).map_err(|_| NOT_NOW)?;
        }
        _ => return Err(NOT_OFFERED),
    }
    Ok(())
}

fn set_association_info(state: &mut State, style: Style, info: &sctp_assocparams) -> Result<(), Errno> {
    let targets = Targets::of(state, style, info.sasoc_assoc_id)?;
    let max = some(info.sasoc_asocmaxrxt.into());
    let life = some(info.sasoc_cookie_life).map(|ms| Duration::from_millis(ms.into()));
    let set = |config: &mut Config| {
        config.failover.association_max_retrans = max.unwrap_or(config.failover.association_max_retrans);
        config.handshake.valid_cookie_life = life.unwrap_or(config.handshake.valid_cookie_life);
    };
    targets.apply(state, set, |association| {
        max.into_iter().for_each(|max| association.set_association_max_retrans(max));
    });
    Ok(())
}

/// What an option applies to.
struct Targets {
    future: bool,
    associations: Vec<Association>,
}

impl Targets {
    fn of(state: &State, style: Style, id: sctp_assoc_t) -> Result<Self, Errno> {
        let all = || state.members.values().map(|member| member.association.clone()).collect();
        Ok(match (style, id) {
            (Style::OneToOne, _) | (Style::OneToMany, SCTP_ALL_ASSOC) => {
                Self { future: true, associations: all() }
            }
            (Style::OneToMany, SCTP_FUTURE_ASSOC) => Self { future: true, associations: Vec::new() },
            (Style::OneToMany, SCTP_CURRENT_ASSOC) => Self { future: false, associations: all() },
            (Style::OneToMany, id) => {
                let association = state.member(style, id)?.association.clone();
                Self { future: false, associations: vec![association] }
            }
        })
    }

    /// The present values.
    fn config(&self, state: &State) -> Config {
        match self.associations.first() {
            Some(association) => association.config(),
            None => state.options.config.clone(),
        }
    }

    fn apply(&self, state: &mut State, future: impl FnOnce(&mut Config), now: impl Fn(&Association)) {
        if self.future {
            future(&mut state.options.config);
        }
        self.associations.iter().for_each(now);
    }
}

fn some(value: u32) -> Option<u32> {
    Some(value).filter(|value| *value != 0)
}

fn bounds(now: Bounds, info: &sctp_rtoinfo) -> Result<Bounds, Errno> {
    let or = |ms: u32, now: Duration| some(ms).map_or(now, |ms| Duration::from_millis(ms.into()));
    let (initial, max) = (or(info.srto_initial, now.initial), or(info.srto_max, now.max));
    let new = Bounds { initial, max, min: or(info.srto_min, now.min), ..now };
    if new.min <= new.initial && new.initial <= new.max { Ok(new) } else { Err(INVALID) }
}

fn peer_may(flags: u32) -> Result<PeerMay, Errno> {
    if flags & !SCTP_ENABLE_VALUE_MASK != 0 {
        return Err(INVALID);
    }
    Ok(PeerMay {
        reset_streams: flags & SCTP_ENABLE_RESET_STREAM_REQ != 0,
        reset_association: flags & SCTP_ENABLE_RESET_ASSOC_REQ != 0,
        add_streams: flags & SCTP_ENABLE_CHANGE_ASSOC_REQ != 0,
    })
}

fn set_path_params(state: &mut State, style: Style, params: &sctp_paddrparams) -> Result<(), Errno> {
    let flags = params.spp_flags;
    if flags & (SPP_IPV6_FLOWLABEL | SPP_DSCP) != 0 {
        return Err(NOT_OFFERED);
    }
    let both = |flags: u32, one: u32, other: u32| flags & one != 0 && flags & other != 0;
    if both(flags, SPP_HB_ENABLE, SPP_HB_DISABLE) || both(flags, SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE) {
        return Err(INVALID);
    }
    let change = |params_now: PathParams| PathParams {
        heartbeat_interval: match flags {
            _ if flags & SPP_HB_DISABLE != 0 => None,
            _ if flags & SPP_HB_TIME_IS_ZERO != 0 => Some(Duration::ZERO),
            _ if flags & SPP_HB_ENABLE != 0 || params.spp_hbinterval != 0 => {
                let interval = some(params.spp_hbinterval).map(|ms| Duration::from_millis(ms.into()));
                interval.or(params_now.heartbeat_interval).or(Some(Duration::from_secs(30)))
            }
            _ => params_now.heartbeat_interval,
        },
        path_max_retrans: some(params.spp_pathmaxrxt.into()).unwrap_or(params_now.path_max_retrans),
    };
    if state.members.is_empty() || (style == Style::OneToMany && params.spp_assoc_id == SCTP_FUTURE_ASSOC) {
        let config = &mut state.options.config;
        let heartbeat_interval = config.timers.heartbeat_interval;
        let new =
            change(PathParams { heartbeat_interval, path_max_retrans: config.failover.path_max_retrans });
        config.timers.heartbeat_interval = new.heartbeat_interval;
        config.failover.path_max_retrans = new.path_max_retrans;
        if flags & SPP_PMTUD_ENABLE != 0 {
            config.path_mtu.discovery.get_or_insert_default();
        }
        if flags & SPP_PMTUD_DISABLE != 0 {
            config.path_mtu.discovery = None;
            if let Some(mtu) = some(params.spp_pathmtu) {
                config.path_mtu.packet_bytes = packet_bytes(mtu)?;
            }
        }
        return Ok(());
    }
    if flags & (SPP_PMTUD_ENABLE | SPP_PMTUD_DISABLE) != 0 {
        return Err(NOT_OFFERED);
    }
    let association = &state.member(style, params.spp_assoc_id)?.association;
    let of_this = named(&params.spp_address)?;
    for path in paths_to(association, of_this) {
        let now = association.path_params(path).map_err(|_| INVALID)?;
        association.set_path_params(path, change(now)).map_err(|_| INVALID)?;
        if flags & SPP_HB_DEMAND != 0 {
            association.demand_heartbeat(path).map_err(|_| NOT_NOW)?;
        }
    }
    Ok(())
}

/// The largest SCTP packet in an IP packet of this many bytes, over UDP and IPv6 at the worst: a multiple of 4.
fn packet_bytes(mtu: u32) -> Result<usize, Errno> {
    let packet = (mtu as usize).checked_sub(48).ok_or(INVALID)? & !3;
    if (512..=65_000).contains(&packet) { Ok(packet) } else { Err(INVALID) }
}

/// The address that names a path; `None` if it names none.
fn named(storage: &libc::sockaddr_storage) -> Result<Option<Address>, Errno> {
    if storage.ss_family == 0 {
        return Ok(None);
    }
    let address = Address::parse(of_storage(storage))?;
    Ok(match address {
        Address::Ip(addr) if addr.ip().is_unspecified() => None,
        Address::Conn { at: 0, .. } => None,
        address => Some(address),
    })
}

fn is_to(path: &PathStats, address: Address) -> bool {
    match address {
        Address::Ip(addr) => path.peer.ip() == addr.ip(),
        // There is one path.
        Address::Conn { .. } => true,
    }
}

fn path_to(association: &Association, address: Address) -> Option<PathStats> {
    association.stats().paths.into_iter().find(|path| is_to(path, address))
}

fn paths_to(association: &Association, address: Option<Address>) -> Vec<PathName> {
    let paths = association.stats().paths.into_iter().filter(|path| path.state != PathState::Removed);
    let paths = paths.filter(|path| address.is_none_or(|address| is_to(path, address)));
    paths.map(|path| PathName::of(&path)).collect()
}

fn reset_streams(state: &State, style: Style, value: &[u8]) -> Result<(), Errno> {
    let (id, flags, count) =
        (read::<u32>(value)?, read::<u16>(after(value, 4))?, read::<u16>(after(value, 6))?);
    let list = after(value, 8);
    let streams = if count == 0 {
        Streams::All
    } else {
        let list: Result<Vec<StreamId>, Errno> =
            (0..usize::from(count)).map(|n| Ok(StreamId(read::<u16>(after(list, 2 * n))?))).collect();
        Streams::These(list?)
    };
    if flags == 0 || flags & !(SCTP_STREAM_RESET_INCOMING | SCTP_STREAM_RESET_OUTGOING) != 0 {
        return Err(INVALID);
    }
    let side = |flag: u16| (flags & flag != 0).then(|| streams.clone());
    let (outgoing, incoming) = (side(SCTP_STREAM_RESET_OUTGOING), side(SCTP_STREAM_RESET_INCOMING));
    let association = &state.member(style, id)?.association;
    association.reset_streams(StreamReset { outgoing, incoming }).map_err(|_| NOT_NOW)
}

fn after(value: &[u8], at: usize) -> &[u8] {
    value.get(at..).unwrap_or_default()
}

/// Reads an option; returns the number of bytes written.
pub(crate) fn get(socket: &Socket, level: c_int, name: c_int, place: Place) -> Result<usize, Errno> {
    let state = socket.lock();
    let options = &state.options;
    let flag = |on: bool| place.put(i32::from(on));
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => place.put(size(options.config.memory.send_buffer_bytes)),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => place.put(size(options.config.memory.receive_buffer_bytes)),
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            place.put(state.ended.as_ref().map_or(0, |reason| match Errno::from(reason) {
                Errno(libc::EPIPE) => 0,
                Errno(code) => code,
            }))
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            place.put(libc::linger { l_onoff: options.aborts.into(), l_linger: 0 })
        }
        (libc::SOL_SOCKET, _) => Err(NOT_OFFERED),
        (libc::IPPROTO_SCTP, SCTP_RECVRCVINFO) => flag(options.rcvinfo),
        (libc::IPPROTO_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR) => flag(options.maps_v4),
        (libc::IPPROTO_SCTP, SCTP_NODELAY) => flag(true),
        (libc::IPPROTO_SCTP, SCTP_AUTOCLOSE | SCTP_EXPLICIT_EOR | SCTP_RECVNXTINFO) => flag(false),
        (libc::IPPROTO_SCTP, SCTP_EVENT) => {
            let asked: sctp_event = place.read()?;
            place.put(sctp_event { se_on: options.wants(asked.se_type.min(31)).into(), ..asked })
        }
        (libc::IPPROTO_SCTP, SCTP_DEFAULT_SNDINFO) => place.put(options.sndinfo),
        (libc::IPPROTO_SCTP, SCTP_DEFAULT_PRINFO) => place.put(options.prinfo),
        (libc::IPPROTO_SCTP, SCTP_INITMSG) => place.put(init_of(&options.config)),
        (libc::IPPROTO_SCTP, SCTP_ADAPTATION_LAYER) => {
            let ssb_adaptation_ind = options.config.handshake.adaptation.unwrap_or(0);
            place.put(sctp_setadaptation { ssb_adaptation_ind })
        }
        (libc::IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT) => {
            let asked: sctp_udpencaps = place.read()?;
            place.put(sctp_udpencaps { sue_port: options.udp_port.to_be(), ..asked })
        }
        (
            libc::IPPROTO_SCTP,
            SCTP_PR_SUPPORTED
            | SCTP_ECN_SUPPORTED
            | SCTP_RECONFIG_SUPPORTED
            | SCTP_NRSACK_SUPPORTED
            | SCTP_ASCONF_SUPPORTED,
        ) => {
            let on = *extension(&mut options.config.clone(), name);
            answer(place, |asked: sctp_assoc_value| sctp_assoc_value { assoc_value: on.into(), ..asked })
        }
        (libc::IPPROTO_SCTP, _) => get_of_associations(socket, &state, name, place),
        _ => Err(Errno(libc::ENOPROTOOPT)),
    }
}

/// Completes the request in `place` with the answer.
fn answer<T: Plain>(place: Place, complete: impl FnOnce(T) -> T) -> Result<usize, Errno> {
    place.put(complete(place.read()?))
}

fn get_of_associations(socket: &Socket, state: &State, name: c_int, place: Place) -> Result<usize, Errno> {
    let config = |id: sctp_assoc_t| Ok::<_, Errno>(Targets::of(state, socket.style, id)?.config(state));
    match name {
        SCTP_RTOINFO => {
            let asked: sctp_rtoinfo = place.read()?;
            let rto = config(asked.srto_assoc_id)?.timers.rto;
            let (srto_initial, srto_max, srto_min) = (ms(rto.initial), ms(rto.max), ms(rto.min));
            place.put(sctp_rtoinfo { srto_initial, srto_max, srto_min, ..asked })
        }
        SCTP_ASSOCINFO => association_info(socket, state, place),
        SCTP_DELAYED_SACK => {
            let asked: sctp_sack_info = place.read()?;
            let sack = config(asked.sack_assoc_id)?.sack;
            place.put(sctp_sack_info { sack_delay: ms(sack.delay), sack_freq: sack.frequency, ..asked })
        }
        SCTP_MAX_BURST => {
            let asked: sctp_assoc_value = place.read()?;
            let assoc_value = config(asked.assoc_id)?.congestion.max_burst.unwrap_or(0);
            place.put(sctp_assoc_value { assoc_value, ..asked })
        }
        SCTP_CONTEXT => answer(place, |asked: sctp_assoc_value| sctp_assoc_value {
            assoc_value: state.options.context,
            ..asked
        }),
        SCTP_ENABLE_STREAM_RESET => {
            let asked: sctp_assoc_value = place.read()?;
            let may = config(asked.assoc_id)?.streams.peer_may;
            let bit = |on: bool, bit: u32| if on { bit } else { 0 };
            let assoc_value = bit(may.reset_streams, SCTP_ENABLE_RESET_STREAM_REQ)
                | bit(may.reset_association, SCTP_ENABLE_RESET_ASSOC_REQ)
                | bit(may.add_streams, SCTP_ENABLE_CHANGE_ASSOC_REQ);
            place.put(sctp_assoc_value { assoc_value, ..asked })
        }
        SCTP_PEER_ADDR_PARAMS => {
            let asked: sctp_paddrparams = place.read()?;
            let config = config(asked.spp_assoc_id)?;
            let hb = config.timers.heartbeat_interval;
            let (on, discovers) = (hb.is_some(), config.path_mtu.discovery.is_some());
            place.put(sctp_paddrparams {
                spp_hbinterval: hb.map_or(0, ms),
                spp_pathmtu: size(config.path_mtu.packet_bytes + 48) as u32,
                spp_flags: if on { SPP_HB_ENABLE } else { SPP_HB_DISABLE }
                    | if discovers { SPP_PMTUD_ENABLE } else { SPP_PMTUD_DISABLE },
                spp_pathmaxrxt: short(config.failover.path_max_retrans as usize),
                ..asked
            })
        }
        SCTP_STATUS => status(socket, state, place),
        SCTP_GET_PEER_ADDR_INFO => {
            let asked: sctp_paddrinfo = place.read()?;
            let association = &state.member(socket.style, asked.spinfo_assoc_id)?.association;
            let address = named(&asked.spinfo_address)?.ok_or(INVALID)?;
            let path = path_to(association, address).ok_or(INVALID)?;
            let info = path_info(socket, association, &path, asked.spinfo_assoc_id);
            place.put(sctp_paddrinfo { spinfo_address: asked.spinfo_address, ..info })
        }
        SCTP_GET_ASSOC_NUMBER => place.put(size(state.members.len()) as u32),
        SCTP_GET_ASSOC_ID_LIST => {
            let count = state.members.len();
            if place.len() < 4 * (count + 1) {
                return Err(INVALID);
            }
            let words = std::iter::once(count as u32).chain(state.members.keys().copied());
            Ok(place.fill(&words.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>()))
        }
        _ => Err(NOT_OFFERED),
    }
}

fn association_info(socket: &Socket, state: &State, place: Place) -> Result<usize, Errno> {
    let asked: sctp_assocparams = place.read()?;
    let config = Targets::of(state, socket.style, asked.sasoc_assoc_id)?.config(state);
    let member = state.member(socket.style, asked.sasoc_assoc_id).ok();
    let stats = member.map(|member| member.association.stats());
    place.put(sctp_assocparams {
        sasoc_assoc_id: asked.sasoc_assoc_id,
        sasoc_peer_rwnd: stats.as_ref().map_or(0, |stats| size(stats.peer_rwnd)) as u32,
        sasoc_local_rwnd: size(config.memory.receive_buffer_bytes) as u32,
        sasoc_cookie_life: ms(config.handshake.valid_cookie_life),
        sasoc_asocmaxrxt: short(config.failover.association_max_retrans as usize),
        sasoc_number_peer_destinations: stats.map_or(0, |stats| short(stats.paths.len())),
    })
}

fn status(socket: &Socket, state: &State, place: Place) -> Result<usize, Errno> {
    let asked: sctp_status = place.read()?;
    let association = &state.member(socket.style, asked.sstat_assoc_id)?.association;
    let stats = association.stats();
    let primary = association.primary();
    let is_primary = |path: &&PathStats| primary.is_none_or(|primary| PathName::of(path) == primary);
    let path = stats.paths.iter().find(is_primary).or(stats.paths.first()).ok_or(NOT_NOW)?;
    place.put(sctp_status {
        sstat_assoc_id: asked.sstat_assoc_id,
        sstat_state: match stats.phase {
            Phase::CookieWait => SCTP_COOKIE_WAIT,
            Phase::CookieEchoed => SCTP_COOKIE_ECHOED,
            Phase::Established => SCTP_ESTABLISHED,
            Phase::ShutdownPending => SCTP_SHUTDOWN_PENDING,
            Phase::ShutdownSent => SCTP_SHUTDOWN_SENT,
            Phase::ShutdownReceived => SCTP_SHUTDOWN_RECEIVED,
            Phase::ShutdownAckSent => SCTP_SHUTDOWN_ACK_SENT,
            Phase::Closed => SCTP_CLOSED,
        },
        sstat_rwnd: size(stats.peer_rwnd) as u32,
        sstat_unackdata: short(stats.outstanding_bytes),
        sstat_penddata: short(stats.unread_bytes),
        sstat_instrms: stats.inbound_streams,
        sstat_outstrms: stats.outbound_streams,
        // Less the headers of the packet and of one DATA chunk.
        sstat_fragmentation_point: size(path.mtu.saturating_sub(28)) as u32,
        sstat_primary: path_info(socket, association, path, asked.sstat_assoc_id),
    })
}

fn path_info(
    socket: &Socket,
    association: &Association,
    path: &PathStats,
    id: sctp_assoc_t,
) -> sctp_paddrinfo {
    let address = Address::of_carrier(socket.domain, path.peer, association.ports().1);
    sctp_paddrinfo {
        spinfo_address: address.to_storage(false),
        spinfo_assoc_id: id,
        spinfo_state: match path.state {
            PathState::Active => SCTP_ACTIVE,
            PathState::Unconfirmed => SCTP_UNCONFIRMED,
            _ => SCTP_INACTIVE,
        },
        spinfo_cwnd: size(path.cwnd) as u32,
        spinfo_srtt: path.srtt.map_or(0, ms),
        spinfo_rto: ms(path.rto),
        spinfo_mtu: size(path.mtu) as u32,
    }
}

fn init_of(config: &Config) -> sctp_initmsg {
    sctp_initmsg {
        sinit_num_ostreams: config.streams.outbound,
        sinit_max_instreams: config.streams.inbound,
        sinit_max_attempts: short(config.handshake.max_init_retransmits as usize),
        sinit_max_init_timeo: short(config.timers.rto.max.as_millis() as usize),
    }
}

fn ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// A size as C's `int`.
fn size(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn short(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
