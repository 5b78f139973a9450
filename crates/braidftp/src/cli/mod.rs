//! The command line: its definition, and the dispatch of commands.
//!
//! `--help` lists only commands that are built.

mod args;
mod dashboard;
mod doctor;
mod pages;
mod plan;
mod protection;
mod settings;
mod shell;
mod topics;

use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

pub use args::{Cli, Command, Common};
use dashboard::Page;
pub use protection::Protection;

use crate::client::{
    Client, Limiter, Login, Options, PARALLEL, Parallel, PathControl, PathRule, Refusal, Trace, check_mode,
    default_mode, parse_name, say, timestamp,
};
use crate::exit::{Error, Exit, Result, Told};
use crate::identity::{ClientIdentity, Files, ServerIdentity};
use crate::job::{
    self, Caller, Compare, Delete, Filter, Find, Form, Job, Journal, Keep, Mirror, MirrorDown, MirrorUp,
    Parents, Parts, Plan, Reading, Record, Recursion, Shown, Verify,
};
use crate::progress::{Reporter, Style};
use crate::stderr;
use crate::store::fs::Holes;
use crate::url::Url;
use braidftp_ftp::store::FileKind;

/// The maximum number of threads for the tasks of a client.
const WORKERS_MAX: usize = 4;

/// Runs the program; returns its exit code.
pub fn run() -> ExitCode {
    match parse(std::env::args_os().collect()) {
        Ok(Parsed::Command(cli)) => end(execute(*cli)),
        Ok(Parsed::Settings(lines)) => end(pages::lines(&lines).map(|()| ExitCode::SUCCESS)),
        Ok(Parsed::Told(exit)) => exit.into(),
        Err(error) => end(Err(error)),
    }
}

/// The result of parsing the command line.
enum Parsed {
    Command(Box<Cli>),
    /// The command `config`.
    Settings(Vec<String>),
    /// Help was printed, or an error in the command line was reported.
    Told(Exit),
}

fn parse(words: Vec<std::ffi::OsString>) -> Result<Parsed> {
    let told = |error: clap::Error| {
        // clap's exit code for a usage error is 2, which has another meaning here.
        let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        let _ = error.print();
        Parsed::Told(exit)
    };
    // A server has its own settings, and errors in those of clients do not concern it.
    if words.get(1).is_some_and(|word| {
        matches!(word.to_str(), Some("serve" | "ctl" | "help" | "completions" | "man" | "demo" | "shell"))
    }) {
        return Ok(Cli::try_parse_from(words).map_or_else(told, |cli| Parsed::Command(Box::new(cli))));
    }
    let mut settings = settings::Settings::load()?;
    // The shell calls this for each line.
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| {
        for warning in settings::Settings::unknown_variables() {
            stderr::line(format_args!("braidftp: warning: {warning}"));
        }
    });
    let words = settings.resolve(words)?;
    Ok(match settings.parse(words) {
        Err(error) => told(error),
        Ok(cli) => match &cli.command {
            Command::Config(config) if config.what == "path" => {
                let file = settings::Settings::file().unwrap_or_default();
                Parsed::Settings(vec![file.display().to_string()])
            }
            Command::Config(config) => Parsed::Settings(settings.show(config.origin)),
            _ => Parsed::Command(Box::new(cli)),
        },
    })
}

fn end(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(exit) => exit,
        Err(error) => {
            if error.told == Told::No {
                stderr::line(format_args!("braidftp: {error}"));
            }
            error.exit.into()
        }
    }
}

fn execute(cli: Cli) -> Result<ExitCode> {
    if let Command::Serve(args) = cli.command {
        // Before any thread is started: the server confines its process.
        return Ok(serve(args));
    }
    match &cli.command {
        Command::RunHooks => {
            return crate::server::hooks::runner::run()
                .map(|()| ExitCode::SUCCESS)
                .map_err(|why| Error::usage("run hooks", why));
        }
        Command::Ctl(args) => return crate::server::ctl::command::run(args).map(|()| ExitCode::SUCCESS),
        Command::Help(args) => return pages::help(args.topic.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => return pages::completions(args.shell).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => return pages::man(&args.folder).map(|()| ExitCode::SUCCESS),
        _ => {}
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // Each small file that passes between two threads costs at least one wake-up; half of the cores are
        // left for the disk and for other programs.
        .worker_threads((cores / 2).clamp(1, WORKERS_MAX))
        .enable_all()
        .build()
        .map_err(|error| Error::local("start the runtime", &error))?;
    if let Command::Demo(args) = cli.command {
        return crate::demo::run(&args, &runtime).map(|()| ExitCode::SUCCESS);
    }
    // On a worker and not on this thread, which would have to be woken at each step.
    let work = runtime.spawn(async {
        match cli.command {
            Command::Shell(args) => shell(args).await,
            command => dispatch(command).await,
        }
    });
    let result = match runtime.block_on(work) {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    // A thread that waits for a disk must not delay the end of the program.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs a command of a client.
async fn dispatch(command: Command) -> Result<()> {
    match command {
        Command::Serve(_)
        | Command::Ctl(_)
        | Command::RunHooks
        | Command::Shell(_)
        | Command::Config(_)
        | Command::Demo(_)
        | Command::Help(_)
        | Command::Completions(_)
        | Command::Man(_) => unreachable!("returned above"),
        Command::Du(args) => du(args).await,
        Command::Find(args) => find(args).await,
        Command::Tree(args) => read(args.urls, args.common, "tree", Reading::Draw).await,
        Command::Get(args) => get(args).await,
        Command::Put(args) => put(args).await,
        Command::Mirror(args) => mirror(args).await,
        Command::Verify(args) => verify(args).await,
        Command::Ls(args) => ls(args).await,
        Command::Cat(args) => cat(args).await,
        Command::Rm(args) => rm(args).await,
        Command::Mkdir(args) => mkdir(args).await,
        Command::Mv(args) => mv(args).await,
        Command::Doctor(args) => {
            let common = quieter(args.common);
            doctor::run(args.url, |url| job(url, &common)).await
        }
        Command::Path(args) => path(args).await,
        Command::Limit(args) => limit(args).await,
        Command::Key(args) => key(&args),
    }
}

async fn shell(args: args::ShellCommand) -> Result<()> {
    let run: shell::Run = Arc::new(|words| {
        Box::pin(async move {
            let words = ["braidftp".to_owned()].into_iter().chain(words).map(Into::into).collect();
            match parse(words)? {
                Parsed::Told(Exit::Ok) => Ok(()),
                Parsed::Told(exit) => Err(Error {
                    told: Told::Yes,
                    ..Error::new(exit, "run the command", "it is not understood")
                }),
                Parsed::Settings(lines) => pages::lines(&lines),
                Parsed::Command(cli) => match cli.command {
                    Command::Shell(_)
                    | Command::Serve(_)
                    | Command::Ctl(_)
                    | Command::RunHooks
                    | Command::Demo(_)
                    | Command::Help(_)
                    | Command::Completions(_)
                    | Command::Man(_) => Err(Error::usage("run the command", "it is not for the shell")),
                    command => Box::pin(dispatch(command)).await,
                },
            }
        })
    });
    let names: shell::Remote = Arc::new(|url| {
        Box::pin(async move {
            let url: Url = url.parse()?;
            let words = ["braidftp", "ls", "-q", "ftp://h/"].map(std::ffi::OsString::from);
            let common = match Cli::try_parse_from(words).map(|cli| cli.command) {
                Ok(Command::Ls(ls)) => ls.common,
                _ => return Ok(Vec::new()),
            };
            let job = job(url, &common)?;
            let client = Client::connect(&job.url, job.login.clone(), job.options.clone()).await?;
            let names = job::names(&client, &job.url.path).await;
            client.close().await;
            names
        })
    });
    let resolve = Box::new(|url: &str| {
        let words = vec!["braidftp".into(), "ls".into(), url.into()];
        let words = settings::Settings::load()?.resolve(words)?;
        Ok(words.into_iter().nth(2).and_then(|url| url.into_string().ok()).unwrap_or_default())
    });
    shell::run(shell::Program { run, names, resolve }, args.url, args.script).await
}

/// Serves until stopped. Errors are reported unchanged: each one already suggests a remedy.
fn serve(args: crate::server::command::Args) -> ExitCode {
    match crate::server::command::serve_command(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            stderr::line(format_args!("braidftp: {error}"));
            error.exit_code().into()
        }
    }
}

/// The job on the server of `url` with these options.
fn job(url: Url, common: &Common) -> Result<Job> {
    let mode = common.mode.unwrap_or(default_mode(url.scheme));
    check_mode(mode, url.scheme)?;
    let options = Options {
        mode,
        cc: common.cc.as_deref().map(|name| parse_name("--cc", name)).transpose()?,
        profile: common.profile.as_deref().map(|name| parse_name("--profile", name)).transpose()?,
        pcap: common.pcap.clone(),
        packet_log: common.packet_log.clone(),
        qlog: common.qlog.clone(),
        limiter: (common.limit.is_some() || common.control.is_some())
            .then(|| Arc::new(Limiter::new(common.limit))),
        timeout: common.timeout.0,
        refusal: Refusal::Ends,
        bounds: common.bounds(),
        paths: common.paths.clone(),
        multipath: common.multipath,
        control: PathControl::default(),
        trace: if common.verbose > 1 { Trace::Lines } else { Trace::No },
        protection: common.protection.of_client()?,
        parallel: Parallel::new(common.parallel.map_or(PARALLEL, usize::from)),
        reporter: None,
    };
    if !mode.is_sctp() {
        for (given, option) in [
            (common.cc.is_some(), "--cc"),
            (common.profile.is_some(), "--profile"),
            (common.pcap.is_some(), "--pcap"),
            (common.packet_log.is_some(), "--packet-log"),
            (common.qlog.is_some(), "--qlog"),
            (common.multipath.is_some(), "--multipath"),
        ] {
            if given {
                return Err(Error::usage(format_args!("use {option} with an ftp:// URL"), "it is for SCTP")
                    .hint("the system's TCP has its own; write ftp+sctp://HOST/"));
            }
        }
    }
    if mode.is_sctp() && common.parallel.is_some() {
        return Err(Error::usage("use --parallel with SCTP", "one association moves many files at once")
            .hint("--mode braid does so by itself"));
    }
    no_path_twice(&common.paths)?;
    if let Some(socket) = &common.control {
        if let Some(limiter) = &options.limiter {
            options.control.steer(limiter.clone());
        }
        options.control.listen(socket)?;
    }
    let style = match (common.json, common.quiet) {
        (true, _) => Style::Json,
        (false, true) => Style::Quiet,
        (false, false) => Style::Human { verbose: common.verbose > 0 },
    };
    let reporter = Reporter::new(style, mode);
    let (login, warning) = Login::find(&url)?;
    if let Some(warning) = warning {
        reporter.warn(warning);
    }
    Ok(Job {
        url,
        login,
        options,
        retries: common.retries,
        retry_for: common.retry_for.map(|limit| limit.0),
        reporter,
        record: Record::default(),
        caller: Caller::Command,
    })
}

/// The job of a program that uses this library, on the server of `url`; `options` are those of a command, as
/// in `--accept-new`. The job prints nothing, handles no signals, and asks nobody. The user's settings are
/// not used.
///
/// # Errors
///
/// A usage error: an unknown option or an invalid value.
pub fn library_job(url: Url, options: &[String]) -> Result<Job> {
    let words = ["braidftp", "ls"].into_iter().map(str::to_owned).chain(options.iter().cloned());
    let words = words.chain(["--".to_owned(), "ftp://host/".to_owned()]);
    let wrong = |error: clap::Error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or("").trim_start_matches("error: ").to_owned();
        Error::usage(format_args!("use {}", options.join(" ")), line)
    };
    let cli = Cli::try_parse_from(words).map_err(wrong)?;
    let Command::Ls(args) = cli.command else {
        return Err(Error::usage("use the options", "they are those of another command"));
    };
    let job = job(url, &args.common)?;
    let reporter = Reporter::new(Style::Nothing, job.options.mode);
    Ok(Job { reporter, caller: Caller::Library, ..job })
}

/// Checks that no path is given twice: a repetition is probably a mistake for another path.
fn no_path_twice(paths: &[PathRule]) -> Result<()> {
    let twice = paths.iter().enumerate().find(|(index, path)| paths[..*index].contains(path));
    match twice {
        Some((_, path)) => Err(Error::usage(format_args!("use --path {path}"), "it is given twice")
            .hint("name each path once, as in --path 10.1.1.2 --path 10.1.2.2")),
        None => Ok(()),
    }
}

fn key(args: &args::KeyCommand) -> Result<()> {
    if let Some(file) = &args.server {
        let files = file.as_ref().map_or_else(Files::usual, |file| Ok(Files::one(file)))?;
        let identity = match args.what.as_str() {
            "new" => ServerIdentity::make(files)?,
            _ => ServerIdentity::load(files)?,
        };
        println!("{}", identity.fingerprint());
        return Ok(());
    }
    let files = ClientIdentity::usual()?;
    let identity = match args.what.as_str() {
        "new" => ClientIdentity::make(&files)?,
        _ => ClientIdentity::load(&files)?.ok_or_else(|| {
            Error::new(Exit::Local, format_args!("show the key {}", files.key.display()), "there is none")
                .hint("braidftp key new makes one")
        })?,
    };
    println!("{}", identity.fingerprint());
    Ok(())
}

async fn path(args: args::PathCommand) -> Result<()> {
    let number = args.number.map(|number| number.to_string()).unwrap_or_default();
    let answer = say(&args.socket, &format!("path {} {number}", args.what)).await?;
    println!("{answer}");
    Ok(())
}

async fn limit(args: args::LimitCommand) -> Result<()> {
    let answer = say(&args.socket, &format!("limit {}", args.rate.unwrap_or_default())).await?;
    println!("{answer}");
    Ok(())
}

/// Runs attempts of `attempt` until one succeeds.
async fn run_job<F>(job: Job, command: &'static str, attempt: impl Fn(Client, Job) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let (_, result) = job.run(command, |client| attempt(client, job.clone())).await;
    result
}

/// Groups URLs by server: one session serves all URLs of a group.
fn by_server(urls: Vec<Url>) -> Vec<Vec<Url>> {
    let mut groups: Vec<Vec<Url>> = Vec::new();
    for url in urls {
        match groups.iter_mut().find(|group| group[0].same_server(&url)) {
            Some(group) => group.push(url),
            None => groups.push(vec![url]),
        }
    }
    groups
}

/// Runs a job for each server; returns the worst result.
async fn for_each_server<F>(
    urls: Vec<Url>,
    common: &Common,
    command: &'static str,
    attempt: impl Fn(Client, Job, Vec<Url>) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let mut result = Ok(());
    for urls in by_server(urls) {
        let job = job(urls[0].clone(), common)?;
        let done = run_job(job, command, |client, job| attempt(client, job, urls.clone())).await;
        match done {
            Err(error) if error.exit == Exit::Sigint => return Err(error),
            done => result = result.and(done),
        }
    }
    result
}

async fn get(args: args::Get) -> Result<()> {
    if args.output.as_os_str() == "-" {
        return get_to_output(args).await;
    }
    let output = args.output;
    let page = Page::open(&args.dashboard, "braidftp get", "download")?;
    for_each_server(args.urls, &args.common, "get", |client, job, urls| {
        page.show(&job);
        job::get(client, job, urls, output.clone())
    })
    .await
}

/// `get URL -o -`: writes one file to standard output.
async fn get_to_output(args: args::Get) -> Result<()> {
    let refused = |why: &str| Error::usage("write to standard output", why);
    let [url] = &args.urls[..] else {
        return Err(refused("it takes one file, and there are several")
            .hint("braidftp cat writes several, one after another; -o DIR puts them into a folder"));
    };
    if job::is_glob(url.file_name()) {
        return Err(refused("it takes one file, and a glob may match several")
            .hint("name the file; or -o DIR puts all into a folder"));
    }
    if url.file_name().is_empty() {
        return Err(
            refused("it takes one file, and the URL names a folder").hint("braidftp mirror fetches folders")
        );
    }
    if args.common.json {
        return Err(refused("--json would be mixed with the file")
            .hint("without --json, progress is printed to standard error"));
    }
    let page = Page::open(&args.dashboard, "braidftp get", "download")?;
    let job = job(url.clone(), &args.common)?;
    page.show(&job);
    run_job(job, "get", |client, job| job::cat(client, job, args.urls.clone())).await
}

async fn put(args: args::Put) -> Result<()> {
    if args.files.iter().any(|file| file.as_os_str() == "-") {
        return Err(Error::usage(
            "put -",
            "standard input cannot be sent: the size is announced first, and a lost connection resumes the file",
        )
        .hint("write it to a file first; a file of that name is ./-"));
    }
    let job = job(args.url, &args.common)?;
    let files = args.files;
    let page = Page::open(&args.dashboard, "braidftp put", "upload")?;
    page.show(&job);
    run_job(job, "put", |client, job| job::put(client, job, files.clone())).await
}

async fn mirror(args: args::Mirror) -> Result<()> {
    match &args.apply {
        Some(file) => {
            let (planned, applying) = plan::apply(file, &args.common)?;
            let dashboard = args.dashboard.clone();
            run_mirror(args::Mirror { dashboard, ..planned }, Plan::Apply(applying)).await
        }
        None => {
            let plan = plan::write(&args)?;
            run_mirror(args, plan).await
        }
    }
}

/// Mirrors trees one after another; returns the worst result.
async fn run_mirror(args: args::Mirror, plan: Plan) -> Result<()> {
    let direction = if args.reverse { "upload" } else { "download" };
    let page = Page::open(&args.dashboard, "braidftp mirror", direction)?;
    let mut result = Ok(());
    for (url, local) in mirrored(&args)? {
        match mirror_one(&args, plan.clone(), url, local, &page).await {
            Err(error) if error.exit == Exit::Sigint => return Err(error),
            done => result = result.and(done),
        }
    }
    result
}

/// The pairs of URL and local folder of a mirror.
fn mirrored(args: &args::Mirror) -> Result<Vec<(Url, PathBuf)>> {
    let Some((destination, sources)) = args.places.split_last() else { return Ok(Vec::new()) };
    if sources.is_empty() {
        return Err(Error::usage(
            format_args!("mirror {destination}"),
            "a source or a destination is missing",
        )
        .hint("down: braidftp mirror URL... DIR; up: braidftp mirror -R DIR... URL"));
    }
    let locals = if args.reverse { sources } else { std::slice::from_ref(destination) };
    if locals.iter().any(|local| local.contains("://")) {
        return Err(Error::usage(
            format_args!("mirror {}", args.places.join(" ")),
            "the local folder is where the URL should be",
        )
        .hint("down: braidftp mirror URL... DIR; up: braidftp mirror -R DIR... URL"));
    }
    let pair = |source: &String| -> Result<(Url, PathBuf)> {
        let (url, local) = if args.reverse { (destination, source) } else { (source, destination) };
        let (mut url, mut local): (Url, PathBuf) = (url.parse()?, local.into());
        if sources.len() > 1 {
            let nameless = || {
                Error::usage(format_args!("mirror {source} beside others"), "it has no name of its own")
                    .hint("with several sources, each goes to a folder of its name in the destination")
            };
            if args.reverse {
                let name = local.file_name().ok_or_else(nameless)?;
                if !url.path.is_empty() && !url.path.ends_with(b"/") {
                    url.path.push(b'/');
                }
                url.path.extend_from_slice(name.as_bytes());
            } else {
                let path = url.path.strip_suffix(b"/").unwrap_or(&url.path);
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
                    return Err(nameless());
                }
                local.push(std::ffi::OsStr::from_bytes(name));
            }
        }
        Ok((url, local))
    };
    let pairs: Vec<_> = sources.iter().map(pair).collect::<Result<_>>()?;
    for (at, (url, local)) in pairs.iter().enumerate() {
        let is_same = |(other, there): &(Url, PathBuf)| match args.reverse {
            true => other.path == url.path,
            false => there == local,
        };
        if pairs[..at].iter().any(is_same) {
            return Err(Error::usage(
                format_args!("mirror {}", args.places.join(" ")),
                "two sources have the same name, and one would be mixed with the other",
            )
            .hint("mirror them one by one, each to a folder of its own"));
        }
    }
    Ok(pairs)
}

async fn mirror_one(args: &args::Mirror, plan: Plan, url: Url, local: PathBuf, page: &Page) -> Result<()> {
    let mirror = Mirror {
        filter: filter(&args.selection)?,
        compare: Compare { times: !args.size_only, newer: args.newer, contents: args.checksum },
        max_delete: args.max_delete.unwrap_or(usize::MAX),
        delete: match (args.dry_run || args.plan.is_some(), args.delete) {
            (true, would) => Delete::DryRun { would },
            (false, true) => Delete::Yes,
            (false, false) => Delete::No,
        },
        keep: Keep {
            permissions: !args.no_permissions,
            links: !args.no_links,
            hard_links: args.hard_links,
            holes: if args.no_holes { Holes::Fill } else { Holes::Make },
        },
        plan,
    };
    let job = job(url, &args.common)?;
    page.show(&job);
    let journal = match args.journal {
        true => journal(args, &job, &local)?,
        false => None,
    };
    let done = if args.reverse {
        let up = MirrorUp { mirror, from: local };
        run_job(job, "mirror", |client, job| job::mirror_up(client, job, up.clone())).await
    } else {
        let down = MirrorDown { mirror, to: local };
        run_job(job, "mirror", |client, job| job::mirror_down(client, job, down.clone())).await
    };
    if let Some(journal) = journal
        && matches!(done.as_ref().map_or_else(|error| error.exit, |()| Exit::Ok), Exit::Ok | Exit::SomeFailed)
    {
        journal.remove();
    }
    done
}

/// The journal of a mirror, which its job uses from now on.
fn journal(args: &args::Mirror, job: &Job, local: &std::path::Path) -> Result<Option<Journal>> {
    let local =
        std::path::absolute(local).map_err(|error| Error::local("find the current folder", &error))?;
    let name = job::journal_name(args.reverse, &job.url, &local);
    // Deletions need a current listing.
    let journal = Journal::open(&name, !args.delete, &job.reporter)?;
    if let Some(journal) = &journal {
        job.record.keep(journal.clone());
    }
    Ok(journal)
}

/// The filter of the options.
fn filter(selection: &args::Selection) -> Result<Filter> {
    Filter::new(&selection.include, &selection.exclude)?
        .without(&selection.exclude_from)?
        .ruled(&selection.filter)?
        .only(selection.files_from.as_deref())
}

async fn verify(args: args::Verify) -> Result<()> {
    let form = if args.common.json { Form::Json } else { Form::Text };
    let filter = filter(&args.selection)?;
    let job = job(args.url, &quieter(args.common))?;
    let verify = Verify { to: args.folder, filter, hard_links: args.hard_links, form, found: Arc::default() };
    run_job(job, "verify", |client, job| job::verify(client, job, verify.clone())).await
}

async fn ls(args: args::Ls) -> Result<()> {
    let form = if args.common.json { Form::Json } else { Form::Text };
    let common = quieter(args.common);
    if args.parts {
        let parts = Parts::Show(Shown { form, long: args.long, sorted: false });
        return for_each_server(args.urls, &common, "ls", |client, job, urls| {
            job::parts(client, job, urls, parts)
        })
        .await;
    }
    let shown = Shown { form, long: args.long, sorted: !args.unsorted };
    if args.recursive {
        return read(args.urls, common, "ls", Reading::List(shown)).await;
    }
    for_each_server(args.urls, &common, "ls", |client, job, urls| job::ls(client, job, urls, shown)).await
}

async fn du(args: args::Du) -> Result<()> {
    let form = if args.common.json { Form::Json } else { Form::Text };
    read(args.urls, args.common, "du", Reading::Usage { whole: args.summarize, form }).await
}

async fn find(args: args::FindCommand) -> Result<()> {
    let kind = args.kind.as_deref().map(|kind| match kind {
        "d" => FileKind::Directory,
        "l" => FileKind::Symlink,
        _ => FileKind::File,
    });
    let now = timestamp(std::time::SystemTime::now()).seconds;
    let newer_than = args.days.map(|days| now - i64::from(days) * 86_400);
    let form = args.common.json.then_some(Form::Json);
    let find = Find { name: args.name, kind, larger: args.larger, newer_than, form };
    read(args.urls, args.common, "find", Reading::Find(find)).await
}

/// Reads trees without transferring files.
async fn read(urls: Vec<Url>, common: Common, command: &'static str, reading: Reading) -> Result<()> {
    for_each_server(urls, &quieter(common), command, |client, job, urls| {
        job::read_trees(client, job, urls, reading.clone())
    })
    .await
}

async fn cat(args: args::Paths) -> Result<()> {
    if args.common.json {
        return Err(Error::usage("use --json with cat", "standard output is for the files")
            .hint("braidftp get --json writes the files to a folder"));
    }
    let common = quieter(args.common);
    for_each_server(args.urls, &common, "cat", job::cat).await
}

async fn rm(args: args::Rm) -> Result<()> {
    let recursion = if args.recursive { Recursion::Yes } else { Recursion::No };
    let common = quieter(args.common);
    if args.parts {
        return for_each_server(args.urls, &common, "rm", |client, job, urls| {
            job::parts(client, job, urls, Parts::Remove)
        })
        .await;
    }
    for_each_server(args.urls, &common, "rm", |client, job, urls| job::remove(client, job, urls, recursion))
        .await
}

async fn mkdir(args: args::Mkdir) -> Result<()> {
    let parents = if args.parents { Parents::Make } else { Parents::No };
    let common = quieter(args.common);
    for_each_server(args.urls, &common, "mkdir", |client, job, urls| {
        job::make_folders(client, job, urls, parents)
    })
    .await
}

async fn mv(args: args::Mv) -> Result<()> {
    let to = match args.to.contains("://") {
        false => args.to.into_bytes(),
        true => {
            let to: Url = args.to.parse()?;
            if (to.scheme, &to.host, to.port) != (args.from.scheme, &args.from.host, args.from.port) {
                return Err(Error::usage(
                    format_args!("move {} to {to}", args.from),
                    "they are on two servers",
                )
                .hint("get the file from the one and put it to the other"));
            }
            to.path
        }
    };
    let job = job(args.from, &quieter(args.common))?;
    run_job(job, "mv", |client, job| job::rename(client, job, to.clone())).await
}

/// Commands that transfer no files print a summary on request only.
fn quieter(mut common: Common) -> Common {
    common.quiet = common.quiet || (!common.json && common.verbose == 0);
    common
}
