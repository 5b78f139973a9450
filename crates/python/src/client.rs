//! The file client for Python: each call runs a job of the program `braidftp` on its own runtime.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use braidftp::cli::library_job;
use braidftp::client::{Client as Session, system_time};
use braidftp::exit::{self, Exit};
use braidftp::job::{self, Delete, Job, Mirror, MirrorDown, MirrorUp, Parents, Record, Recursion};
use braidftp::report::Summary;
use braidftp::url::Url;
use braidftp_ftp::store::{FileKind, Metadata};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::runtime::Runtime;

use crate::error::of_client;

/// Threads that run all clients of a process.
const WORKERS: usize = 2;
/// How often a call looks whether Ctrl-C was pressed.
const EVERY: Duration = Duration::from_millis(100);

static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()
});

/// Runs a task on the runtime and waits for it; an exception of a signal abandons it.
fn wait<T: Send + 'static>(py: Python<'_>, task: impl Future<Output = T> + Send + 'static) -> PyResult<T> {
    let runtime = RUNTIME.as_ref().map_err(|error| {
        pyo3::exceptions::PyOSError::new_err(format!("the runtime cannot be started: {error}"))
    })?;
    let mut running = runtime.spawn(task);
    loop {
        let ended =
            py.detach(|| runtime.block_on(async { tokio::time::timeout(EVERY, &mut running).await.ok() }));
        match ended {
            Some(Ok(done)) => return Ok(done),
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => {
                if let Err(error) = py.check_signals() {
                    running.abort();
                    return Err(error);
                }
            }
        }
    }
}

/// A server, and how to talk to it. Each call opens a session, as the program's commands do.
#[pyclass(frozen, module = "braidftp._braidftp")]
pub(crate) struct Client {
    url: Url,
    options: Vec<String>,
}

impl Client {
    /// The job on a path. A relative path is below that of the client's URL.
    fn job(&self, path: &str) -> PyResult<Job> {
        let url = self.url_of(path);
        library_job(url, &self.options).map_err(|error| of_client(&error, &[]))
    }

    fn url_of(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        if path.is_empty() {
            return url;
        }
        if path.starts_with('/') {
            url.path = path.as_bytes().to_vec();
            return url;
        }
        if !url.path.is_empty() && !url.path.ends_with(b"/") {
            url.path.push(b'/');
        }
        url.path.extend_from_slice(path.as_bytes());
        url
    }

    /// Runs attempts of a job to its end.
    fn run<F>(
        &self,
        py: Python<'_>,
        job: Job,
        command: &'static str,
        attempt: impl Fn(Session, Job) -> F + Send + Sync + 'static,
    ) -> PyResult<Summary>
    where
        F: Future<Output = exit::Result<()>> + Send,
    {
        let job = Job { record: Record::default(), ..job };
        let reporter = job.reporter.clone();
        let (summary, result) =
            wait(py, async move { job.run(command, |session| attempt(session, job.clone())).await })?;
        let details = match &result {
            Err(error) if error.exit == Exit::SomeFailed => reporter.errors(),
            _ => Vec::new(),
        };
        result.map(|()| summary).map_err(|error| of_client(&error, &details))
    }

    /// Queries a session; returns the answer of the first successful attempt.
    fn ask<T, F>(
        &self,
        py: Python<'_>,
        path: &str,
        ask: impl Fn(Session, Vec<u8>) -> F + Send + Sync + 'static,
    ) -> PyResult<T>
    where
        T: Send + 'static,
        F: Future<Output = exit::Result<T>> + Send,
    {
        let job = self.job(path)?;
        let answer: Arc<Mutex<Option<T>>> = Arc::default();
        let (told, path) = (answer.clone(), job.url.path.clone());
        let ask = Arc::new(ask);
        self.run(py, job, "ls", move |session, _| {
            let (told, path, ask) = (told.clone(), path.clone(), ask.clone());
            async move {
                let answer = ask(session, path).await?;
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                Ok(())
            }
        })?;
        let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the server answered nothing"))
    }
}

#[pymethods]
impl Client {
    /// `options` are those of the program's commands, as in `--accept-new`.
    #[new]
    fn new(url: &str, options: Vec<String>) -> PyResult<Self> {
        let url: Url = url.parse().map_err(|error: exit::Error| of_client(&error, &[]))?;
        let client = Self { url, options };
        // Report invalid options now.
        client.job("")?;
        Ok(client)
    }

    /// The server.
    #[getter]
    fn url(&self) -> String {
        self.url.to_string()
    }

    /// Fetches files into a folder.
    fn get<'py>(&self, py: Python<'py>, paths: Vec<String>, to: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let urls: Vec<Url> = paths.iter().map(|path| self.url_of(path)).collect();
        let job = self.job("")?;
        let summary =
            self.run(py, job, "get", move |session, job| job::get(session, job, urls.clone(), to.clone()))?;
        of_summary(py, &summary)
    }

    /// Sends files to a folder, or one file to a name.
    fn put<'py>(&self, py: Python<'py>, files: Vec<PathBuf>, to: &str) -> PyResult<Bound<'py, PyDict>> {
        let job = self.job(to)?;
        let summary = self.run(py, job, "put", move |session, job| job::put(session, job, files.clone()))?;
        of_summary(py, &summary)
    }

    /// Makes a local folder as the remote one is, or the remote one as the local is (`up`).
    fn mirror<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        local: PathBuf,
        up: bool,
        delete: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let job = self.job(path)?;
        let delete = if delete { Delete::Yes } else { Delete::No };
        let mirror = Mirror::all(delete).map_err(|error| of_client(&error, &[]))?;
        let summary = match up {
            true => {
                let up = MirrorUp { mirror, from: local };
                self.run(py, job, "mirror", move |session, job| job::mirror_up(session, job, up.clone()))
            }
            false => {
                let down = MirrorDown { mirror, to: local };
                self.run(py, job, "mirror", move |session, job| job::mirror_down(session, job, down.clone()))
            }
        }?;
        of_summary(py, &summary)
    }

    /// The entries of a folder, by name.
    fn ls<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let entries = self.ask(py, path, async |session, path| job::entries(&session, &path).await)?;
        entries.iter().map(|(name, metadata)| of_metadata(py, name, metadata)).collect()
    }

    /// What a path is.
    fn stat<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyDict>> {
        let metadata = self.ask(py, path, async |session, path| job::stat(&session, &path).await)?;
        let name = self.url_of(path).file_name().to_vec();
        of_metadata(py, &name, &metadata)
    }

    /// Makes a folder, and those above it if `parents`.
    fn mkdir(&self, py: Python<'_>, path: &str, parents: bool) -> PyResult<()> {
        let (job, urls) = (self.job(path)?, vec![self.url_of(path)]);
        let parents = if parents { Parents::Make } else { Parents::No };
        self.run(py, job, "mkdir", move |session, job| {
            job::make_folders(session, job, urls.clone(), parents)
        })?;
        Ok(())
    }

    /// Deletes a file, or a folder with all that is in it if `recursive`.
    fn rm(&self, py: Python<'_>, path: &str, recursive: bool) -> PyResult<()> {
        let (job, urls) = (self.job(path)?, vec![self.url_of(path)]);
        let recursion = if recursive { Recursion::Yes } else { Recursion::No };
        self.run(py, job, "rm", move |session, job| job::remove(session, job, urls.clone(), recursion))?;
        Ok(())
    }

    /// Deletes a folder that is empty.
    fn rmdir(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let (job, urls) = (self.job(path)?, vec![self.url_of(path)]);
        let only = Recursion::EmptyFolder;
        self.run(py, job, "rmdir", move |session, job| job::remove(session, job, urls.clone(), only))?;
        Ok(())
    }

    /// Renames a file or a folder.
    fn mv(&self, py: Python<'_>, path: &str, to: &str) -> PyResult<()> {
        let (job, to) = (self.job(path)?, self.url_of(to).path);
        self.run(py, job, "mv", move |session, job| job::rename(session, job, to.clone()))?;
        Ok(())
    }

    /// Opens a file to be read.
    fn open(&self, py: Python<'_>, path: &str) -> PyResult<Reader> {
        if path.is_empty() && self.url.path.is_empty() {
            return Err(PyValueError::new_err("the path names no file"));
        }
        let job = self.job(path)?;
        let opened = wait(py, job::Reader::open(job))?;
        let reader = opened.map_err(|error| of_client(&error, &[]))?;
        let metadata = reader.metadata().clone();
        let reader = Arc::new(tokio::sync::Mutex::new(Some(reader)));
        Ok(Reader { reader, metadata })
    }
}

/// A remote file that is read piece by piece.
#[pyclass(frozen, module = "braidftp._braidftp")]
pub(crate) struct Reader {
    reader: Arc<tokio::sync::Mutex<Option<job::Reader>>>,
    metadata: Metadata,
}

#[pymethods]
impl Reader {
    /// Its size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.metadata.size
    }

    /// Reads bytes from an offset on; fewer at the end of the file.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let reader = self.reader.clone();
        let read = wait(py, async move {
            let mut reader = reader.lock().await;
            match &mut *reader {
                Some(reader) => Some(reader.read(offset, length).await),
                None => None,
            }
        })?;
        let read = read.ok_or_else(|| PyValueError::new_err("read from a closed file"))?;
        Ok(PyBytes::new(py, &read.map_err(|error| of_client(&error, &[]))?))
    }

    /// Ends its session.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reader = self.reader.clone();
        wait(py, async move {
            if let Some(mut reader) = reader.lock().await.take() {
                reader.close().await;
            }
        })
    }
}

fn of_summary<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("mode", &summary.mode)?;
    told.set_item("files", summary.files)?;
    told.set_item("failed", summary.failed)?;
    told.set_item("bytes", summary.bytes)?;
    told.set_item("seconds", summary.seconds.as_secs_f64())?;
    Ok(told)
}

fn of_metadata<'py>(py: Python<'py>, name: &[u8], metadata: &Metadata) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("name", text(py, name)?)?;
    told.set_item(
        "type",
        match metadata.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "link",
            FileKind::Other => "other",
        },
    )?;
    told.set_item("size", metadata.size)?;
    let modified = metadata.modified.map(system_time);
    let since = modified.map(|time| match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    });
    told.set_item("modified", since)?;
    told.set_item("unix_mode", metadata.unix_mode)?;
    let target = metadata.target.as_ref().map(|target| text(py, target)).transpose()?;
    told.set_item("target", target)?;
    Ok(told)
}

/// A name of the server, as Python has names of files: bytes that are no UTF-8 become surrogates.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    py.import("os")?.getattr("fsdecode")?.call1((PyBytes::new(py, bytes),))
}
