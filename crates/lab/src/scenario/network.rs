//! The network of a scenario at a point: links, the paths over them, and their changes.

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sim::Probability;
use braidftp_sim::link::GilbertElliott;
use braidftp_sim::link::{
    Bandwidth, CoDel, Down, LinkConfig, Loss, Management, Measure, Queue, Red, Reorder, Signal, Slope, Steps,
};

use super::files::Files;
use super::quantity::Dimension;
use super::tree::{Node, Wrong};
use super::view::{self, View};
use crate::papers::ftp;

/// A link, in both directions.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Its name.
    pub name: String,
    /// The forward and the return direction.
    pub ways: [LinkConfig; 2],
}

/// A path: a sequence of links.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// Its name.
    pub name: String,
    /// The hosts at its ends.
    pub between: [String; 2],
    /// The indices of its links.
    pub via: Vec<usize>,
    /// Whether packets pass its links in the opposite direction.
    pub is_reversed: bool,
}

/// A change of a link.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// The time.
    pub at: Duration,
    /// The link.
    pub link: usize,
    /// The new properties of each direction that changes.
    pub ways: [Option<LinkConfig>; 2],
}

/// A network.
#[derive(Debug, Clone)]
pub(super) struct Network {
    /// Its links.
    pub links: Vec<Link>,
    /// Its paths.
    pub paths: Vec<Path>,
    /// The changes in order of time.
    pub events: Vec<Event>,
}

impl Network {
    /// Reads links, paths and events.
    ///
    /// # Errors
    ///
    /// Values that contradict each other, or a file that cannot be read.
    pub(super) fn read(root: View<'_>, files: &Files) -> Result<Self, Wrong> {
        let mut links = Vec::new();
        for entry in root.get("links").map_or(&[][..], Node::entries) {
            let ways = ways(root.of(&entry.node), [start(), start()], files)?;
            links.push(Link { name: entry.key.clone(), ways });
        }
        let paths = paths(root, &links)?;
        let mut events = Vec::new();
        // The properties of each link after the changes so far.
        let mut now: Vec<[LinkConfig; 2]> = links.iter().map(|link| link.ways.clone()).collect();
        let mut nodes: Vec<View<'_>> = root.list("event").into_iter().map(|node| root.of(node)).collect();
        nodes.sort_by_key(|event| event.time("at"));
        for event in nodes {
            let link =
                links.iter().position(|link| Some(link.name.as_str()) == event.text("link")).unwrap_or(0);
            let set = event.table("set").unwrap_or(event);
            let changed = ways(set, now[link].clone(), files)?;
            let direction = event.text("direction").unwrap_or("both");
            let chosen = ["there", "back"].map(|way| [way, "both"].contains(&direction));
            let ways = [0, 1].map(|way| chosen[way].then(|| changed[way].clone()));
            for (now, new) in now[link].iter_mut().zip(ways.iter()) {
                now.clone_from(new.as_ref().unwrap_or(&now.clone()));
            }
            events.push(Event { at: event.time("at").unwrap_or_default(), link, ways });
        }
        Ok(Self { links, paths, events })
    }
}

/// A link with default values: as in `LinkConfig`, but with packets of IPv4.
fn start() -> LinkConfig {
    LinkConfig { overhead_bytes: 20, ..LinkConfig::default() }
}

fn paths(root: View<'_>, links: &[Link]) -> Result<Vec<Path>, Wrong> {
    let hosts = match root.texts("hosts") {
        hosts if hosts.is_empty() => vec!["client", "server"],
        hosts => hosts,
    };
    if hosts.len() < 2 {
        return Err(root.wrong("hosts", "a network has two hosts at least"));
    }
    if let Some((at, twice)) = repeated(&hosts) {
        return Err(Wrong::at(
            root.list("hosts")[at],
            format!("there is another host `{}`", twice.escape_debug()),
        ));
    }
    let ends = [hosts[0].to_owned(), hosts[1].to_owned()];
    let nodes = root.list("path");
    if nodes.is_empty() {
        let [link] = links else {
            return Err(root.wrong(
                "links",
                format!("of {} links, [[path]] says which are between the hosts", links.len()),
            ));
        };
        return Ok(vec![Path { name: link.name.clone(), between: ends, via: vec![0], is_reversed: false }]);
    }
    let mut paths: Vec<Path> = Vec::new();
    for node in nodes {
        let path = root.of(node);
        let names = path.texts("via");
        let via: Vec<usize> =
            names.iter().filter_map(|name| links.iter().position(|link| link.name == *name)).collect();
        if via.is_empty() {
            return Err(path.wrong("via", "a path has a link at least"));
        }
        if let Some((at, twice)) = repeated(&names) {
            let what = format!("link `{twice}` is in this path twice, and a path passes each link once");
            return Err(Wrong::at(path.list("via")[at], what));
        }
        let between = match path.texts("between")[..] {
            [a, b] if a == b => return Err(path.wrong("between", "a path is between two different hosts")),
            [a, b] => [a.to_owned(), b.to_owned()],
            _ => ends.clone(),
        };
        let name = path.text("name").unwrap_or(names[0]).to_owned();
        if paths.iter().any(|other| other.name == name) {
            return Err(path.wrong("name", format!("there is another path `{name}`: give each a `name`")));
        }
        paths.push(Path { name, between, via, is_reversed: path.flag("reversed").unwrap_or(false) });
    }
    Ok(paths)
}

/// The first name that a list has again, and its place.
fn repeated<'a>(names: &[&'a str]) -> Option<(usize, &'a str)> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(at, name)| (at, *name))
}

/// Both directions of a link.
fn ways(view: View<'_>, base: [LinkConfig; 2], files: &Files) -> Result<[LinkConfig; 2], Wrong> {
    let [there, back] = base;
    let there = way(view, there, files)?;
    let back = way(view, back, files)?;
    match view.table("back") {
        None => Ok([there, back]),
        Some(other) => match other.get("back") {
            Some(node) => Err(Wrong::at(node, "the way back has no way back")),
            None => Ok([there, way(other, back, files)?]),
        },
    }
}

fn way(view: View<'_>, mut config: LinkConfig, files: &Files) -> Result<LinkConfig, Wrong> {
    exclusive(view, &["rate", "trace"])?;
    exclusive(view, &["loss", "burst-loss", "lose"])?;
    exclusive(view, &["red", "codel"])?;
    exclusive(view, &["down", "flap"])?;
    if view.get("rate").is_some() {
        config.rate = rate(view)?;
    }
    if let Some(name) = view.text("trace") {
        config.rate = files.link(name).map_err(|error| view.wrong("trace", error))?;
    }
    config.delay = short(view, "delay")?.unwrap_or(config.delay);
    config.jitter = short(view, "jitter")?.unwrap_or(config.jitter);
    if let Some(part) = view.fraction("loss") {
        config.loss = ftp::bernoulli(part);
    }
    if let Some(burst) = view.table("burst-loss") {
        config.loss = burst_loss(burst)?;
    }
    if view.get("lose").is_some() {
        let mut numbers: Vec<u64> =
            view.list("lose").iter().filter_map(|node| node.number()).map(|it| it as u64).collect();
        numbers.sort_unstable();
        config.loss = Loss::Script(numbers);
    }
    if let Some(reorder) = view.table("reorder") {
        let probability = probability(reorder.fraction("probability").unwrap_or(0.0));
        let extra_delay = short(reorder, "delay")?.unwrap_or(Duration::from_millis(10));
        config.reorder = (probability > Probability::NEVER).then_some(Reorder { probability, extra_delay });
    }
    config.duplicate = view.fraction("duplicate").map_or(config.duplicate, probability);
    config.corrupt = view.fraction("corrupt").map_or(config.corrupt, probability);
    if let Some(queue) = length(view, "queue")? {
        config.queue = queue;
    }
    if let Some(ecn) = length(view, "ecn")? {
        config.ecn = Some(ecn);
    }
    if let Some(table) = view.table("red") {
        config.management = Management::Red(red(table)?);
    }
    if let Some(table) = view.table("codel") {
        config.management = Management::CoDel(codel(table)?);
    }
    if view.get("down").is_some() {
        config.down = down(view)?;
    }
    if let Some(flap) = view.table("flap") {
        let [period, down] = ["period", "down"].map(|key| flap.time(key).unwrap_or_default());
        if down.is_zero() || down >= period {
            return Err(flap.wrong("down", "a cut is shorter than its period, and longer than 0"));
        }
        config.down = Down::Flapping { period, down };
    }
    if let Some(bytes) = view.bytes("overhead") {
        if bytes > 65_535 {
            return Err(view.wrong("overhead", "`overhead` is at most 65535 bytes"));
        }
        config.overhead_bytes = bytes as usize;
    }
    if let Some(bytes) = view.bytes("mtu") {
        if !(68..=65_535).contains(&bytes) {
            return Err(view.wrong("mtu", "`mtu` is 68 to 65535 bytes"));
        }
        config.mtu = Some(bytes as usize);
    }
    Ok(config)
}

fn exclusive(view: View<'_>, keys: &[&str]) -> Result<(), Wrong> {
    let given: Vec<&str> = keys.iter().copied().filter(|key| view.get(key).is_some()).collect();
    match given[..] {
        [first, second, ..] => {
            Err(view.wrong(second, format!("`{first}` and `{second}` exclude each other")))
        }
        _ => Ok(()),
    }
}

fn rate(view: View<'_>) -> Result<Bandwidth, Wrong> {
    let checked = |view: View<'_>| match view.rate("rate") {
        Some(bits) if (1.0..=1e15).contains(&bits) => Ok(Rate::from_bits_per_second(bits.round() as u64)),
        _ => Err(view.wrong(
            "rate",
            "a rate is 1 bit/s to 1000000 Gbit/s; without `rate` it is unlimited, and `down` cuts a link",
        )),
    };
    let steps = view.list("rate");
    let Some((first, later)) = steps.split_first() else { return checked(view).map(Bandwidth::Fixed) };
    let first = view.of(first);
    if first.time("from").unwrap_or_default() > Duration::ZERO {
        return Err(first.wrong("from", "the first rate is that at the beginning"));
    }
    let (mut times, mut last) = (Vec::new(), Duration::ZERO);
    for step in later {
        let step = view.of(step);
        let from = step.time("from").unwrap_or_default();
        if from <= last {
            return Err(
                step.wrong("from", "each rate of a list begins later than the one before: give it a `from`")
            );
        }
        times.push((Time::ZERO + from, checked(step)?));
        last = from;
    }
    let steps = Steps::new(checked(first)?, times)
        .map_err(|_| view.wrong("rate", "a list has 10000 rates at most"))?;
    Ok(Bandwidth::Steps(Arc::new(steps)))
}

fn probability(part: f64) -> Probability {
    Probability::new(part).unwrap_or(Probability::ALWAYS)
}

fn short(view: View<'_>, key: &str) -> Result<Option<Duration>, Wrong> {
    match view.time(key) {
        Some(time) if time > Duration::from_secs(3_600) => {
            Err(view.wrong(key, format!("`{key}` is an hour at most")))
        }
        time => Ok(time),
    }
}

fn length(view: View<'_>, key: &str) -> Result<Option<Queue>, Wrong> {
    let Some(node) = view.get(key) else { return Ok(None) };
    let Some(quantity) = view::any(node) else { return Ok(None) };
    if quantity.number < 1.0 {
        return Err(view.wrong(key, format!("`{key}` is above 0")));
    }
    let number = quantity.number.round() as usize;
    Ok(Some(if quantity.dimension == Dimension::Packets {
        Queue::Packets(number)
    } else {
        Queue::Bytes(number)
    }))
}

fn burst_loss(view: View<'_>) -> Result<Loss, Wrong> {
    let by_mean = ["loss", "packets"].iter().any(|key| view.get(key).is_some());
    let states = ["to-bad", "to-good", "pass-good", "pass-bad"];
    let Some(state) = states.iter().find(|key| view.get(key).is_some()) else {
        let (Some(loss), Some(packets)) = (view.fraction("loss"), view.number("packets")) else {
            return Err(
                view.wrong("", "losses in bursts need `loss` and `packets`, or `to-bad` and `to-good`")
            );
        };
        if loss >= 0.5 || packets < 1.0 {
            return Err(view.wrong(
                "loss",
                "the mean loss in bursts is below 50 %, and a burst has one packet at least",
            ));
        }
        return Ok(ftp::in_bursts(loss, packets));
    };
    if by_mean {
        return Err(view.wrong(state, format!("`{state}` and `loss` exclude each other")));
    }
    let needs = |key: &str| {
        view.fraction(key)
            .map(probability)
            .ok_or_else(|| view.wrong(key, format!("burst-loss needs `{key}`")))
    };
    Ok(Loss::GilbertElliott(GilbertElliott {
        to_bad: needs("to-bad")?,
        to_good: needs("to-good")?,
        pass_good: view.fraction("pass-good").map_or(Probability::ALWAYS, probability),
        pass_bad: view.fraction("pass-bad").map_or(Probability::NEVER, probability),
    }))
}

fn red(view: View<'_>) -> Result<Red, Wrong> {
    let (measure, min, max) = match (length(view, "min")?, length(view, "max")?) {
        (Some(Queue::Packets(min)), Some(Queue::Packets(max))) => (Measure::Packets, min, max),
        (Some(Queue::Bytes(min)), Some(Queue::Bytes(max))) => (Measure::Bytes, min, max),
        _ => return Err(view.wrong("max", "`min` and `max` are both bytes or both packets")),
    };
    if min >= max {
        return Err(view.wrong("max", "`max` is above `min`"));
    }
    let slope = if view.flag("gentle") == Some(true) { Slope::Gentle } else { Slope::Step };
    Ok(Red {
        measure,
        min,
        max,
        max_probability: probability(view.fraction("probability").unwrap_or(0.1)),
        weight: probability(view.fraction("weight").unwrap_or(0.002)),
        slope,
        signal: signal(view),
    })
}

fn codel(view: View<'_>) -> Result<CoDel, Wrong> {
    let default = CoDel::default();
    let interval = short(view, "interval")?.unwrap_or(default.interval);
    if interval.is_zero() {
        return Err(view.wrong("interval", "`interval` is longer than 0"));
    }
    Ok(CoDel { target: short(view, "target")?.unwrap_or(default.target), interval, signal: signal(view) })
}

fn signal(view: View<'_>) -> Signal {
    if view.flag("mark") == Some(true) { Signal::Mark } else { Signal::Drop }
}

fn down(view: View<'_>) -> Result<Down, Wrong> {
    let mut spans: Vec<(Time, Time)> = Vec::new();
    for node in view.list("down") {
        let times: Vec<Time> = node
            .list()
            .iter()
            .filter_map(|it| view::time(view.resolve(it)))
            .map(|it| Time::ZERO + it)
            .collect();
        let [from, to] = times[..] else { continue };
        if from >= to || spans.last().is_some_and(|(_, before)| *before > from) {
            return Err(Wrong::at(node, "cuts end after they begin, and follow one another"));
        }
        spans.push((from, to));
    }
    Ok(if spans.is_empty() { Down::Never } else { Down::Between(spans.into()) })
}
