//! The users of a running server, and the temporary files of their interrupted uploads: replaced as a whole
//! when the users file is read again.
//!
//! Sessions keep their rights until they log in again. Failed password checks stay counted, and so do the
//! sessions, bytes and rate of a user whose limits are unchanged.

use std::sync::{Arc, PoisonError, RwLock};

use super::Plain;
use super::live::Live;
use super::parts::Parts;
use crate::store::Tree;
use crate::users::Users;

/// The users of a running server.
#[derive(Debug)]
pub struct Roster {
    now: RwLock<Arc<Lists>>,
    root: Tree,
    settings: Arc<Live>,
    /// Whether any user could change files when the server started, which determined the confinement.
    may_change: bool,
}

/// The data of one users file.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) users: Users,
    /// The temporary files of interrupted uploads.
    pub(super) parts: Parts,
}

impl Roster {
    pub(super) fn new(users: Users, root: Tree, settings: Arc<Live>) -> Self {
        let may_change = users.any_may_write();
        let parts = Parts::new(&root, &users, &settings.now());
        Self { now: RwLock::new(Arc::new(Lists { users, parts })), root, settings, may_change }
    }

    /// The current users.
    pub(super) fn now(&self) -> Arc<Lists> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks whether these users can replace the current ones.
    ///
    /// # Errors
    ///
    /// They need something that the running server lacks: a sentence.
    pub(super) fn may_replace(&self, users: &Users) -> Result<(), String> {
        let settings = self.settings.now();
        let protection = &settings.protection;
        if users.any_may_write() && !self.may_change {
            return Err("somebody may change files now, and nobody might when the server started, so that it cannot; start it \
                        again"
                .into());
        }
        if users.any_has_password()
            && protection.identity.is_none()
            && protection.plain_passwords == Plain::Refused
        {
            return Err("it has users with passwords, and nothing is protected: they could not log in".into());
        }
        Ok(())
    }

    /// Replaces the users. Logged-in sessions are not affected.
    ///
    /// # Errors
    ///
    /// They need something that the running server lacks: a sentence. Nothing is changed then.
    pub fn replace(&self, mut users: Users) -> Result<(), String> {
        self.may_replace(&users)?;
        let (before, settings) = (self.now(), self.settings.now());
        users.follow(&before.users);
        let parts = Parts::new(&self.root, &users, &settings).following(&before.parts);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Lists { users, parts });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use std::net::{IpAddr, Ipv4Addr};
    use std::path::Path;

    use super::*;
    use crate::users::{Access, LoginError};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn users(text: &str) -> Users {
        Users::parse(text, Access::ReadOnly).unwrap()
    }

    fn roster(text: &str) -> (Roster, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let root = Tree::open(folder.path()).unwrap();
        (Roster::new(users(text), root, Arc::new(Live::new(Settings::default()))), folder)
    }

    const ONE: &str = "[[user]]\nname = 'anonymous'\nsessions = 1\nwritable = true\n";

    #[tokio::test]
    async fn users_are_added_and_removed_and_those_with_the_same_limits_keep_their_count() {
        let (roster, _folder) = roster(ONE);
        let log_in = async |name: &str| roster.now().users.log_in(name.as_bytes(), b"", HERE).await;
        let first = log_in("anonymous").await.unwrap();
        assert_eq!(log_in("anonymous").await, Err(LoginError::Busy));
        assert_eq!(log_in("ftp").await, Err(LoginError::Refused));
        roster.replace(users(&format!("{ONE}[[user]]\nname = 'ftp'\n"))).unwrap();
        assert_eq!(log_in("anonymous").await, Err(LoginError::Busy), "the session before counts");
        assert!(log_in("ftp").await.is_ok());
        drop(first);
        assert!(log_in("anonymous").await.is_ok());
        roster.replace(users("[[user]]\nname = 'ftp'\n")).unwrap();
        assert_eq!(log_in("anonymous").await, Err(LoginError::Refused));
    }

    #[test]
    fn an_impossible_reload_is_refused_and_changes_nothing() {
        let (reads_only, _folder) = roster("[[user]]\nname = 'ftp'\n");
        let error = reads_only.replace(users(ONE)).unwrap_err();
        assert!(error.contains("start it again"), "{error}");
        let hash = Users::hash(b"x").unwrap();
        let error =
            reads_only.replace(users(&format!("[[user]]\nname = 'anna'\nhash = '{hash}'\n"))).unwrap_err();
        assert!(error.contains("nothing is protected"), "{error}");
        assert_eq!(reads_only.now().users.accounts().count(), 1);
    }

    #[test]
    fn a_home_keeps_its_unfinished_uploads_within_the_quota() {
        let (roster, _folder) = roster(ONE);
        let kept = |roster: &Roster| roster.now().parts.allowance(Path::new("")).kept.unwrap();
        let before = kept(&roster);
        roster
            .replace(users(&format!("{ONE}[[user]]\nname = 'ftp'\nhome = 'x'\nwritable = true\n")))
            .unwrap();
        assert!(Arc::ptr_eq(&before, &kept(&roster)));
        assert!(roster.now().parts.allowance(Path::new("x")).kept.is_some());
    }
}
