//! Films as MP4: frames of the same drawing, encoded by the program ffmpeg.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Recorder;
use super::draw::{Titles, draw_still};
use crate::plot::svg;

/// The frames of a second.
const FRAMES: u32 = 25;
/// The pixels of a unit of the drawing, which makes films 1,920 pixels wide.
const SCALE: f32 = 1.92;
/// The maximum duration on the screen: each frame is rendered.
const LASTS_MAX: Duration = Duration::from_secs(600);

/// A film to be encoded. It exists only where ffmpeg does.
#[derive(Debug)]
pub struct Movie(());

impl Movie {
    /// Looks for ffmpeg.
    ///
    /// # Errors
    ///
    /// It cannot be run, or the film would last longer than 10 minutes.
    pub fn new(lasts: Duration) -> Result<Self, String> {
        if lasts > LASTS_MAX {
            return Err(format!("an MP4 lasts {} s on the screen at most", LASTS_MAX.as_secs()));
        }
        let tried = ffmpeg()
            .arg("-version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match tried {
            Ok(_) => Ok(Self(())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err("an MP4 is encoded by the program ffmpeg, which is not on the PATH: install ffmpeg, or write an SVG (-o film.svg)".to_owned())
            }
            Err(error) => Err(format!("cannot run ffmpeg: {error}")),
        }
    }

    /// Encodes a film that lasts so long on the screen, and returns the number of its frames. The file is replaced only
    /// by a whole film.
    ///
    /// # Errors
    ///
    /// ffmpeg ended with an error, which it has printed, or a file cannot be written.
    pub fn encode(
        &self,
        recorder: &Recorder,
        titles: &Titles<'_>,
        lasts: Duration,
        output: &Path,
    ) -> Result<u32, String> {
        let mut name = output.as_os_str().to_owned();
        name.push(".part");
        let part = Path::new(&name);
        let encoded = frames(recorder, titles, lasts, part).and_then(|frames| {
            std::fs::rename(part, output).map(|()| frames).map_err(|error| error.to_string())
        });
        if encoded.is_err() {
            let _ = std::fs::remove_file(part);
        }
        encoded.map_err(|error| format!("cannot make {}: {error}", output.display()))
    }
}

fn ffmpeg() -> Command {
    Command::new("ffmpeg")
}

fn frames(recorder: &Recorder, titles: &Titles<'_>, lasts: Duration, output: &Path) -> Result<u32, String> {
    let frames = ((lasts.as_secs_f64() * f64::from(FRAMES)).round() as u32).max(2);
    let still = |frame: u32| {
        let svg = draw_still(recorder, titles, f64::from(frame) / f64::from(frames - 1));
        svg::pixels(&svg, SCALE)
    };
    let first = still(0)?;
    // Encoders of MP4 want an even number of pixels in both directions.
    let (width, height) = (first.width().next_multiple_of(2), first.height().next_multiple_of(2));
    let mut target = OsString::from("file:");
    target.push(output);
    let mut child = ffmpeg()
        .args(["-hide_banner", "-loglevel", "error", "-y", "-f", "rawvideo", "-pixel_format", "rgba"])
        .args(["-video_size", &format!("{width}x{height}"), "-framerate", &FRAMES.to_string(), "-i", "-"])
        .args(["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"])
        .arg(target)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run ffmpeg: {error}"))?;
    let mut pipe = child.stdin.take().expect("its input is a pipe");
    let mut wrote = Ok(());
    for frame in 0..frames {
        let dots = if frame == 0 { first.clone() } else { still(frame)? };
        wrote = write_frame(&mut pipe, &dots, width, height);
        if wrote.is_err() {
            break;
        }
    }
    drop(pipe);
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("ffmpeg failed ({status})"));
    }
    wrote.map(|()| frames).map_err(|error| format!("ffmpeg reads no frames: {error}"))
}

/// Writes the pixels of a frame, white where the picture is smaller than the frame.
fn write_frame(out: &mut impl io::Write, dots: &svg::Dots, width: u32, height: u32) -> io::Result<()> {
    const WHITE: [u8; 4] = [255; 4];
    let row = dots.width() as usize * 4;
    for line in dots.data().chunks_exact(row) {
        out.write_all(line)?;
        (dots.width()..width).try_for_each(|_| out.write_all(&WHITE))?;
    }
    (dots.height()..height).try_for_each(|_| out.write_all(&WHITE.repeat(width as usize)))
}
