//! The command `braidftp`. What it does is in the library: [`braidftp::cli`].

fn main() -> std::process::ExitCode {
    braidftp::cli::run()
}
