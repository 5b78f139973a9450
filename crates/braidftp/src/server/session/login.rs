//! The login of a session: verifies a password or key, and opens the home folder.

use braidftp_ftp::command::Secret;
use braidftp_ftp::server::LoginError;
use bytes::Bytes;

use std::sync::Arc;

use super::super::events::Event;
use super::super::hosts::Site;
use super::super::store::View;
use super::Driver;
use crate::users::{Grant, LoginError as Refusal};

impl Driver {
    /// Returns the data of the session's host.
    fn site(&self) -> Arc<Site> {
        self.shared.site(self.session.host())
    }

    /// Returns a name that is unique over all hosts.
    pub(super) fn user_at_host(&self, name: &str) -> String {
        format!("{name}@{:?}", self.session.host())
    }

    pub(super) fn authenticate(&mut self, user: Bytes, password: Secret) {
        let (site, peer) = (self.site(), self.peer);
        let name = user.clone();
        self.grant(user, async move { site.users.now().users.log_in(&name, password.expose(), peer).await });
    }

    /// Logs in a user whose key was verified.
    pub(super) fn admit(&mut self, user: Bytes) {
        let granted = self.site().users.now().users.admit(&user);
        self.grant(user, std::future::ready(granted));
    }

    /// Opens the home of `user` if `granted` permits the login.
    fn grant(&mut self, user: Bytes, granted: impl Future<Output = Result<Grant, Refusal>> + Send + 'static) {
        let (shared, site, post, peer) = (self.shared.clone(), self.site(), self.post.clone(), self.peer);
        let (blocks, subject) = (self.blocks.clone(), self.subject.clone());
        let label = self.user_at_host(&String::from_utf8_lossy(&user));
        self.spawn(async move {
            let mut granted = granted.await;
            if let Err(Refusal::Busy) = granted {
                // The user is authenticated: sessions of dead clients must not keep the user out.
                let admit = || site.users.now().users.admit(&user).ok();
                granted = shared.limits.enter_as(&label, admit).await.ok_or(Refusal::Busy);
            }
            let is_known = granted.is_ok();
            let outcome = match granted {
                Ok(grant) => {
                    match site.root.beneath(&grant.home).await {
                        Ok(root) => {
                            let login = site.logins.enter(&grant.name, peer);
                            let allowance = site.users.now().parts.allowance(&grant.home);
                            let view = View {
                                root,
                                rights: grant.rights,
                                login,
                                blocks,
                                allowance,
                                share: grant.share.clone(),
                                _place: grant.place.clone(),
                                subject: subject.of_user(&grant.name),
                                user: grant.name.clone(),
                            };
                            Ok((grant, view.into()))
                        }
                        Err(error) => {
                            tracing::error!(user = %grant.name.escape_debug(), %error, "no home, no login");
                            Err(LoginError::Refused)
                        }
                    }
                }
                Err(Refusal::Refused) => Err(LoginError::Refused),
                Err(Refusal::TooMany) => Err(LoginError::Unavailable),
                Err(Refusal::Busy) => Err(LoginError::Busy),
            };
            let told = outcome.as_ref().map(|_| ()).map_err(|why| match why {
                LoginError::Refused if is_known => "its home cannot be opened",
                LoginError::Refused => "name or password is wrong",
                LoginError::Busy => "the user has as many sessions as they may have",
                LoginError::Unavailable => "too many wrong passwords from there or for that name; not checked",
            });
            subject.login(&user, told);
            shared.activity.metrics.login(if told.is_ok() { "ok" } else { "refused" });
            if let Err(why) = told {
                // The check itself was logged; later attempts are not checked.
                let was_checked = matches!(outcome, Err(LoginError::Refused)) && !is_known;
                if let Some(ban) = site.users.now().users.ban(&user, peer).filter(|_| was_checked) {
                    subject.banned(&user, ban);
                }
                tracing::info!(%peer, user = %String::from_utf8_lossy(&user).escape_debug(), why, "login refused");
            }
            post.send(Event::LoggedIn(outcome));
        });
    }
}
