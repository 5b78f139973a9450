//! Processing of COOKIE ECHO (RFC 9260 §5.1.5, §5.2.4): new peers, collisions of INITs, restarts, stale and forged
//! cookies.

use std::sync::Arc;

use braidftp_base::Time;

use super::answers::Answer;
use super::init::answering;
use super::memory::MakeRoom;
use super::table::{Known, Slot};
use super::waiting::{Echo, Entry, HandshakeTurn};
use super::{Endpoint, next_seed};
use crate::association::{Association, Authentication, Passive, Verdict};
use crate::cookie::{Contents, CookieError, Opened};
use crate::ids::AssociationId;
use crate::route::Route;
use crate::stats::Phase;
use crate::wire::{Auth, Cause, Chunk, Header};

/// The comparison of a tag in a cookie with that of the association (RFC 9260 §5.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    /// M: the tags match.
    M,
    /// X: the tags differ.
    X,
    /// 0: the association has no tag yet, or the cookie contains none.
    O,
}

/// The reaction to the cookie of an existing association (RFC 9260 §5.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// A: the peer restarted.
    Restart,
    /// B: both sides sent an INIT, and the peer's arrived after it had answered ours. D: a cookie of
    /// this association, for the first time or again.
    Confirm,
    /// C: the cookie arrived late; and all other cases.
    Discard,
}

/// RFC 9260 Table 12.
fn action(local: Tag, peer: Tag, tie_tags: Tag) -> Action {
    use Tag::{M, O, X};
    match (local, peer, tie_tags) {
        (X, X, M) => Action::Restart, // A
        (M, X, _) => Action::Confirm, // B
        (M, O, _) => Action::Confirm, // B
        (X, M, O) => Action::Discard, // C
        (M, M, _) => Action::Confirm, // D
        //= specs/rfc9260.txt#section-5.2.4
        //# For any case not shown in Table 12, the cookie SHOULD be silently
        //# discarded.
        _ => Action::Discard,
    }
}

impl Endpoint {
    /// Processes a packet whose first chunk is a COOKIE ECHO, or the first one after an AUTH chunk.
    pub(super) fn on_cookie_echo(&mut self, now: Time, echo: Echo, turn: HandshakeTurn) {
        let Echo { route, ecn, packet } = echo;
        let mut chunks = packet.chunks();
        let from_auth = chunks.rest();
        let (auth, first) = match chunks.next() {
            Some(Ok(Chunk::Auth(auth))) => (Some((auth, from_auth)), chunks.next()),
            first => (None, first),
        };
        let Some(Ok(Chunk::CookieEcho(cookie))) = first else {
            self.counters.invalid += 1;
            return;
        };
        let header = packet.header;
        self.keys.prepare(now);
        let opened = match self.keys.open(now, &header, &cookie) {
            Ok(opened) => opened,
            Err(CookieError::Forged) => {
                //= specs/rfc9260.txt#section-4
                //# If the State Cookie in the received COOKIE ECHO chunk is invalid
                //# (i.e., failed to pass the integrity check), the receiver MUST silently
                //# discard the packet.
                self.counters.forged_cookies += 1;
                return;
            }
            Err(CookieError::Stale(stale)) => {
                let tags = self
                    .holder(route, stale.contents())
                    .and_then(|slot| Some((slot.known.tag, slot.association.peer_tag()?)));
                let (local, peer) = tags.unwrap_or_default();
                match stale.revived_by(local, peer) {
                    Ok(opened) => opened,
                    Err(stale) => {
                        //= specs/rfc9260.txt#section-5.1.5
                        //# If the elapsed time is longer than the lifespan
                        //# carried in the State Cookie, then the packet, including the
                        //# COOKIE ECHO chunk and any attached DATA chunks, SHOULD be
                        //# discarded, and the endpoint MUST transmit an ERROR chunk with a
                        //# "Stale Cookie" error cause to the peer endpoint.
                        //= specs/rfc9260.txt#section-4
                        //# Or, if the received State Cookie is expired (see Section 5.1.5), the
                        //# receiver MUST send back an ERROR chunk.
                        //= specs/rfc9260.txt#section-5.2.4
                        //# the packet, including the COOKIE ECHO chunk and any DATA chunks,
                        //# SHOULD be discarded.
                        //= specs/rfc9260.txt#section-5.2.4
                        //# The endpoint also MUST transmit an ERROR chunk with a "Stale Cookie"
                        //# error cause to the peer endpoint (this is case C or D in Section 5.2).
                        self.counters.stale_cookies += 1;
                        let error = Chunk::Error(vec![Cause::StaleCookie(stale.staleness_us())]);
                        let header = answering(&header, stale.contents().peer_tag);
                        self.answer_within_budget(now, Answer { route, header, chunks: vec![error] });
                        return;
                    }
                }
            }
        };
        // An intercepted cookie is of no use to a host whose address its owner did not list.
        let from = route.peer.ip();
        if from != opened.peer.ip() && !opened.peer_addresses.contains(&from) {
            self.counters.forged_cookies += 1;
            return;
        }
        if !self.is_authentic(route, &opened, auth.as_ref()) || !self.is_admissible(route, &opened, &packet) {
            self.counters.discarded += 1;
            return;
        }
        let is_authenticated = auth.is_some();
        let id = match self.holder(route, &opened) {
            None => self.begin(now, &opened, turn, Echo { route, ecn, packet: packet.clone() }),
            Some(slot) => {
                let same = |same| if same { Tag::M } else { Tag::X };
                let local = same(opened.local_tag == slot.known.tag);
                let peer = slot.association.peer_tag().map_or(Tag::O, |tag| same(opened.peer_tag == tag));
                let tie_tags = opened.tie_tags.map_or(Tag::O, |tags| same(tags == slot.known.tie_tags));
                let id = slot.id;
                //= specs/rfc9260.txt#section-5.1.5
                //# If a COOKIE ECHO chunk is received from an endpoint with which the
                //# receiver of the COOKIE ECHO chunk has an existing association, the
                //# procedures in Section 5.2 SHOULD be followed.
                match action(local, peer, tie_tags) {
                    Action::Restart => self.restart(now, route, id, &opened),
                    Action::Confirm => self.confirm(now, id, &opened),
                    //= specs/rfc9260.txt#section-5.2.4
                    //# The cookie SHOULD be silently discarded.
                    //= specs/rfc9260.txt#section-5.2.4
                    //# The endpoint SHOULD NOT change states and SHOULD leave any timers
                    //# running.
                    Action::Discard => {
                        self.counters.discarded += 1;
                        None
                    }
                }
            }
        };
        if let Some(id) = id {
            //= specs/rfc4895.txt#section-6.3
            //# If the authentication is
            //# successful, the COOKIE-ECHO and all the chunks after the COOKIE-ECHO
            //# MUST be processed.
            if let Some(slot) = self.table.get_mut(id)
                && is_authenticated
            {
                slot.association.auth_mut().set_verified();
            }
            self.deliver(now, id, route, ecn, packet);
        }
    }

    /// Creates an association from a cookie: a protected one, whose handshake costs more than others, when it has a turn.
    fn begin(
        &mut self,
        now: Time,
        opened: &Opened,
        turn: HandshakeTurn,
        echo: Echo,
    ) -> Option<AssociationId> {
        let route = echo.route;
        // A cookie that creates none takes no turn.
        let is_handshake = opened.key_management.is_some()
            && self.listeners.contains_key(&opened.local_port)
            && !self.table.is_spent(opened.local_tag);
        if is_handshake && turn == HandshakeTurn::Needed {
            match self.waiting.enter(now, opened.peer.ip(), echo) {
                Entry::Turn => {}
                Entry::Place => return None,
                Entry::Crowded => {
                    self.counters.handshakes_dropped += 1;
                    return None;
                }
            }
        }
        self.accept(now, route, opened)
    }

    /// Whether a COOKIE ECHO is authenticated as required: no AUTH chunk precedes it and none is
    /// required, or the AUTH chunk is valid.
    fn is_authentic(&mut self, route: Route, opened: &Opened, auth: Option<&(Auth, &[u8])>) -> bool {
        let holder = self.holder(route, opened).map(|slot| slot.id);
        let config = match holder.and_then(|id| self.table.get(id)) {
            Some(slot) => Arc::clone(&slot.known.config),
            None => match self.listeners.get(&opened.local_port) {
                Some(config) => Arc::clone(config),
                // It is rejected anyway, unless an unknown chunk precedes it.
                None => return auth.is_none(),
            },
        };
        let mut from_cookie = Authentication::new(&config);
        from_cookie.agree(opened.auth.as_ref());
        let Some((auth, from_auth)) = auth else { return !from_cookie.requires(Chunk::COOKIE_ECHO) };
        //= specs/rfc4895.txt#section-6.3
        //# If the receiver has an STCB, it MUST process the
        //# AUTH chunk as described above using the STCB from the existing
        //# association to authenticate the COOKIE-ECHO chunk and all the chunks
        //# after it.
        // An association in COOKIE-WAIT does not know the peer yet: the cookie contains everything there
        // as well.
        let theirs = holder.and_then(|id| self.table.get_mut(id)).map(|slot| slot.association.auth_mut());
        //= specs/rfc4895.txt#section-6.3
        //# In this situation, the receiver MUST authenticate the
        //# chunks in the packet by using the RANDOM parameters, CHUNKS
        //# parameters and HMAC_ALGO parameters obtained from the COOKIE-ECHO
        //# chunk, and possibly a local shared secret as inputs to the
        //# authentication procedure specified in Section 6.3.
        let keys = theirs.filter(|theirs| theirs.is_agreed()).unwrap_or(&mut from_cookie);
        keys.verify(auth, from_auth) == Verdict::Authentic
    }

    /// Returns the existing association of a cookie.
    pub(super) fn holder(&self, route: Route, contents: &Contents) -> Option<&Slot> {
        let ports = (contents.local_port, contents.peer_port);
        let header = Header { source_port: ports.1, destination_port: ports.0, tag: contents.local_tag };
        [contents.peer, route.peer]
            .into_iter()
            .find_map(|peer| self.table.by_address(ports.0, ports.1, peer))
            .or_else(|| self.table.by_tag(&header))
    }

    /// Creates an association from a cookie, if its port is still open.
    fn accept(&mut self, now: Time, route: Route, opened: &Opened) -> Option<AssociationId> {
        // A cookie creates one association. That one has ended: the packet is a retransmission or
        // replay.
        if self.table.is_spent(opened.local_tag) {
            self.counters.forged_cookies += 1;
            return None;
        }
        let refuse = match self.listeners.get(&opened.local_port).map(Arc::clone) {
            None => Err(Vec::new()),
            Some(config) if self.has_room(opened.peer.ip(), &config, MakeRoom::Yes) => Ok(config),
            Some(_) => Err(vec![Cause::OutOfResource]),
        };
        match refuse {
            Ok(config) => {
                let known = Known {
                    config: Arc::clone(&config),
                    local_port: opened.local_port,
                    peer_port: opened.peer_port,
                    tag: opened.local_tag,
                    initial_tsn: opened.local_initial_tsn,
                    tie_tags: self.new_tie_tags(),
                    cookie_until: Some(opened.created + opened.lifespan),
                };
                let route = Route { local: opened.local, peer: opened.peer };
                let local = self.addresses_for(route, &opened.peer_addresses);
                let setup = Passive { config, local, seed: next_seed(&mut self.rng) };
                let id = self.table.insert(known, |id| Association::accept(now, id, opened, setup));
                self.table.opened(now, id, opened.peer.ip());
                self.count_memory(now, id);
                self.map_paths(id);
                Some(id)
            }
            Err(causes) => {
                let header = Header {
                    source_port: opened.local_port,
                    destination_port: opened.peer_port,
                    tag: opened.peer_tag,
                };
                let chunks = vec![Chunk::Abort { reflected: false, causes }];
                self.answer_within_budget(now, Answer { route, header, chunks });
                None
            }
        }
    }

    /// §5.2.4 A: restarts the association with the peer.
    fn restart(
        &mut self,
        now: Time,
        route: Route,
        id: AssociationId,
        opened: &Opened,
    ) -> Option<AssociationId> {
        let tie_tags = self.new_tie_tags();
        let slot = self.table.get_mut(id)?;
        //= specs/rfc9260.txt#section-5.2.4
        //# If the endpoint is in the SHUTDOWN-ACK-SENT state and recognizes that
        //# the peer has restarted (Action A), it MUST NOT set up a new
        //# association but instead resend the SHUTDOWN ACK chunk and send an
        //# ERROR chunk with a "Cookie Received While Shutting Down" error cause
        if slot.association.phase() == Phase::ShutdownAckSent {
            //= specs/rfc9260.txt#section-5.2.4
            //# If the endpoint is in the SHUTDOWN-ACK-SENT state and recognizes
            //# that the peer has restarted (Action A), it MUST NOT set up a new
            //# association but instead resend the SHUTDOWN ACK chunk and send an
            //# ERROR chunk with a "Cookie Received While Shutting Down" error
            //# cause to its peer.
            let header = Header {
                source_port: slot.known.local_port,
                destination_port: slot.known.peer_port,
                tag: slot.association.peer_tag()?,
            };
            let error = Chunk::Error(vec![Cause::CookieReceivedWhileShuttingDown]);
            self.answer(Answer { route, header, chunks: vec![Chunk::ShutdownAck, error] });
            return None;
        }
        slot.association.restart(now, opened);
        slot.known.tie_tags = tie_tags;
        self.table.retag(now, id, opened.local_tag, Some(opened.created + opened.lifespan));
        self.map_paths(id);
        Some(id)
    }

    /// §5.2.4 B and D.
    fn confirm(&mut self, now: Time, id: AssociationId, opened: &Opened) -> Option<AssociationId> {
        let slot = self.table.get_mut(id)?;
        slot.association.confirm(now, opened);
        slot.known.cookie_until = slot.known.cookie_until.max(Some(opened.created + opened.lifespan));
        self.map_paths(id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::Tag::{M, O, X};
    use super::*;

    #[test]
    fn table_12_determines_the_action_for_a_cookie() {
        //= specs/rfc9260.txt#section-5.2.4
        //= type=test
        //# For any case not shown in Table 12, the cookie SHOULD be silently
        //# discarded.
        for peer in [M, X, O] {
            for ties in [M, X, O] {
                assert_eq!(action(M, peer, ties), Action::Confirm, "B, D: {peer:?} {ties:?}");
                let expected = if (peer, ties) == (X, M) { Action::Restart } else { Action::Discard };
                assert_eq!(action(X, peer, ties), expected, "A, C: {peer:?} {ties:?}");
            }
        }
    }
}
