//! The user that the server changes to once its sockets are open.

use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

use nix::unistd::{self, Gid, Group, Uid, User};

use super::ConfineError;

/// A user with its groups, resolved on this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// `None` for a number without a name: such a user has no other groups.
    name: Option<CString>,
    uid: Uid,
    gid: Gid,
}

impl fmt::Display for RunAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_ref().and_then(|name| name.to_str().ok()) {
            Some(name) => write!(f, "{name} (uid {}, gid {})", self.uid, self.gid),
            None => write!(f, "uid {}, gid {}", self.uid, self.gid),
        }
    }
}

impl FromStr for RunAs {
    type Err = String;

    /// `NAME[:GROUP]`; either may be a number.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("cannot run as user `{text}`: {why}");
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let asked = |error| wrong(&format!("the system does not say who that is: {error}"));
        let number = user.parse::<u32>().ok().map(Uid::from_raw);
        let known = match number {
            Some(uid) => User::from_uid(uid),
            None => User::from_name(user),
        };
        let known = known.map_err(asked)?;
        let gid = match group {
            None => None,
            Some(group) => Some(match group.parse::<u32>() {
                Ok(gid) => Gid::from_raw(gid),
                Err(_) => match Group::from_name(group).map_err(asked)? {
                    Some(group) => group.gid,
                    None => return Err(wrong(&format!("there is no group `{group}`; see `getent group`"))),
                },
            }),
        };
        let (name, uid, gid) = match (known, number, gid) {
            (Some(user), _, gid) => (CString::new(user.name).ok(), user.uid, gid.unwrap_or(user.gid)),
            (None, Some(uid), Some(gid)) => (None, uid, gid),
            (None, Some(_), None) => {
                return Err(wrong("a number without a name needs a group, as in 990:990"));
            }
            (None, None, _) => return Err(wrong("there is no such user; make one with `useradd --system`")),
        };
        if uid.is_root() {
            return Err(wrong("root keeps all privileges; name another user, or leave the option out"));
        }
        Ok(Self { name, uid, gid })
    }
}

impl RunAs {
    /// The user and the group as numbers, `UID:GID`.
    pub(crate) fn numbers(&self) -> String {
        format!("{}:{}", self.uid, self.gid)
    }

    /// Changes to the user, with its groups. Returns a description of the user.
    pub(in super::super) fn become_user(&self) -> Result<String, ConfineError> {
        let (uid, gid) = (self.uid, self.gid);
        if unistd::geteuid() == uid && !unistd::geteuid().is_root() {
            return Ok(format!("user {self}, as before"));
        }
        let failed = |what: &str, error: nix::Error| {
            let mut why = format!("cannot become user {self}: {what}: {error}");
            if error == nix::Error::EPERM {
                why.push_str("; it takes root, or the capabilities CAP_SETUID and CAP_SETGID");
            }
            ConfineError(why)
        };
        let groups = match &self.name {
            Some(name) => unistd::initgroups(name, gid),
            None => unistd::setgroups(&[gid]),
        };
        groups.map_err(|error| failed("its groups", error))?;
        unistd::setresgid(gid, gid, gid).map_err(|error| failed("its group", error))?;
        unistd::setresuid(uid, uid, uid).map_err(|error| failed("itself", error))?;
        Ok(format!("user {self}"))
    }

    /// Verifies that the change cannot be undone. Must be called without capabilities.
    pub(super) fn verify(&self) -> Result<(), ConfineError> {
        let regained = |what: &str| ConfineError(format!("became user {self}, and {what}; not serving"));
        let (uids, gids) = match (unistd::getresuid(), unistd::getresgid()) {
            (Ok(uids), Ok(gids)) => (uids, gids),
            _ => return Err(regained("the system does not say which user this is")),
        };
        if [uids.real, uids.effective, uids.saved] != [self.uid; 3]
            || [gids.real, gids.effective, gids.saved] != [self.gid; 3]
        {
            return Err(regained("still has other identities"));
        }
        if unistd::setuid(Uid::from_raw(0)).is_ok() || unistd::seteuid(Uid::from_raw(0)).is_ok() {
            return Err(regained("could become root again"));
        }
        if self.gid.as_raw() != 0 && unistd::setgid(Gid::from_raw(0)).is_ok() {
            return Err(regained("could take the group of root again"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers_and_mistakes_are_reported() {
        let nobody: RunAs = "nobody".parse().unwrap();
        assert!(nobody.to_string().starts_with("nobody (uid 6"), "{nobody}");
        let numbers: RunAs = "12345:54321".parse().unwrap();
        assert_eq!(numbers.to_string(), "uid 12345, gid 54321");
        let other_group: RunAs = "nobody:54321".parse().unwrap();
        assert!(other_group.to_string().ends_with("gid 54321)"), "{other_group}");
        for (text, why) in [
            ("no-such-user", "useradd"),
            ("nobody:no-such-group", "no group"),
            ("12345", "needs a group"),
            ("root", "keeps all privileges"),
            ("0:0", "keeps all privileges"),
            ("", "no such user"),
        ] {
            let error = text.parse::<RunAs>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
