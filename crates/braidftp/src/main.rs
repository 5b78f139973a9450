//! The program `braidftp`, implemented by the library: [`braidftp::cli`].

fn main() -> std::process::ExitCode {
    braidftp::cli::run()
}
