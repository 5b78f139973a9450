//! `braidlab film`: well-formed, the same bytes for the same seed, and at a known time the packets where they must be. In place of
//! ffmpeg, a program keeps the frames that it is given.

use std::path::Path;
use std::process::{Command, Output};

use resvg::usvg::roxmltree::{Document, Node};

/// One file over a link of 100 ms; the queue holds few packets.
const SCENARIO: &str = r#"
title = "One file & a <link>"

[links.slow]
rate = "1 Mbit/s"
delay = "100 ms"
queue = "10 kB"

[[path]]
via = ["slow"]

[transports.sctp]
protocol = "sctp"

[[workload]]
kind = "ftp"
mode = "braid"
transport = "sctp"
files = { count = 1, size = "100 kB" }
"#;

fn film(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).arg("film").args(words).current_dir(folder).output().unwrap()
}

fn made(folder: &Path, words: &[&str]) -> (String, String) {
    let output = film(folder, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = std::fs::read_to_string(folder.join("film.svg")).unwrap();
    (svg, String::from_utf8(output.stdout).unwrap())
}

/// The value of an animated attribute at a part of the film, as SMIL defines it.
fn value(animation: Node<'_, '_>, part: f64) -> String {
    let list =
        |name: &str| animation.attribute(name).unwrap().split(';').map(str::to_owned).collect::<Vec<_>>();
    let values = list("values");
    let times: Vec<f64> = list("keyTimes").iter().map(|time| time.parse().unwrap()).collect();
    assert_eq!((values.len(), times[0]), (times.len(), 0.0), "{animation:?}");
    assert!(times.is_sorted() && times.iter().all(|time| (0.0..=1.0).contains(time)), "{times:?}");
    let last = times.iter().rposition(|time| *time <= part).unwrap();
    if animation.attribute("calcMode") == Some("discrete") || last + 1 == times.len() {
        return values[last].clone();
    }
    assert_eq!(times.last(), Some(&1.0));
    let [from, to]: [f64; 2] = [&values[last], &values[last + 1]].map(|value| value.parse().unwrap());
    (from + (part - times[last]) / (times[last + 1] - times[last]) * (to - from)).to_string()
}

/// The places of the packets of a direction that are on the wire at a time of a film that shows `lasts` seconds.
fn packets(svg: &Document<'_>, way: &str, at: f64, lasts: f64) -> Vec<f64> {
    let lane = svg.descendants().find(|node| node.attribute("data-way") == Some(way)).unwrap();
    let rects = lane.children().filter(|node| node.has_tag_name("rect"));
    let places = rects.map(|rect| {
        let animation = rect.children().find(|node| node.has_tag_name("animate")).unwrap();
        let width: f64 = rect.attribute("width").unwrap().parse().unwrap();
        value(animation, at / lasts).parse::<f64>().unwrap() + width / 2.0
    });
    places.filter(|place| *place > 0.0).collect()
}

#[test]
fn packets_are_where_delay_and_rate_put_them_at_a_known_time() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), SCENARIO).unwrap();
    let words = ["my.toml", "--lasts", "0.5"];
    let (svg, said) = made(folder.path(), &words);
    assert!(
        said.starts_with("film.svg: the only point: ") && said.contains(" 0.000 s to 0.500 s of "),
        "{said}"
    );
    let document = Document::parse(&svg).unwrap();
    // The first packet, INIT, leaves the client at once, and is halfway after 50 ms; its answer after 150 ms. A copy follows 10 ms
    // later.
    let (middle, behind) = ((250.0 + 866.0) / 2.0, (866.0 - 250.0) / 10.0);
    for (at, forward, back) in [(0.05, 2, 0), (0.15, 0, 2)] {
        let [there, home] = ["forward", "return"].map(|way| packets(&document, way, at, 0.5));
        assert_eq!((there.len(), home.len()), (forward, back), "at {at} s");
        let places: Vec<_> = there.into_iter().chain(home).collect();
        let is_at = |place: f64| places.iter().any(|other| (other - place).abs() < 20.0);
        let copy = if back == 0 { middle - behind } else { middle + behind };
        assert!(is_at(middle) && is_at(copy), "at {at} s: {places:?}");
    }
    // The clock shows the time.
    let clock = |part: f64| {
        let is_shown = |node: &Node<'_, '_>| {
            let animation = node.children().find(|node| node.has_tag_name("animate"));
            let is_clock = |its: &Node<'_, '_>| its.attribute("attributeName") == Some("visibility");
            animation.filter(is_clock).is_some_and(|its| value(its, part) == "visible")
        };
        let shown: Vec<_> = document.descendants().filter(is_shown).filter_map(|node| node.text()).collect();
        shown.join(" ")
    };
    assert_eq!((clock(0.0), clock(0.305), clock(0.985)), ("0.00 s".into(), "0.15 s".into(), "0.49 s".into()));
}

#[test]
fn a_film_is_well_formed_repeats_to_the_byte_and_shows_windows_queues_and_drops() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), SCENARIO).unwrap();
    let (svg, _) = made(folder.path(), &["my.toml"]);
    assert_eq!(made(folder.path(), &["my.toml"]).0, svg);
    let document = Document::parse(&svg).unwrap();
    let names: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for name in ["One file & a <link>", "slow", "windows of ftp, bytes", "queue of slow, bytes"] {
        assert!(names.iter().any(|its| its.starts_with(name)), "{name}: {names:?}");
    }
    for (curve, class) in
        [("congestion window", "cwnd"), ("bytes in flight", "flight"), ("peer's receive window", "peer")]
    {
        let has_name = |node: &Node<'_, '_>| {
            node.children().any(|title| title.has_tag_name("title") && title.text() == Some(curve))
        };
        let line = document.descendants().find(has_name).unwrap_or_else(|| panic!("no curve of the {curve}"));
        assert_eq!(line.attribute("class"), Some(format!("curve {class}").as_str()));
        let points: Vec<&str> = line.attribute("points").unwrap().split(' ').collect();
        let heights: std::collections::BTreeSet<&str> =
            points.iter().filter_map(|point| point.split(',').nth(1)).collect();
        assert!(points.len() > 50 && heights.len() > 1, "{curve}: {points:?}");
    }
    // The queue overflows at the end of slow start, and the film shows it full then.
    let forward = document.descendants().find(|node| node.attribute("data-way") == Some("return")).unwrap();
    assert!(forward.descendants().any(|node| node.attribute("class") == Some("drop")), "no drop is shown");
    let queue = forward.descendants().find(|node| node.attribute("class") == Some("queue")).unwrap();
    let widths = queue.first_child().unwrap().attribute("values").unwrap();
    assert!(widths.split(';').any(|width| width.parse::<f64>().unwrap() > 60.0), "{widths}");
    for word in ["<script", "http:", "https:", " on", "<image"] {
        assert!(!svg.replacen("http://www.w3.org/2000/svg", "", 1).contains(word) || word == " on", "{word}");
    }
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn figures_have_films_and_what_cannot_be_filmed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["multistream/fig6", "--at", "variant=braid,loss=0.03", "--lasts", "1"];
    let (svg, said) = made(folder.path(), &words);
    assert!(said.contains("loss=0.03") && said.contains("variant=braid"), "{said}");
    let other = made(folder.path(), &[&words[..], &["--seed", "2"]].concat()).0;
    assert_ne!(svg, other, "the seed decides about losses");
    for (words, says) in [
        (&["multistream/fig1"][..], "`multistream/fig1` is neither a scenario file"),
        (&["multistream/fig6", "--at", "cake=1"], "no axis `cake`; there are "),
        (&["multistream/fig6", "--at", "variant=cake"], "axis variant has no value `cake`; there are "),
        (&["multistream/fig6", "--at", "variant"], "write AXIS=VALUE"),
        (&["multistream/fig6", "--from", "100000"], "--from begins the film too late"),
        (&["multistream/fig6", "--screen", "0"], "0.1 s on the screen at least"),
        (&["multistream/fig6", "-o", "film.avi"], "a film is an SVG or an MP4"),
    ] {
        let output = film(folder.path(), words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
        assert!(error.contains(says), "{words:?}: {error}");
    }
}

/// A folder with a program `ffmpeg` that runs these lines of a shell.
#[cfg(unix)]
fn with_ffmpeg(lines: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("ffmpeg");
    std::fs::write(&program, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[cfg(unix)]
fn film_with(programs: &Path, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidlab"));
    // The shell's own programs stay on the path, behind.
    let path = format!("{}:/usr/bin:/bin", programs.display());
    command.arg("film").args(words).env("PATH", path).current_dir(folder).output().unwrap()
}

#[cfg(unix)]
#[test]
fn an_mp4_is_encoded_from_frames_with_the_packets_where_they_are_in_the_film() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), SCENARIO).unwrap();
    // Its last argument is the file: the frames become the film, so that they can be seen here.
    let keeps = with_ffmpeg(
        "case \"$1\" in -version) exit 0;; esac\necho \"$@\" > words\nfor last; do :; done\ncat > \"${last#file:}\"",
    );
    let words = ["my.toml", "--lasts", "0.5", "--screen", "0.44", "-o", "film.mp4"];
    let output = film_with(keeps.path(), folder.path(), &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("film.mp4: the only point: 0.000 s to 0.500 s of ")
            && said.ends_with(" 11 frames\n"),
        "{said}"
    );
    let given = std::fs::read_to_string(folder.path().join("words")).unwrap();
    let size = given.split(' ').skip_while(|word| *word != "-video_size").nth(1).unwrap();
    let (width, height) = size.split_once('x').unwrap();
    let [width, height]: [usize; 2] = [width, height].map(|text| text.parse().unwrap());
    assert!(width == 1_920 && width % 2 == 0 && height % 2 == 0, "{size}");
    let frames = std::fs::read(folder.path().join("film.mp4")).unwrap();
    assert_eq!(frames.len(), 11 * width * height * 4);
    assert!(!folder.path().join("film.mp4.part").exists());
    assert!(frames.ends_with(&[255; 8]), "the paper is white to the last row");
    // Frame 1 is at 50 ms: INIT is in the middle of the wire, and nothing on the way back. Frame 3 is at 150 ms: the answer.
    let is_dark = |frame: usize, x: f64, y: f64| {
        let [x, y] = [x, y].map(|place| (place * 1.92).round() as usize);
        let dot = ((frame * height + y) * width + x) * 4;
        frames[dot..dot + 3].iter().all(|part| *part < 90)
    };
    let middle = (250.0 + 866.0) / 2.0;
    let lanes = [92.0 + 28.0, 92.0 + 46.0];
    let near =
        |frame: usize, lane: f64| (-20..=20).any(|dx| is_dark(frame, middle + f64::from(dx), lane + 2.0));
    assert_eq!(lanes.map(|lane| near(1, lane)), [true, false]);
    assert_eq!(lanes.map(|lane| near(3, lane)), [false, true]);
}

#[cfg(unix)]
#[test]
fn without_ffmpeg_or_with_one_that_fails_no_mp4_is_made_and_an_earlier_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), SCENARIO).unwrap();
    std::fs::write(folder.path().join("film.mp4"), "an earlier film").unwrap();
    let words = ["my.toml", "--lasts", "0.5", "--screen", "0.2", "-o", "film.mp4"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidlab"));
    let output = command
        .arg("film")
        .args(words)
        .env("PATH", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("install ffmpeg"), "{error}");
    let fails = with_ffmpeg("case \"$1\" in -version) exit 0;; esac\necho 'no encoder' >&2\nexit 3");
    let output = film_with(fails.path(), folder.path(), &words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{error}");
    assert!(error.contains("no encoder") && error.contains("cannot make film.mp4: ffmpeg failed"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path().join("film.mp4")).unwrap(), "an earlier film");
}
