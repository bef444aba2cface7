//! Settling a watch list: after all whom a session watches were judged anew, some leave it, some are veiled from now on,
//! and some are no longer. What shows of that is pushed as any change is.

use std::collections::HashSet;

use presence_protocol::UserId;
use tracing::debug;

use super::{leave_unanswered, shrink};
use crate::engine::Core;
use crate::reading::read;
use crate::session::outbox::{ConnId, Outbox};
use crate::watch::veil::Seen;
use crate::watch::{UserRef, Veils};

/// What is to be told of a list that was settled.
#[derive(Default)]
struct News {
    changed: Vec<UserRef>,
    unread: Vec<UserRef>,
    lifted: Vec<Lifted>,
}

/// A user of whom a session saw no more than a veil until now, and who is seen again.
pub(super) struct Lifted {
    user: UserId,
    place: UserRef,
    /// The version of what the veil showed.
    veil: u64,
}

pub(super) fn settle(
    core: &Core,
    outbox: &Outbox,
    conn: ConnId,
    refused: Vec<UserId>,
    veils: &Veils,
) -> Vec<Lifted> {
    let refused: HashSet<UserId> = refused.into_iter().collect();
    let news = outbox.edit_watching(|watching| edit(core, conn, watching, &refused, veils));
    let Ok(News { changed, mut unread, lifted }) = news else { return Vec::new() };
    for user in &changed {
        outbox.mark(*user);
    }
    unread.sort_unstable();
    leave_unanswered(core, outbox, conn, &unread);
    lifted
}

/// Tells of users whose veil was lifted. What the veil showed may be newer than what is true of them, which nobody would
/// believe then: the store gives it a newer version.
pub(super) async fn unveil(core: &Core, outbox: &Outbox, lifted: Vec<Lifted>) {
    let users: Vec<UserId> = lifted.iter().map(|lifted| lifted.user.clone()).collect();
    let veils = lifted.iter().map(|lifted| (lifted.user.clone(), lifted.veil)).collect();
    let told = async {
        core.store.outdo(veils).await?;
        read(core, &users, ()).await
    };
    if let Err(error) = told.await {
        debug!(%error, "users who are veiled no more are told of with their next change");
    }
    for Lifted { place, .. } in lifted {
        outbox.mark(place);
    }
}

fn edit(
    core: &Core,
    conn: ConnId,
    watching: &mut Vec<UserRef>,
    refused: &HashSet<UserId>,
    veils: &Veils,
) -> News {
    let mut news = News::default();
    for old in watching.clone() {
        let Some(seen) = core.table.look_behind(old) else { continue };
        let Seen { user, veil, was_online, version } = seen;
        let is_refused = refused.contains(&user);
        let wanted = veils.get(&user).copied();
        // A veil that was drawn later than it is said to be, see below, stays.
        let is_veiled = veil.zip(wanted).is_some_and(|(veil, wanted)| wanted <= veil);
        if !is_refused && (is_veiled || veil.is_none() && wanted.is_none()) {
            continue;
        }
        // Not older than what was shown last: nobody would believe it.
        let wanted = wanted.map(|wanted| wanted.max(version + 1));
        if !is_refused {
            let enlisted = core.table.enlist_as(&user, wanted, conn, watching);
            if let Err(place) = enlisted.place {
                watching.insert(place, enlisted.user);
            }
            match (enlisted.is_known, wanted.is_some()) {
                (_, false) => {
                    let veil = veil.unwrap_or_default();
                    news.lifted.push(Lifted { user, place: enlisted.user, veil });
                }
                (false, _) => news.unread.push(enlisted.user),
                // Who looked offline before does so now, and nothing has to be said.
                (true, true) if !was_online => {}
                (true, true) => news.changed.push(enlisted.user),
            }
        }
        if let Ok(at) = watching.binary_search(&old) {
            watching.remove(at);
            core.table.unwatch(old, conn);
        }
    }
    shrink(watching);
    news
}
