//! `mirror --plan` and `--apply`: converts the options of a mirror into a plan and back.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::args::{Cli, Command, Common, Mirror};
use crate::exit::{Error, Result};
use crate::job::{Applying, Header, Plan, Writing};
use crate::url::Url;

/// The plan that a mirror with these options writes, if any.
///
/// # Errors
///
/// The URL is invalid, or there is no current folder.
pub(super) fn write(args: &Mirror) -> Result<Plan> {
    let Some(file) = &args.plan else { return Ok(Plan::None) };
    if args.places.len() > 2 {
        return Err(Error::usage("use --plan with several sources", "a plan is of one")
            .hint("make a plan for each source"));
    }
    let (source, destination) = args.ends();
    let (remote, local) = if args.reverse { (destination, source) } else { (source, destination) };
    let header = Header {
        is_up: args.reverse,
        url: without_password(remote)?,
        folder: absolute(Path::new(local))?,
        options: args.choices()?,
    };
    Ok(Plan::Write(Writing::new(file.clone(), header)))
}

/// The mirror and the steps of a plan.
///
/// # Errors
///
/// The plan cannot be read or is invalid.
pub(super) fn apply(file: &Path, common: &Common) -> Result<(Mirror, Applying)> {
    let (header, applying) = Applying::load(file)?;
    let wrong = |why: &str| {
        Error::usage(format_args!("use the options in {}", file.display()), why)
            .hint("leave `options` as --plan wrote them")
    };
    let folder = header.folder.to_str().ok_or_else(|| wrong("the folder is not UTF-8"))?;
    let ends = match header.is_up {
        true => vec!["-R", folder, &header.url],
        false => vec![&header.url[..], folder],
    };
    let options = header.options.iter().map(String::as_str);
    let words = ["braidftp", "mirror"].into_iter().chain(options).chain(["--"]);
    // The direction precedes `--`.
    let words: Vec<&str> = match header.is_up {
        true => ["braidftp", "mirror", "-R"]
            .into_iter()
            .chain(words.skip(2))
            .chain(ends.into_iter().skip(1))
            .collect(),
        false => words.chain(ends).collect(),
    };
    let cli = Cli::try_parse_from(words).map_err(|error| wrong(error.to_string().trim_end()))?;
    let Command::Mirror(mirror) = cli.command else { return Err(wrong("they are not those of a mirror")) };
    Ok((Mirror { common: common.clone(), plan: None, apply: None, dry_run: false, ..mirror }, applying))
}

/// A URL as written, without its password.
fn without_password(text: &str) -> Result<String> {
    let url: Url = text.parse()?;
    let (Some(_), Some((scheme, rest))) = (&url.password, text.split_once("://")) else {
        return Ok(text.to_owned());
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user = login.split(':').next().unwrap_or_default();
    Ok(format!("{scheme}://{user}@{place}{path}"))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::local("find the current folder", &error))
}

impl Mirror {
    /// Source and destination.
    pub(super) fn ends(&self) -> (&str, &str) {
        match self.places.as_slice() {
            [source, destination] => (source, destination),
            _ => ("", ""),
        }
    }

    /// The options that select the paths of the mirror.
    fn choices(&self) -> Result<Vec<String>> {
        let flags = [
            ("--delete", self.delete),
            ("--newer", self.newer),
            ("--size-only", self.size_only),
            ("--checksum", self.checksum),
            ("--hard-links", self.hard_links),
            ("--no-permissions", self.no_permissions),
            ("--no-links", self.no_links),
            ("--no-holes", self.no_holes),
        ];
        let mut options: Vec<String> =
            flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()).collect();
        options.extend(self.selection.include.iter().map(|glob| format!("--include={glob}")));
        options.extend(self.selection.exclude.iter().map(|glob| format!("--exclude={glob}")));
        options.extend(self.selection.filter.iter().map(|rule| format!("--filter={rule}")));
        for file in &self.selection.exclude_from {
            options.push(format!("--exclude-from={}", absolute(file)?.display()));
        }
        if let Some(file) = &self.selection.files_from {
            options.push(format!("--files-from={}", absolute(file)?.display()));
        }
        options.extend(self.max_delete.map(|most| format!("--max-delete={most}")));
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_contains_no_password() {
        for (url, kept) in [
            ("ftp://anna:secret@h/a@b", "ftp://anna@h/a@b"),
            ("ftp://anna:se@cret@h/", "ftp://anna@h/"),
            ("ftp://anna@h/", "ftp://anna@h/"),
            ("ftp+sctp://h/?addr=192.0.2.1", "ftp+sctp://h/?addr=192.0.2.1"),
        ] {
            assert_eq!(without_password(url).unwrap(), kept);
        }
    }
}
