//! Drives the key management of each association, with its timers.

use braidftp_base::Time;
use braidftp_keys::{KeyEvent, KeyManager};
use braidftp_sctp::{AssociationId, DtlsEvent};
use tracing::debug;

use crate::core::Core;
use crate::events::Event;

impl Core {
    /// Processes an event of an association's keys.
    pub(crate) fn on_keys(&mut self, now: Time, id: AssociationId, event: Option<DtlsEvent>) {
        let Self { machine, seats, wakes, .. } = self;
        let Some(association) = machine.association_mut(id) else { return };
        let Some(seat) = seats.get_mut(&id) else { return };
        let Some(protection) = &mut seat.protection else { return };
        let manager = match (&mut protection.manager, association.dtls_agreement()) {
            (Some(manager), _) => manager,
            (manager, Some(agreement)) => {
                manager.insert(KeyManager::new(now, protection.settings.clone(), agreement.clone()))
            }
            (None, None) => return,
        };
        let driven = manager.drive(now, event, association);
        wakes.set(id, protection.wake, driven.wait);
        protection.wake = driven.wait;
        for event in driven.events {
            debug!(association = id.0, ?event, "keys");
            match event {
                KeyEvent::Protected => {
                    if let (None, Some(up)) = (seat.up, protection.up) {
                        seat.up = Some(up);
                        seat.events.push(Event::Up(up));
                    }
                    seat.signals.state.notify_waiters();
                    seat.signals.writable.notify_waiters();
                    if let Some(backlog) = self.backlogs.get(&association.ports().0) {
                        backlog.arrived.notify_waiters();
                    }
                }
                KeyEvent::Failed(error) => protection.failed = Some(error),
                KeyEvent::Rekeyed(_) | KeyEvent::Retried(_) => {}
            }
        }
    }

    /// Drives the key managers that are due.
    pub(crate) fn drive_keys(&mut self, now: Time) {
        while let Some(id) = self.wakes.take_due(now) {
            if let Some(protection) = self.seats.get_mut(&id).and_then(|seat| seat.protection.as_mut()) {
                protection.wake = None;
            }
            self.on_keys(now, id, None);
        }
    }

    /// A closed association needs no keys.
    pub(crate) fn stop_keys(&mut self, id: AssociationId) {
        if let Some(protection) = self.seats.get_mut(&id).and_then(|seat| seat.protection.as_mut()) {
            self.wakes.set(id, protection.wake.take(), None);
        }
    }
}
