//! Settling a watch list: after all whom a session watches were judged anew, some leave it, some are veiled from now on,
//! and some are no longer. What shows of that is pushed as any change is.

use std::collections::HashSet;

use presence_protocol::UserId;

use super::{leave_unanswered, shrink};
use crate::engine::Core;
use crate::outbox::{ConnId, Outbox};
use crate::watch::{UserRef, Veils};

/// What is to be told of a list that was settled.
#[derive(Default)]
struct News {
    changed: Vec<UserRef>,
    unread: Vec<UserRef>,
}

pub(super) fn settle(
    core: &Core,
    outbox: &Outbox,
    conn: ConnId,
    refused: Vec<UserId>,
    veils: &Veils,
) {
    let refused: HashSet<UserId> = refused.into_iter().collect();
    let news = outbox.edit_watching(|watching| edit(core, conn, watching, &refused, veils));
    let Ok(News { changed, mut unread }) = news else { return };
    for user in &changed {
        outbox.mark(*user);
    }
    unread.sort_unstable();
    leave_unanswered(core, outbox, conn, &unread);
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
        let Some((user, veil, was_online)) = core.table.look_behind(old) else { continue };
        let is_refused = refused.contains(&user);
        let wanted = veils.get(&user).copied();
        if !is_refused && veil == wanted {
            continue;
        }
        if !is_refused {
            let enlisted = core.table.enlist_as(&user, wanted, conn, watching);
            if let Err(place) = enlisted.place {
                watching.insert(place, enlisted.user);
            }
            match (enlisted.is_known, wanted.is_some()) {
                (false, _) => news.unread.push(enlisted.user),
                // Who looked offline before does so now, and nothing has to be said.
                (true, true) if !was_online => {}
                (true, _) => news.changed.push(enlisted.user),
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
