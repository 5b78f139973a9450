//! A shell that runs the commands of a page one after the other, with programs in the background.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::page::{Step, missing};

/// The time limit of a command, which detects one that hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Precedes the exit code of each command.
const MARK: &str = "~~~ the command has ended with";

/// Runs commands from standard input, each terminated by a zero byte; `$?` is the exit code of the previous
/// command.
const LOOP: &str = r#"
exec 3<&0 </dev/null
status=0
while IFS= read -r -d '' -u 3 command; do
    (exit "$status")
    eval "$command" 3<&-
    status=$?
    printf '\n%s %d\n' "$MARK" "$status"
done
"#;

/// A shell.
pub(super) struct Session {
    shell: Child,
    commands: ChildStdin,
    printed: Arc<(Mutex<Printed>, Condvar)>,
}

/// The output of all programs of a session.
#[derive(Default)]
struct Printed {
    text: String,
    ended: bool,
}

impl Session {
    /// Starts a shell, which runs `setup` first.
    pub(super) fn start(mut shell: Command, setup: &str) -> Result<Self> {
        shell.args(["-c", &format!("exec 2>&1\n{setup}\n{LOOP}")]).env("MARK", MARK);
        let mut shell =
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run a shell")?;
        let commands = shell.stdin.take().context("the shell has an input")?;
        let mut output = shell.stdout.take().context("the shell has an output")?;
        let printed = Arc::new((Mutex::new(Printed::default()), Condvar::new()));
        let shared = Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let read = output.read(&mut bytes).unwrap_or(0);
                let mut printed = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
                printed.text.push_str(&String::from_utf8_lossy(&bytes[..read]));
                printed.ended |= read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Ok(Self { shell, commands, printed })
    }

    /// Runs a command. If the command stays in the background, waits for the output that the page shows.
    ///
    /// # Errors
    ///
    /// The command fails, hangs, or prints something else.
    pub(super) fn run(&mut self, step: &Step) -> Result<()> {
        eprintln!("$ {}", step.command.trim_end());
        let start = self.printed.0.lock().unwrap_or_else(PoisonError::into_inner).text.len();
        self.commands.write_all(step.command.as_bytes())?;
        self.commands.write_all(b"\0").context("the shell has ended")?;
        let (_, output) = self.wait(start, |output| end(output).map(|_| ()));
        let Some((before, code)) = end(&output) else {
            bail!("`{}` did not end\n{}", step.command, last_lines(&output));
        };
        if step.succeeds && code != "0" {
            bail!("`{}` ended with exit code {code}\n{}", step.command, last_lines(before));
        }
        let in_background = step.command.trim_end().ends_with('&');
        let (found, output) = match in_background {
            true => self.wait(start, |output| missing(&step.output, output).is_none().then_some(())),
            false => (missing(&step.output, before).is_none(), before.to_owned()),
        };
        if !found {
            let line = missing(&step.output, &output).unwrap_or_default();
            bail!("`{}` does not print `{line}`; its output:\n{}", step.command, last_lines(&output));
        }
        Ok(())
    }

    /// Waits until the output from `start` on is as wanted; returns whether it is, and the output.
    fn wait(&self, start: usize, wanted: impl Fn(&str) -> Option<()>) -> (bool, String) {
        let until = Instant::now() + PATIENCE;
        let (printed, changed) = &*self.printed;
        let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let found = wanted(&printed.text[start..]).is_some();
            let left = until.saturating_duration_since(Instant::now());
            if found || printed.ended || left.is_zero() {
                return (found, printed.text[start..].to_owned());
            }
            printed = changed.wait_timeout(printed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The end of an output, for a message.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// The output of a command and its exit code.
fn end(output: &str) -> Option<(&str, &str)> {
    let (before, after) = output.split_once(&format!("\n{MARK} "))?;
    Some((before, after.split_once('\n')?.0))
}

impl Drop for Session {
    fn drop(&mut self) {
        // `unshare` kills all processes of its namespaces when it ends.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(command: &str, output: &[&str], succeeds: bool) -> Step {
        let output = output.iter().map(ToString::to_string).collect();
        Step { line: 1, command: command.into(), output, succeeds }
    }

    #[test]
    fn a_shell_keeps_its_state_and_missing_output_is_reported() {
        let mut session = Session::start(Command::new("bash"), "cd /").unwrap();
        session.run(&step("pwd; name=x", &["/"], true)).unwrap();
        session.run(&step("(exit 7)", &[], false)).unwrap();
        session.run(&step("echo $? $name; cat", &["7 x"], true)).unwrap();
        session.run(&step("{ echo first; sleep 0.1; echo late >&2; cat; } &", &["late"], true)).unwrap();
        let failed = session.run(&step("echo one", &["two"], true)).unwrap_err().to_string();
        assert!(failed.contains("does not print `two`") && failed.ends_with("one"), "{failed}");
        let failed = session.run(&step("false", &[], true)).unwrap_err().to_string();
        assert!(failed.contains("exit code 1"), "{failed}");
        let failed = session.run(&step("exit", &[], true)).unwrap_err().to_string();
        assert!(failed.contains("did not end"), "{failed}");
    }
}
