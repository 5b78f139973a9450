//! `braidlab profiles`: prints the named parameter sets with the source of each value, and the congestion
//! controllers with their options.

use std::fmt::Write;

use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_tcp as tcp;
use clap::Args as ClapArgs;

use super::print;
use crate::Failure;

/// Print the SCTP and TCP profiles that figures use, and the congestion controllers
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only these, as in rfc9260, sctp/modern or cc/cubic
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// A profile to print.
struct Listed {
    name: String,
    /// Its values with their sources, one line each.
    values: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let profiles = all();
    let is_called = |profile: &Listed, name: &str| {
        profile.name == name || profile.name.split_once('/').is_some_and(|(_, short)| short == name)
    };
    for name in &args.names {
        if !profiles.iter().any(|profile| is_called(profile, name)) {
            let known: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
            return Err(Failure::Usage(format!(
                "no profile `{}`; there are {}",
                name.escape_debug(),
                known.join(", ")
            )));
        }
    }
    let mut text = String::new();
    for profile in &profiles {
        if args.names.is_empty() || args.names.iter().any(|name| is_called(profile, name)) {
            let _ = writeln!(text, "{}", profile.name);
            for value in &profile.values {
                let _ = writeln!(text, "  {value}");
            }
            text.push('\n');
        }
    }
    print(&text)
}

fn all() -> Vec<Listed> {
    let sctp = sctp::Profile::ALL.iter().map(|profile| Listed {
        name: format!("sctp/{profile}"),
        values: profile.rows().iter().map(|row| value(row.field, &row.value, row.source)).collect(),
    });
    let tcp = tcp::Profile::ALL.iter().map(|profile| Listed {
        name: format!("tcp/{profile}"),
        values: profile.rows().iter().map(|row| value(row.field, &row.value, row.source)).collect(),
    });
    let cc = cc::Kind::ALL.iter().map(|kind| {
        let params = kind.params().join(", ");
        let options = (!params.is_empty()).then(|| format!("options: {params}"));
        Listed {
            name: format!("cc/{kind}"),
            values: std::iter::once(kind.says().to_owned()).chain(options).collect(),
        }
    });
    sctp.chain(tcp).chain(cc).collect()
}

/// A value with its source.
fn value(field: &str, value: &str, source: &str) -> String {
    format!("{field:<38} {value:<24} {source}")
}
