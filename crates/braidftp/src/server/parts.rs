//! The temporary files of interrupted uploads: old ones are removed ([`Settings::parts_kept`]), and those of
//! a home have a quota ([`Settings::parts_quota`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use braidftp_ftp::server::HostId;
use tokio::task::JoinSet;

use super::{DISK_RESERVE_MAX, Settings, Shared};
use crate::store::Tree;
use crate::store::bucket::Bucket;
use crate::store::fs::{Allowance, Kept, Part, Removal, Root};
use crate::users::Users;

/// The interval of searches for them; the first is at the start.
const LOOK: Duration = Duration::from_secs(3600);
/// The minimum time that parts in a bucket are kept: an upload may take as long.
const BUCKET_PARTS_KEPT: Duration = Duration::from_secs(86_400);
/// The maximum number of files removed or found in one search.
const MOST: usize = 100_000;
/// The maximum number of files kept in a home.
pub(crate) const PARTS_MAX: usize = 10_000;

/// The temporary files of each home in which a user may write.
#[derive(Debug)]
pub(super) struct Parts {
    reserve_bytes: u64,
    by_home: BTreeMap<PathBuf, Arc<Kept>>,
}

/// The bytes that uploads leave free on a disk of this size.
pub(super) fn reserve_bytes(settings: &Settings, disk_bytes: u64) -> u64 {
    settings.disk_reserve.unwrap_or((disk_bytes / 100).min(DISK_RESERVE_MAX))
}

/// The quota of the temporary files of a home.
pub(super) fn quota_bytes(settings: &Settings, disk_bytes: u64) -> u64 {
    settings.parts_quota.unwrap_or(disk_bytes / 10)
}

impl Parts {
    pub(super) fn new(root: &Tree, users: &Users, settings: &Settings) -> Self {
        // A disk of unknown size has no quota, nor has a bucket.
        let disk_bytes = root.disk_bytes().unwrap_or(u64::MAX);
        let quota_bytes = quota_bytes(settings, disk_bytes);
        let writers = users.accounts().filter(|account| account.rights.may_change());
        let by_home = writers.map(|account| (account.home.to_owned(), Kept::new(quota_bytes, PARTS_MAX)));
        Self { reserve_bytes: reserve_bytes(settings, disk_bytes), by_home: by_home.collect() }
    }

    /// The same, with the known files of homes that existed before.
    pub(super) fn following(mut self, before: &Self) -> Self {
        for (home, kept) in &mut self.by_home {
            if let Some(before) = before.by_home.get(home) {
                *kept = before.clone();
            }
        }
        self
    }

    /// The limits on disk usage by writers in this home.
    pub(super) fn allowance(&self, home: &Path) -> Allowance {
        Allowance { reserve_bytes: self.reserve_bytes, kept: self.by_home.get(home).cloned() }
    }

    /// Records all files found, as paths relative to the server's root: each counts in its innermost home.
    fn found(&self, root: &Root, parts: Vec<Part>) {
        let mut by_home: BTreeMap<&Path, Vec<Part>> =
            self.by_home.keys().map(|home| (home.as_path(), Vec::new())).collect();
        for part in parts {
            let home = part.path.ancestors().skip(1).find(|above| by_home.contains_key(above));
            let Some(home) = home.map(Path::to_owned) else { continue };
            let path = part.path.strip_prefix(&home).map(Path::to_owned);
            if let (Ok(path), Some(of_home)) = (path, by_home.get_mut(home.as_path())) {
                of_home.push(Part { path, ..part });
            }
        }
        for (home, parts) in by_home {
            let root = if home.as_os_str().is_empty() { Ok(root.clone()) } else { root.beneath(home) };
            if let (Ok(root), Some(kept)) = (root, self.by_home.get(home)) {
                kept.found(&root, parts);
            }
        }
    }
}

/// Searches those of each host, for ever. If nobody may change anything, nothing is removed.
pub(super) async fn look_after_all(shared: Arc<Shared>) {
    let mut all: JoinSet<()> = shared.sites().map(|(host, _)| look_after(shared.clone(), host)).collect();
    while all.join_next().await.is_some() {}
}

async fn look_after(shared: Arc<Shared>, host: Option<HostId>) {
    let site = shared.site(host);
    let folder = match &site.root {
        Tree::Folder(folder) => folder,
        Tree::Bucket(bucket) => {
            let may_write = || site.users.now().users.any_may_write();
            return look_after_bucket(&shared, bucket, may_write).await;
        }
    };
    loop {
        let lists = site.users.now();
        if !lists.users.any_may_write() {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let since = shared.settings.now().parts_kept.and_then(|kept| SystemTime::now().checked_sub(kept));
        let removed = folder.blocking(move |root| {
            let removal = Removal { unchanged_since: since, most: MOST, claimant: None };
            let everything = Path::new("");
            let removed = match since {
                Some(_) => root.remove_parts(everything, &removal)?,
                None => Vec::new(),
            };
            lists.parts.found(root, root.parts(everything, MOST)?);
            Ok(removed)
        });
        match removed.await as Result<Vec<Part>, crate::store::fs::Error> {
            Ok(removed) => removed.iter().for_each(|part| {
                let (path, size) = (part.path.display(), part.size);
                tracing::info!(%path, size, "an unfinished upload that is too old was removed");
            }),
            Err(error) => tracing::warn!(%error, "cannot look for unfinished uploads"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes the parts of uploads that began too long ago. Whether one still runs on another server is unknown.
async fn look_after_bucket(shared: &Shared, bucket: &Bucket, may_write: impl Fn() -> bool) {
    loop {
        let kept = shared.settings.now().parts_kept.map(|kept| kept.max(BUCKET_PARTS_KEPT));
        let before = kept.and_then(|kept| SystemTime::now().checked_sub(kept));
        if let Some(before) = before.filter(|_| may_write()) {
            match bucket.remove_parts(before, MOST).await {
                Ok(removed) => removed.iter().for_each(|part| {
                    let path = part.path.display();
                    tracing::info!(%path, "the parts of an unfinished upload that is too old were removed");
                }),
                Err(error) => tracing::warn!(%error, "cannot look for unfinished uploads"),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Access;

    #[test]
    fn each_unfinished_file_counts_in_the_innermost_home_and_defaults_follow_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in
            [(".a.braidftp-part", 1), ("anna/.b.braidftp-part", 20), ("anna/x/.c.braidftp-part", 300)]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![0; bytes]).unwrap();
        }
        let root = Root::open(folder.path()).unwrap();
        let text = "[[user]]\nname = 'anonymous'\n[[user]]\nname = 'ftp'\nhome = 'anna'\n";
        let users = Users::parse(text, Access::Writable).unwrap();
        let parts = Parts::new(&root.clone().into(), &users, &Settings::default());
        parts.found(&root, root.parts(Path::new(""), 10).unwrap());
        let held = |home: &str| parts.allowance(Path::new(home)).kept.unwrap().held();
        assert_eq!((held(""), held("anna")), ((1, 1), (320, 2)));
        assert!(parts.allowance(Path::new("bert")).kept.is_none());

        let with = |bytes| Settings { parts_quota: bytes, disk_reserve: bytes, ..Settings::default() };
        let both = |settings: &Settings, disk| (reserve_bytes(settings, disk), quota_bytes(settings, disk));
        assert_eq!(both(&with(None), 50 << 30), ((50 << 30) / 100, 5 << 30));
        assert_eq!(both(&with(None), 1 << 50), (DISK_RESERVE_MAX, (1 << 50) / 10));
        assert_eq!(both(&with(Some(7)), 1 << 50), (7, 7));
    }
}
