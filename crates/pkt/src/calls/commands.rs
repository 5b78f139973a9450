//! The shell commands of a script. No command is run. `sysctl` configures new sockets, as far as the core
//! has the feature. Settings without effect here are ignored with a note; everything else is reported as
//! not supported.

use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_cc::InitialWindow;
use braidftp_sctp::Config;

use super::Kernel;

/// Kernel settings without effect here: features that no packet shows, and memory.
const IRRELEVANT: &[&str] = &[
    "pktdrop_enable",
    "cmt_on_off",
    "cmt_use_dac",
    "blackhole",
    "sendall_limit",
    "vtag_time_wait",
    "peer_chkoh",
    "strict_sacks",
    "log_level",
    "nat_friendly",
    "diag_info_code",
    "min_split_point",
    "maxchunks",
    "tcbhashsize",
    "pcbhashsize",
    "chunkscale",
    "inits_use_a_rwnd",
    "cwnd_maxburst",
    "hb_maxburst",
    "abort_at_limit",
    "min_residual",
    "max_retran_chunk",
    "default_cc_module",
    "use_dcccecn",
    "mobility_base",
    "mobility_fasthandoff",
    "enable_sack_immediately",
    "addr_watchdog_limit",
    "rttvar_bw",
    "rttvar_rtt",
    "rttvar_eqret",
    "rttvar_steady_step",
    "initial_cwnd_override",
    "buffer_splitting",
    "multiple_asconfs",
    "auto_asconf",
    "loopback_nocsum",
    "output_unlocked",
    "asoc_resource",
    "rtt_var_bw",
    "add_more_on_output",
    "max_chained_mbufs",
    "ack_clocking",
    "steady_step",
    "default_frag_interleave",
    "nr_outgoing_streams_on_startup",
    "addip_noauth_enable",
    "sctp_mem",
    "sctp_rmem",
    "sctp_wmem",
];

impl Kernel {
    /// Carries out a command; an error names what is not supported.
    pub(crate) fn command(&mut self, command: &str) -> Result<(), String> {
        let mut words = command.split_whitespace();
        match words.next().map(|word| word.rsplit('/').next().unwrap_or(word)) {
            Some("sysctl") => {}
            Some("true" | ":" | "echo" | "sync") => return Ok(()),
            _ => return Err(format!("the command `{command}`")),
        }
        for word in words {
            // -w: write; -i and -e: ignore unknown names; -q: quiet.
            if let Some(flags) = word.strip_prefix('-') {
                if flags.chars().all(|flag| "wieqnN".contains(flag)) {
                    continue;
                }
                return Err(format!("the command `{command}`"));
            }
            let Some((name, value)) = word.split_once('=') else {
                return Err(format!("the command `{command}`"));
            };
            self.setting(name, value).ok_or_else(|| format!("the setting {name} ({command})"))?;
        }
        Ok(())
    }

    fn setting(&mut self, name: &str, value: &str) -> Option<()> {
        let Some((_, name)) = name.rsplit_once("sctp.") else {
            // Settings of other protocols.
            self.notes.push(format!("ignored the setting {name}"));
            return (name.starts_with("net.") || name.starts_with("kern.")).then_some(());
        };
        if IRRELEVANT.contains(&name) {
            self.notes.push(format!("ignored the setting {name}"));
            return Some(());
        }
        let value: u32 = value.trim_matches('"').parse().ok()?;
        if name == "udp_tunneling_port" || name == "encap_port" || name == "udp_port" {
            self.tunnel_port = Some(value as u16).filter(|port| *port != 0);
            self.udp_ports.1 = value as u16;
            return Some(());
        }
        if name.starts_with("plpmtud_") || name == "pmtu_raise_time" {
            return self.plpmtud.set(name, value);
        }
        apply(&mut self.base, name, value)
    }
}

/// Sets the parameter `name`.
fn apply(config: &mut Config, name: &str, value: u32) -> Option<()> {
    let millis = Duration::from_millis(value.into());
    let seconds = Duration::from_secs(value.into());
    let on = value != 0;
    match name {
        "assoc_rtx_max" | "association_max_retrans" => config.failover.association_max_retrans = value,
        "path_rtx_max" | "path_max_retrans" => config.failover.path_max_retrans = value,
        "path_pf_threshold" | "pf_retrans" => {
            config.failover.potentially_failed_max_retrans = (value < 0xffff).then_some(value);
        }
        "init_rtx_max" | "max_init_retransmits" => config.handshake.max_init_retransmits = value,
        "rto_initial" | "init_rto_initial" => config.timers.rto.initial = millis,
        "rto_min" => config.timers.rto.min = millis,
        "rto_max" => config.timers.rto.max = millis,
        // It limits the RTO of the handshake, which has the same bounds as any RTO here.
        "init_rto_max" => {}
        "delayed_sack_time" | "sack_timeout" => config.sack.delay = millis,
        "sack_freq" => config.sack.frequency = value.max(1),
        "heartbeat_interval" | "hb_interval" => config.timers.heartbeat_interval = on.then_some(millis),
        "shutdown_guard_time" if on => config.timers.shutdown_guard = seconds,
        "shutdown_guard_time" => config.timers.shutdown_guard = 5 * config.timers.rto.max,
        "valid_cookie_life" => config.handshake.valid_cookie_life = millis,
        "max_burst" | "maxburst" => config.congestion.max_burst = on.then_some(value),
        "outgoing_streams" => config.streams.outbound = value.clamp(1, 65_535) as u16,
        "incoming_streams" => config.streams.inbound = value.clamp(1, 65_535) as u16,
        "sendspace" => config.memory.send_buffer_bytes = value as usize,
        "recvspace" => config.memory.receive_buffer_bytes = value as usize,
        "initial_cwnd" => {
            let count = u8::try_from(value).ok().and_then(NonZeroU8::new);
            // 0: as in RFC 9260 §7.2.1.
            config.congestion.options.initial_window = count.map_or(InitialWindow::Ipv4, InitialWindow::Mtus);
        }
        _ => return super::options::extension(config, name, on),
    }
    Some(())
}
