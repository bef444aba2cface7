//! Whom a session may watch and query: by its token, by a grant beside the request, and by the word of the app's backend
//! where the policy is to ask it. What comes through is a request to the domain, which knows no permissions.
//!
//! Nothing that is told of a refused user depends on the user: not whether there is such a one, nor where it is.

use std::time::Duration;

use futures::FutureExt;
use presence::{Asked, Deciding, Decision, Request, Veils};
use presence_protocol::{CloseReason, ErrorCode, ErrorMessage, Grant, RequestId, UserId};
use tokio::time::sleep;
use tracing::debug;

use super::{Connection, End, refusal};
use crate::app::SharedApp;
use crate::auth::{AuthError, Permission};
use crate::consent::{Consent, Undecided, Verdict, Verdicts};
use crate::settings::WatchPolicy;

/// The app's backend has just spoken, so that it should answer soon: how often and how soon it is asked again when it does
/// not.
const REVIEW_TRIES: u32 = 3;
const REVIEW_PAUSE: Duration = Duration::from_secs(1);

/// What a client wants of users.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    Watch,
    Query,
}

impl Wish {
    fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Query => "query",
        }
    }

    fn request(self, users: Vec<UserId>, veils: Veils, id: Option<RequestId>) -> Request {
        match self {
            Self::Watch => Request::Watch { users, veils, id },
            Self::Query => Request::Query { users, veils, id },
        }
    }
}

/// Whom a token lets its user watch under the policy of this gateway.
pub(super) fn permission(app: &SharedApp, claimed: Permission) -> Permission {
    match app.settings.watch_policy {
        WatchPolicy::Open | WatchPolicy::Callback(_) => claimed,
        WatchPolicy::Token => claimed.or_nobody(),
    }
}

impl Connection<'_> {
    /// Asks for those of the users that the client may watch; the others are refused.
    pub(super) fn wish(
        &mut self,
        wish: Wish,
        mut users: Vec<UserId>,
        id: Option<RequestId>,
        grant: Option<&Grant>,
    ) {
        let granted = grant.map_or(Permission::Nobody, |grant| self.granted(grant));
        let listed = |user: &UserId| self.rights.may_watch.allows(user);
        let refused: Vec<UserId> =
            users.extract_if(.., |user| !listed(user) && !granted.allows(user)).collect();
        if matches!(wish, Wish::Watch) {
            let by_grant: Vec<UserId> =
                users.iter().filter(|user| !listed(user)).cloned().collect();
            self.rights.note_granted(by_grant, self.app.settings.max_watch as usize);
        }
        if !refused.is_empty() {
            self.session.refuse(not_allowed(refused, id.clone()));
            if users.is_empty() {
                return;
            }
        }
        let Some(consent) = &self.app.consent else {
            return self.session.request(wish.request(users, Veils::new(), id));
        };
        let Some(known) = consent.known(self.session.user(), &users) else {
            let user = self.session.user().clone();
            let asked = Asked::new(wish.name(), &users, id.clone());
            let deciding = decide(self.app.clone(), user, wish, users, id);
            return self.session.request_decided(asked, deciding);
        };
        let Decision { refusal, request, .. } = decided(wish, users, &known, id);
        if let Some(refusal) = refusal {
            self.session.refuse(refusal);
        }
        if let Some(request) = request {
            self.session.request(request);
        }
    }

    /// Whom a grant lets the client watch: nobody when it breaks a rule, which the client is not told.
    fn granted(&self, grant: &Grant) -> Permission {
        let user = self.session.user();
        let granted = self.app.authenticator.granted(grant, user).and_then(|granted| {
            let is_revoked = self.app.is_revoked(user, granted.issued_at_s);
            if is_revoked { Err(AuthError::Revoked.into()) } else { Ok(granted.may_watch) }
        });
        granted.unwrap_or_else(|error| {
            debug!(session = self.session.number(), %error, "a grant counts for nothing");
            self.app.metrics.grants_refused.get_or_create(&(&error).into()).inc();
            Permission::Nobody
        })
    }

    /// A fresh token came: whom neither its claim lists nor a grant, is watched no longer.
    pub(super) fn take_permission(&mut self, claimed: Permission) {
        self.rights.may_watch = permission(self.app, claimed);
        self.review_list();
    }

    /// Takes off the watch list whom the client may watch no longer by its token and grants.
    fn review_list(&self) {
        if self.rights.may_watch == Permission::Everyone {
            return;
        }
        let (may_watch, granted) = (self.rights.may_watch.clone(), self.rights.granted.clone());
        self.session.review(Box::new(move |watched| {
            let is_granted =
                |user: &UserId| granted.as_ref().is_some_and(|granted| granted.contains(user));
            let may = |user: &UserId| may_watch.allows(user) || is_granted(user);
            let refused = watched.into_iter().filter(|user| !may(user)).collect();
            std::future::ready(withdraw(refused)).boxed()
        }));
    }

    /// The app's backend ordered something of this user: grants are to be given anew, and the backend is asked again.
    pub(super) fn recheck(&mut self) -> Result<(), End> {
        let user = self.session.user();
        if self.app.is_revoked(user, self.rights.issued_at_s) {
            debug!(session = self.session.number(), "the token was revoked");
            return Err(End::Close(CloseReason::BadToken));
        }
        self.rights.granted = None;
        let Some(consent) = &self.app.consent else {
            self.review_list();
            return Ok(());
        };
        consent.forget(user);
        let (app, user) = (self.app.clone(), user.clone());
        let may_watch = self.rights.may_watch.clone();
        self.session.review(Box::new(move |mut watched| {
            let unlisted = watched.extract_if(.., |user| !may_watch.allows(user)).collect();
            review(app, user, watched, unlisted).boxed()
        }));
        Ok(())
    }
}

/// Asks the app's backend, and makes a request of what it allows.
fn decide(
    app: SharedApp,
    user: UserId,
    wish: Wish,
    users: Vec<UserId>,
    id: Option<RequestId>,
) -> Deciding {
    async move {
        let Some(Ok(verdicts)) = ask(&app, &user, &users).await else {
            let message = "whom you may watch cannot be told now; ask again later";
            let error = refusal(ErrorCode::Undecided, message.to_owned());
            let refusal = Some(ErrorMessage { id, ..error });
            return Decision { refusal, ..Decision::default() };
        };
        decided(wish, users, &verdicts, id)
    }
    .boxed()
}

/// What the verdicts make of a wish.
fn decided(
    wish: Wish,
    users: Vec<UserId>,
    verdicts: &[Verdict],
    id: Option<RequestId>,
) -> Decision {
    let Verdicts { users, veils, refused } = Verdicts::new(users, verdicts);
    let refusal = (!refused.is_empty()).then(|| not_allowed(refused, id.clone()));
    let is_left = !users.is_empty() || refusal.is_none();
    let request = is_left.then(|| wish.request(users, veils, id));
    Decision { refusal, request, ..Decision::default() }
}

/// Asks the app's backend anew about all whom a session watches, but for those who are off its list already. While it does
/// not answer nobody knows; whoever is not answered in the end has to come again.
async fn review(
    app: SharedApp,
    user: UserId,
    watched: Vec<UserId>,
    unlisted: Vec<UserId>,
) -> Decision {
    for _ in 0..REVIEW_TRIES {
        match ask(&app, &user, &watched).await {
            Some(Ok(verdicts)) => {
                let Verdicts { veils, mut refused, .. } = Verdicts::new(watched, &verdicts);
                refused.extend(unlisted);
                return settled(refused, veils);
            }
            Some(Err(Undecided)) => sleep(REVIEW_PAUSE).await,
            None => break,
        }
    }
    Decision { close: Some(CloseReason::Overloaded), ..Decision::default() }
}

async fn ask(
    app: &SharedApp,
    user: &UserId,
    users: &[UserId],
) -> Option<Result<Vec<Verdict>, Undecided>> {
    let consent: &Consent = app.consent.as_ref()?;
    Some(consent.ask(user, users.to_vec()).await)
}

/// Takes off the watch list whom the client may watch no longer, and says so: a dot must not stay as it was for ever.
fn withdraw(refused: Vec<UserId>) -> Decision {
    if refused.is_empty() {
        return Decision::default();
    }
    let refusal = Some(not_allowed(refused.clone(), None));
    let request = Some(Request::Unwatch { users: refused });
    Decision { refusal, request, ..Decision::default() }
}

/// The same, and veils those who are to be from now on, and nobody else.
fn settled(refused: Vec<UserId>, veils: Veils) -> Decision {
    let is_told = !refused.is_empty();
    let refusal = is_told.then(|| not_allowed(refused.clone(), None));
    let request = Some(Request::Settle { refused, veils });
    Decision { refusal, request, ..Decision::default() }
}

fn not_allowed(users: Vec<UserId>, id: Option<RequestId>) -> ErrorMessage {
    let message = "you may not watch these users".to_owned();
    ErrorMessage { code: ErrorCode::NotAllowed, message, id, users }
}
