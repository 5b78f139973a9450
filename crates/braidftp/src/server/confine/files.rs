//! Landlock: folders and TCP ports.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, make_bitflags,
};

use super::super::tcp::DYNAMIC_PORTS;
use super::{Confinement, Network, Place, Rights, Step};

/// The requested Landlock version: that of Linux 6.12. Older kernels restrict less, newer ones no more.
const WANTED: ABI = ABI::V6;
/// The first version that restricts TCP.
const TCP_SINCE: ABI = ABI::V4;

/// Restricts the process to the places in the file system and to the permitted TCP ports. Returns one step
/// for each.
pub(super) fn restrict(wanted: &Confinement) -> [Step; 2] {
    let missing = |why: &str| {
        [
            Err(format!("files: {why}; a server that was taken over reaches all that its user may")),
            Err(format!("TCP: {why}; an attacker who takes over the server could use any port")),
        ]
    };
    let status = match ruleset(wanted).and_then(RulesetCreated::restrict_self) {
        Ok(status) => status,
        Err(error) => return missing(&format!("Landlock refuses: {error}")),
    };
    let abi = match &status.landlock {
        LandlockStatus::NotEnabled => return missing("Landlock is off; boot with lsm=landlock,…"),
        LandlockStatus::NotImplemented => return missing("this kernel has no Landlock; it takes Linux 5.13"),
        LandlockStatus::Available { effective_abi, .. } => *effective_abi,
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return missing("the Landlock of this kernel would forbid to rename files; it takes Linux 5.19");
    }
    [files(wanted, abi, &status), tcp(&wanted.network, abi)]
}

fn files(wanted: &Confinement, abi: ABI, status: &RestrictionStatus) -> Step {
    let shown: Vec<String> = wanted.places.iter().map(shown).collect();
    let mut said = format!("files by Landlock (version {}): {}; no others", abi as i32, shown.join(", "));
    if abi < WANTED && status.ruleset != RulesetStatus::FullyEnforced {
        said.push_str("; newer kernels also forbid ioctl on devices, and signals to other processes");
    }
    Ok(said)
}

fn shown(place: &Place) -> String {
    let what = match place.rights {
        Rights::ReadFiles => "reads files of",
        Rights::Append => "makes and appends to files of",
        Rights::Read => "reads",
        Rights::ReadWrite => "reads and writes",
    };
    format!("{what} {}", place.path.display())
}

fn tcp(network: &Network, abi: ABI) -> Step {
    if abi < TCP_SINCE {
        return Err("TCP: the Landlock of this kernel does not restrict it; it takes Linux 6.7".into());
    }
    let ports = |ports: &Option<std::ops::RangeInclusive<u16>>| match ports {
        Some(ports) => format!("listens at ports {}-{}", ports.start(), ports.end()),
        None => format!(
            "listens at ports {}-{} and those that the system chooses",
            DYNAMIC_PORTS.start(),
            DYNAMIC_PORTS.end()
        ),
    };
    Ok(match network {
        Network::Nothing => "TCP by Landlock: none".into(),
        Network::Listen(range) => format!("TCP by Landlock: {}; connects to nothing", ports(range)),
        Network::ListenAndConnect(range) => {
            format!("TCP by Landlock: {}; connects to any port, for active mode", ports(range))
        }
        Network::Everywhere(range) => {
            format!("TCP by Landlock: {}; connects to any port, for the object store", ports(range))
        }
    })
}

fn ruleset(wanted: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let handled = Ruleset::default().handle_access(AccessFs::from_all(WANTED))?;
    let tcp = match wanted.network {
        // No rule can permit every port.
        Network::ListenAndConnect(_) | Network::Everywhere(_) => AccessNet::BindTcp.into(),
        Network::Nothing | Network::Listen(_) => AccessNet::from_all(WANTED),
    };
    let mut rules = handled.handle_access(tcp)?.scope(Scope::from_all(WANTED))?.create()?;
    for place in &wanted.places {
        // A missing file needs no permission.
        let Ok(folder) = PathFd::new(&place.path) else { continue };
        rules = rules.add_rule(PathBeneath::new(folder, rights(place.rights)))?;
    }
    let ports = match &wanted.network {
        Network::Nothing => return Ok(rules),
        Network::Listen(ports) | Network::ListenAndConnect(ports) | Network::Everywhere(ports) => {
            ports.clone()
        }
    };
    if !matches!(wanted.network, Network::Listen(_)) || ports.is_none() {
        // For the kernel, port 0 stands for ports that it chooses.
        rules = rules.add_rule(NetPort::new(0, AccessNet::BindTcp))?;
    }
    for port in ports.unwrap_or(DYNAMIC_PORTS) {
        rules = rules.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    Ok(rules)
}

fn rights(rights: Rights) -> BitFlags<AccessFs> {
    match rights {
        Rights::ReadFiles => AccessFs::ReadFile.into(),
        Rights::Append => make_bitflags!(AccessFs::{WriteFile | MakeReg}),
        Rights::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
        // No devices, pipes or sockets; nothing is executed.
        Rights::ReadWrite => make_bitflags!(AccessFs::{
            ReadFile | ReadDir | WriteFile | Truncate | RemoveFile | RemoveDir | MakeReg | MakeDir | MakeSym | Refer
        }),
    }
}
