//! Measures the duration of a live job from its client's output: the lines of `braidftp get -vv --json` or
//! of lftp with `debug 5`, each with its arrival time.

use std::time::{Duration, Instant};

/// Extracts start and end times from output lines.
#[derive(Debug, Default)]
pub struct Stopwatch {
    /// The number of files of the job.
    files: usize,
    /// The time of a command that opens the next transfer, which may turn out to be a listing.
    perhaps: Option<Instant>,
    begun: Option<Instant>,
    /// The number of completed files that the client reported, or of replies 226 since the start.
    whole: usize,
    complete: usize,
    ended: Option<Instant>,
    last: Option<Instant>,
}

impl Stopwatch {
    /// Creates one for a job of this many files.
    pub fn new(files: usize) -> Self {
        Self { files, ..Self::default() }
    }

    /// Processes a line.
    pub fn on_line(&mut self, at: Instant, line: &str) {
        self.last = self.last.max(Some(at));
        if line.starts_with("{\"event\":\"file\"") {
            self.whole += 1;
            self.end_if(self.whole, at);
        }
        if let Some(command) = line.strip_prefix("---> ").or_else(|| line.strip_prefix("> ")) {
            self.on_command(at, command.split(' ').next().unwrap_or_default());
        }
        if line.starts_with("<--- 226") && self.begun.is_some() {
            self.complete += 1;
            self.end_if(self.complete, at);
        }
    }

    fn on_command(&mut self, at: Instant, verb: &str) {
        if self.begun.is_some() {
            return;
        }
        match verb {
            "EPRT" | "PORT" | "SIZE" => drop(self.perhaps.get_or_insert(at)),
            "RETR" => self.begun = Some(self.perhaps.unwrap_or(at)),
            // The transfer belongs to a listing, not to a file.
            "LIST" | "MLSD" | "NLST" => self.perhaps = None,
            _ => {}
        }
    }

    fn end_if(&mut self, files: usize, at: Instant) {
        if files == self.files {
            self.ended = Some(at);
        }
    }

    /// When the last file ended.
    pub fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// The time from the first command for a file to the end of the last file.
    pub fn time(&self) -> Option<Duration> {
        Some(self.ended?.saturating_duration_since(self.begun?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::FILES;

    /// The result for lines that arrive one second apart.
    fn time(lines: &[String]) -> Option<u64> {
        let start = Instant::now();
        let mut watch = Stopwatch::new(FILES);
        for (second, line) in lines.iter().enumerate() {
            watch.on_line(start + Duration::from_secs(second as u64), line);
        }
        watch.time().map(|time| time.as_secs())
    }

    fn lines(before: &[&str], each: &[&str], after: &[&str]) -> Vec<String> {
        let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        [own(before), vec![own(each); FILES].concat(), own(after)].concat()
    }

    #[test]
    fn naive_starts_with_the_port_of_the_first_file() {
        let before = ["> USER anonymous", "> EPRT |1|0|1|", "< 200", "> MLSD", "< 150", "< 226 listed"];
        let file = ["> EPRT |1|0|2|", "> RETR f", "< 226", r#"{"event":"file","path":"f"}"#];
        let after = ["> QUIT", "< 221", r#"{"event":"summary"}"#];
        assert_eq!(time(&lines(&before, &file, &after)), Some(4 * FILES as u64 - 1));
    }

    #[test]
    fn ms_starts_with_the_size_of_the_first_file_and_braid_with_its_request() {
        let file = r#"{"event":"file","path":"f"}"#;
        assert_eq!(
            time(&lines(&["> MLSD", "< 226"], &["> SIZE f", "> RETR f", file], &[])),
            Some(3 * FILES as u64 - 1)
        );
        assert_eq!(time(&lines(&["> MLSD"], &["> RETR f", "< 226", file], &[])), Some(3 * FILES as u64 - 1));
    }

    #[test]
    fn lftp_ends_with_the_last_reply() {
        let file = ["---> PORT 1", "<--- 200", "---> RETR f", "<--- 150", "<--- 226 done"];
        assert_eq!(time(&lines(&["---> TYPE I"], &file, &["---> QUIT"])), Some(5 * FILES as u64 - 1));
    }

    #[test]
    fn an_incomplete_job_has_no_time() {
        let mut all = lines(&[], &["> RETR f", r#"{"event":"file"}"#], &[]);
        all.pop();
        assert_eq!(time(&all), None);
        assert_eq!(time(&[]), None);
        assert_eq!(time(&lines(&[], &[r#"{"event":"file"}"#], &[])), None, "no file was requested");
    }
}
