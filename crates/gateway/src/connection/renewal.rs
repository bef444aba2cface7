//! A `hello` on an open session brings a fresh token for the same user.

use presence_protocol::{ErrorCode, Hello};

use super::{Connection, End, opening, refusal};

impl Connection<'_> {
    /// Takes the token, and answers with a `welcome`. May wait a little for the token's key, and for nothing else.
    pub(super) async fn renew(&mut self, hello: Box<Hello>) -> Result<(), End> {
        let identity = opening::identify(self.app, &hello, None).await?;
        if identity.user != *self.session.user() {
            let message = "hello: this socket belongs to another user; open a new one";
            self.session.refuse(refusal(ErrorCode::BadMessage, message.to_owned()));
            return Ok(());
        }
        opening::set_expiry(&self.session, &identity);
        self.rights.issued_at_s = identity.issued_at_s;
        self.session.send(self.session.welcome());
        self.take_permission(identity.may_watch);
        Ok(())
    }
}
