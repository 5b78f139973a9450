//! Unfinished uploads that nobody goes on with are removed after a time (`Settings::parts_kept`).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Shared;
use crate::store::fs::Removal;

/// How often they are looked for: at the start, and then after so long.
const LOOK: Duration = Duration::from_secs(3600);
/// How many are removed in one look.
const MOST: usize = 100_000;

/// Looks for them, for ever.
pub(super) async fn remove_old(shared: Arc<Shared>) {
    let Some(kept) = shared.settings.parts_kept.filter(|_| shared.users.any_may_write()) else {
        return std::future::pending().await;
    };
    loop {
        let unchanged_since = SystemTime::now().checked_sub(kept);
        let removal = Removal { unchanged_since, most: MOST, claimant: None };
        if unchanged_since.is_some() {
            let removed = shared.root.blocking(move |root| root.remove_parts(Path::new(""), &removal)).await;
            match removed {
                Ok(removed) => removed.iter().for_each(|part| {
                    let (path, size) = (part.path.display(), part.size);
                    tracing::info!(%path, size, "an unfinished upload that is too old was removed");
                }),
                Err(error) => tracing::warn!(%error, "cannot look for old unfinished uploads"),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
