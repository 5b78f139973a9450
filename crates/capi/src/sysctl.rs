//! `usrsctp_sysctl_*`: the defaults of new sockets. Functions that are not listed here do not exist: a program that calls one
//! does not link.

use std::ffi::c_int;
use std::sync::Mutex;
use std::time::Duration;

use braidftp_net::Config;

use crate::errno::{INVALID, guard};
use crate::sync::lock;

/// The values, as C has them.
#[derive(Debug, Clone, Copy)]
struct Values {
    sendspace: u32,
    recvspace: u32,
    ecn_enable: u32,
    pr_enable: u32,
    reconfig_enable: u32,
    nrsack_enable: u32,
    max_burst_default: u32,
    delayed_sack_time_default: u32,
    sack_freq_default: u32,
    heartbeat_interval_default: u32,
    rto_max_default: u32,
    rto_min_default: u32,
    rto_initial_default: u32,
    valid_cookie_life_default: u32,
    init_rtx_max_default: u32,
    assoc_rtx_max_default: u32,
    path_rtx_max_default: u32,
    nr_incoming_streams_default: u32,
    nr_outgoing_streams_default: u32,
    blackhole: u32,
    no_csum_on_loopback: u32,
    enable_sack_immediately: u32,
    debug_on: u32,
}

/// The defaults: those of RFC 9260 and of usrsctp.
const DEFAULTS: Values = Values {
    sendspace: 262_144,
    recvspace: 262_144,
    ecn_enable: 0,
    pr_enable: 1,
    reconfig_enable: 1,
    nrsack_enable: 0,
    max_burst_default: 4,
    delayed_sack_time_default: 200,
    sack_freq_default: 2,
    heartbeat_interval_default: 30_000,
    rto_max_default: 60_000,
    rto_min_default: 1_000,
    rto_initial_default: 1_000,
    valid_cookie_life_default: 60_000,
    init_rtx_max_default: 8,
    assoc_rtx_max_default: 10,
    path_rtx_max_default: 5,
    nr_incoming_streams_default: 2_048,
    nr_outgoing_streams_default: 10,
    blackhole: 0,
    no_csum_on_loopback: 0,
    enable_sack_immediately: 0,
    debug_on: 0,
};

static VALUES: Mutex<Values> = Mutex::new(DEFAULTS);

/// Sets all values to their defaults.
pub(crate) fn reset() {
    *lock(&VALUES) = DEFAULTS;
}

/// Whether lines for the operator are printed.
pub(crate) fn debug() -> bool {
    lock(&VALUES).debug_on != 0
}

/// The configuration of a new socket.
pub(crate) fn config() -> Config {
    let (mut config, values) = (Config::default(), *lock(&VALUES));
    let ms = |ms: u32| Duration::from_millis(ms.into());
    let streams = |streams: u32| u16::try_from(streams).unwrap_or(u16::MAX);
    config.memory.send_buffer_bytes = values.sendspace as usize;
    config.memory.receive_buffer_bytes = values.recvspace as usize;
    config.congestion.ecn = values.ecn_enable != 0;
    config.congestion.max_burst = Some(values.max_burst_default).filter(|burst| *burst != 0);
    config.messages.partial_reliability = values.pr_enable != 0;
    config.streams.reconfiguration = values.reconfig_enable != 0;
    config.streams.inbound = streams(values.nr_incoming_streams_default);
    config.streams.outbound = streams(values.nr_outgoing_streams_default);
    config.sack.nr_sack = values.nrsack_enable != 0;
    config.sack.delay = ms(values.delayed_sack_time_default);
    config.sack.frequency = values.sack_freq_default;
    config.sack.immediate_at_end = values.enable_sack_immediately != 0;
    config.timers.heartbeat_interval =
        Some(ms(values.heartbeat_interval_default)).filter(|interval| !interval.is_zero());
    config.timers.rto.initial = ms(values.rto_initial_default);
    config.timers.rto.min = ms(values.rto_min_default);
    config.timers.rto.max = ms(values.rto_max_default);
    config.handshake.valid_cookie_life = ms(values.valid_cookie_life_default);
    config.handshake.max_init_retransmits = values.init_rtx_max_default;
    config.failover.association_max_retrans = values.assoc_rtx_max_default;
    config.failover.path_max_retrans = values.path_rtx_max_default;
    config
}

/// Sets a value within its range; EINVAL otherwise.
fn set(value: u32, range: std::ops::RangeInclusive<u32>, put: impl FnOnce(&mut Values)) -> c_int {
    guard(-1, || {
        if !range.contains(&value) {
            return Err(INVALID);
        }
        put(&mut lock(&VALUES));
        Ok(0)
    })
}

macro_rules! sysctl {
    ($($field:ident $range:expr, $set:ident, $get:ident;)*) => {
        $(
            #[doc = concat!("Sets `", stringify!($field), "`; the range is `", stringify!($range), "`.")]
            // SAFETY: no other function of the program has this name.
            #[unsafe(no_mangle)]
            pub extern "C" fn $set(value: u32) -> c_int {
                set(value, $range, |values| values.$field = value)
            }

            #[doc = concat!("Returns `", stringify!($field), "`.")]
            // SAFETY: no other function of the program has this name.
            #[unsafe(no_mangle)]
            pub extern "C" fn $get() -> u32 {
                lock(&VALUES).$field
            }
        )*
    };
}

/// The longest time in milliseconds: a day.
const DAY: u32 = 86_400_000;

// The same names are in cbindgen.toml, which cannot expand this. A test compiles a C program that calls each.
sysctl! {
    sendspace 1..=1 << 30, usrsctp_sysctl_set_sctp_sendspace, usrsctp_sysctl_get_sctp_sendspace;
    recvspace 1..=1 << 30, usrsctp_sysctl_set_sctp_recvspace, usrsctp_sysctl_get_sctp_recvspace;
    ecn_enable 0..=1, usrsctp_sysctl_set_sctp_ecn_enable, usrsctp_sysctl_get_sctp_ecn_enable;
    pr_enable 0..=1, usrsctp_sysctl_set_sctp_pr_enable, usrsctp_sysctl_get_sctp_pr_enable;
    reconfig_enable 0..=1, usrsctp_sysctl_set_sctp_reconfig_enable, usrsctp_sysctl_get_sctp_reconfig_enable;
    nrsack_enable 0..=1, usrsctp_sysctl_set_sctp_nrsack_enable, usrsctp_sysctl_get_sctp_nrsack_enable;
    max_burst_default 0..=u32::MAX,
        usrsctp_sysctl_set_sctp_max_burst_default, usrsctp_sysctl_get_sctp_max_burst_default;
    delayed_sack_time_default 0..=500,
        usrsctp_sysctl_set_sctp_delayed_sack_time_default, usrsctp_sysctl_get_sctp_delayed_sack_time_default;
    sack_freq_default 1..=u32::MAX,
        usrsctp_sysctl_set_sctp_sack_freq_default, usrsctp_sysctl_get_sctp_sack_freq_default;
    heartbeat_interval_default 0..=DAY,
        usrsctp_sysctl_set_sctp_heartbeat_interval_default, usrsctp_sysctl_get_sctp_heartbeat_interval_default;
    rto_max_default 1..=DAY, usrsctp_sysctl_set_sctp_rto_max_default, usrsctp_sysctl_get_sctp_rto_max_default;
    rto_min_default 1..=DAY, usrsctp_sysctl_set_sctp_rto_min_default, usrsctp_sysctl_get_sctp_rto_min_default;
    rto_initial_default 1..=DAY,
        usrsctp_sysctl_set_sctp_rto_initial_default, usrsctp_sysctl_get_sctp_rto_initial_default;
    valid_cookie_life_default 1..=DAY,
        usrsctp_sysctl_set_sctp_valid_cookie_life_default, usrsctp_sysctl_get_sctp_valid_cookie_life_default;
    init_rtx_max_default 0..=1_000,
        usrsctp_sysctl_set_sctp_init_rtx_max_default, usrsctp_sysctl_get_sctp_init_rtx_max_default;
    assoc_rtx_max_default 0..=1_000,
        usrsctp_sysctl_set_sctp_assoc_rtx_max_default, usrsctp_sysctl_get_sctp_assoc_rtx_max_default;
    path_rtx_max_default 0..=1_000,
        usrsctp_sysctl_set_sctp_path_rtx_max_default, usrsctp_sysctl_get_sctp_path_rtx_max_default;
    nr_incoming_streams_default 1..=65_535,
        usrsctp_sysctl_set_sctp_nr_incoming_streams_default, usrsctp_sysctl_get_sctp_nr_incoming_streams_default;
    nr_outgoing_streams_default 1..=65_535,
        usrsctp_sysctl_set_sctp_nr_outgoing_streams_default, usrsctp_sysctl_get_sctp_nr_outgoing_streams_default;
    // Accepted without effect: over UDP, a packet without an association is answered at a limited rate.
    blackhole 0..=2, usrsctp_sysctl_set_sctp_blackhole, usrsctp_sysctl_get_sctp_blackhole;
    // Checksums are always computed and verified.
    no_csum_on_loopback 0..=0,
        usrsctp_sysctl_set_sctp_no_csum_on_loopback, usrsctp_sysctl_get_sctp_no_csum_on_loopback;
    enable_sack_immediately 0..=1,
        usrsctp_sysctl_set_sctp_enable_sack_immediately, usrsctp_sysctl_get_sctp_enable_sack_immediately;
    debug_on 0..=u32::MAX, usrsctp_sysctl_set_sctp_debug_on, usrsctp_sysctl_get_sctp_debug_on;
}
