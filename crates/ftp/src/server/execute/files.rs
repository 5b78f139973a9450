//! Commands on files and folders as a whole: current folder, metadata, digests, changes (RFC 959 §4.1.3, RFC
//! 3659), and SITE.

use super::early::{Early, no};
use crate::command::{Command, PathArg, Site, Type};
use crate::hash::HashName;
use crate::path::SafePath;
use crate::reply::{Code, Reply};
use crate::server::answer::{Answer, DigestForm, quoted};
use crate::server::begun::{Begun, Touches};
use crate::server::session::Session;
use crate::server::{Change, Do, JobId, Query};

impl Session {
    /// Folders, and files as a whole: current folder, metadata, changes (RFC 959 §4.1.3, RFC 3659).
    pub(super) fn begin_file(
        &mut self,
        job: JobId,
        command: Command,
        rename_from: Option<SafePath>,
    ) -> Early<Begun> {
        match command {
            Command::PrintDirectory => Ok(Begun::reply(Reply::new(
                Code::PATH_CREATED,
                [&quoted(&self.state.cwd)[..], b" is the current folder"].concat(),
            ))),
            Command::ToParent => {
                let path = self.state.cwd.parent().unwrap_or_default();
                Ok(self.begin_query(job, path, Query::Followed, Answer::ChangeDirectory).behind_a_barrier())
            }
            Command::ChangeDirectory(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Followed, Answer::ChangeDirectory).behind_a_barrier())
            }
            Command::RenameFrom(path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_query(job, path, Query::Facts, Answer::RenameFrom).behind_a_barrier())
            }
            Command::RenameTo(path) => {
                let Some(from) = rename_from else { return no(Code::BAD_SEQUENCE, "RNFR first") };
                let to = self.resolve_not_root(&path)?;
                Ok(self.begin_change(job, Change::Rename { from, to }, Reply::new(Code::FILE_OK, "renamed")))
            }
            Command::Size(_) if self.state.representation == Type::Ascii => {
                // The size of an ASCII transfer requires reading the file.
                //= specs/rfc3659.txt#section-4
                //# Estimates of the file transfer size MUST NOT be returned; only precise information is acceptable.
                no(Code::FILE_UNAVAILABLE, "SIZE is for TYPE I")
            }
            Command::Size(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Followed, Answer::Size))
            }
            Command::ModifiedTime(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Followed, Answer::Modified))
            }
            Command::MachineFacts(path) => {
                let path = self.resolve_bytes(path.as_ref().map_or(&b""[..], PathArg::as_bytes))?;
                Ok(self.begin_query(job, path, Query::Facts, Answer::Facts))
            }
            Command::Partial(path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_query(job, path, Query::Partial, Answer::Partial))
            }
            Command::Hash(path) => self.begin_digest(job, &path, self.state.hash, DigestForm::Hash),
            Command::Crc32(path) => self.begin_digest(job, &path, HashName::Crc32, DigestForm::Alone),
            Command::Md5(path) => self.begin_digest(job, &path, HashName::Md5, DigestForm::Alone),
            Command::Sha1(path) => self.begin_digest(job, &path, HashName::Sha1, DigestForm::Alone),
            Command::Sha256(path) => self.begin_digest(job, &path, HashName::Sha256, DigestForm::Alone),
            Command::Sha512(path) => self.begin_digest(job, &path, HashName::Sha512, DigestForm::Alone),
            Command::MakeDirectory(path) => {
                let path = self.resolve_not_root(&path)?;
                let reply = Reply::new(Code::PATH_CREATED, [&quoted(&path)[..], b" made"].concat());
                Ok(self.begin_change(job, Change::MakeDirectory(path), reply))
            }
            Command::RemoveDirectory(path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_change(
                    job,
                    Change::RemoveDirectory(path),
                    Reply::new(Code::FILE_OK, "removed"),
                ))
            }
            Command::Delete(path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_change(job, Change::Remove(path), Reply::new(Code::FILE_OK, "deleted")))
            }
            Command::SetModifiedTime(stamp, path) => {
                let path = self.resolve(&path)?;
                let text = [format!("Modify={stamp}; ").as_bytes(), &path.to_absolute()].concat();
                let reply = Reply::new(Code::FILE_STATUS, text);
                Ok(self.begin_change(job, Change::SetModified(path, stamp), reply))
            }
            _ => no(Code::NOT_IMPLEMENTED, "not a file command"),
        }
    }

    /// Commands of SITE.
    pub(super) fn begin_site(&mut self, job: JobId, site: Site) -> Early<Begun> {
        match site {
            Site::Help => Ok(Begun::reply(Reply::multi(
                Code::HELP,
                "SITE knows:",
                ["CHMOD", "DELPARTS", "HARDLINK", "HELP", "PARTS", "SYMLINK", "UTIME"],
                "End",
            ))),
            Site::Chmod(mode, path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_change(job, Change::SetUnixMode(path, mode), Reply::new(Code::OK, "mode set")))
            }
            Site::Utime(stamp, path) => {
                let path = self.resolve(&path)?;
                Ok(self.begin_change(job, Change::SetModified(path, stamp), Reply::new(Code::OK, "time set")))
            }
            Site::Symlink(target, path) => {
                let path = self.resolve_not_root(&path)?;
                Ok(self.begin_change(
                    job,
                    Change::Symlink { path, target },
                    Reply::new(Code::OK, "link made"),
                ))
            }
            Site::HardLink(existing, path) => {
                let existing = self.resolve_not_root(&existing)?;
                let path = self.resolve_not_root(&path)?;
                let change = Change::HardLink { existing, path };
                Ok(self.begin_change(job, change, Reply::new(Code::OK, "link made")))
            }
            Site::Parts(path) => {
                let path = self.resolve_bytes(path.as_ref().map_or(&b""[..], PathArg::as_bytes))?;
                let answer = Answer::Parts { path: path.clone(), words: "kept" };
                let todo = Do::Query { job, path: path.clone(), query: Query::Parts };
                Ok(Begun::job(todo, answer, Touches::reading(path)).behind_a_barrier())
            }
            Site::RemoveParts(path) => {
                let path = self.resolve(&path)?;
                let answer = Answer::Parts { path: path.clone(), words: "removed" };
                let todo = Do::Change { job, change: Change::RemoveParts(path.clone()) };
                Ok(Begun::job(todo, answer, Touches::writing([path])).behind_a_barrier())
            }
        }
    }

    fn begin_query(&self, job: JobId, path: SafePath, query: Query, answer: fn(SafePath) -> Answer) -> Begun {
        let todo = Do::Query { job, path: path.clone(), query };
        Begun::job(todo, answer(path.clone()), Touches::reading(path))
    }

    /// HASH, XCRC and similar commands.
    fn begin_digest(&self, job: JobId, path: &PathArg, hash: HashName, form: DigestForm) -> Early<Begun> {
        let path = self.resolve(path)?;
        let todo = Do::Query { job, path: path.clone(), query: Query::Digest(hash) };
        let answer = Answer::Digest { path: path.clone(), hash, form };
        Ok(Begun::job(todo, answer, Touches::reading(path)))
    }

    fn begin_change(&self, job: JobId, change: Change, reply: Reply) -> Begun {
        let paths = match &change {
            Change::Rename { from, to } => vec![from.clone(), to.clone()],
            Change::HardLink { existing, path } => vec![path.clone(), existing.clone()],
            Change::MakeDirectory(path)
            | Change::RemoveDirectory(path)
            | Change::Remove(path)
            | Change::SetModified(path, _)
            | Change::SetUnixMode(path, _)
            | Change::RemoveParts(path)
            | Change::Symlink { path, .. } => vec![path.clone()],
        };
        let subject = paths[0].clone();
        Begun::job(
            Do::Change { job, change },
            Answer::Changed { reply, path: subject },
            Touches::writing(paths),
        )
    }
}
