//! The server session in braid: concurrent transfers, their order, their numbers and their aborts.

use super::tests::{Dialogue, SENT, braid};
use super::*;
use crate::mapping::TransferNumber;

#[test]
fn braid_runs_transfers_concurrently_and_replies_in_order() {
    let mut dialogue = braid();
    dialogue.send("RETR a\r\nRETR b\r\nSIZE c\r\nRETR d\r\n");
    let jobs = dialogue.jobs();
    // At most two transfers; SIZE does not count as one.
    let [(a, _), (b, _), (c, _)] = jobs[..] else { panic!("{jobs:?}") };
    assert!(matches!(jobs[1].1, Do::Send { data: DataPath::Framed { transfer: TransferNumber(2) }, .. }));
    dialogue.size(c, 7);
    dialogue.done(b, SENT);
    let d = dialogue.job();
    assert!(dialogue.take_replies().is_empty(), "replies wait for the first");
    dialogue.done(a, SENT);
    assert_eq!(dialogue.codes(), [226, 226, 213]);
    dialogue.done(d, SENT);
    assert_eq!(dialogue.codes(), [226]);
}

#[test]
fn braid_runs_more_uploads_than_downloads() {
    let mut dialogue = braid();
    dialogue.send("RETR a\r\nSTOR b\r\nSTOR c\r\nSTOR d\r\nRETR e\r\n");
    let jobs = dialogue.jobs();
    let [(a, _), (b, _), (c, _)] = jobs[..] else { panic!("{jobs:?}") };
    assert!(matches!(jobs[2].1, Do::Receive { data: DataPath::Framed { transfer: TransferNumber(3) }, .. }));
    dialogue.done(a, SENT);
    let d = dialogue.job();
    // Three transfers run; the next place is the download's, whatever comes behind it.
    dialogue.send("STOR f\r\n");
    assert_eq!(dialogue.jobs().len(), 0);
    dialogue.done(b, SENT);
    let jobs = dialogue.jobs();
    assert!(matches!(jobs[..], [(_, Do::Send { .. })]), "{jobs:?}");
    dialogue.done(c, SENT);
    assert!(matches!(dialogue.jobs()[..], [(_, Do::Receive { .. })]));
    dialogue.done(d, SENT);
    assert_eq!(dialogue.codes(), [226; 4]);
}

#[test]
fn braid_runs_at_most_the_allowed_transfers_and_at_least_one() {
    let mut dialogue = braid();
    dialogue.session.allow_transfers(0);
    dialogue.send("RETR a\r\nRETR b\r\nRETR c\r\n");
    let jobs = dialogue.jobs();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    dialogue.session.allow_transfers(100);
    dialogue.drain();
    assert_eq!(dialogue.jobs().len(), 1, "the configuration says two");
    dialogue.session.allow_transfers(1);
    dialogue.done(jobs[0].0, SENT);
    assert!(dialogue.jobs().is_empty(), "one of the two still runs");
}

//= specs/ftp-over-sctp.md#section-6.3
//= type=test
//# An upload that must wait for earlier commands (6.4) MUST hold up the uploads behind it
#[test]
fn braid_begins_no_upload_before_an_earlier_one_that_waits_for_its_folder() {
    let mut dialogue = braid();
    dialogue.send("MKD d\r\nMKD e\r\nSTOR d/f\r\nSTOR e/1\r\nSTOR e/2\r\nSTOR e/3\r\nRETR x\r\n");
    let jobs = dialogue.jobs();
    let [(d, _), (e, _), (x, _)] = jobs[..] else { panic!("{jobs:?}") };
    // The second folder is there first: the uploads to it would take all places, and their frames come behind those of d/f.
    dialogue.done(e, Ok(Outcome::Changed));
    assert!(dialogue.jobs().is_empty());
    dialogue.done(d, Ok(Outcome::Changed));
    let uploads = dialogue.jobs();
    assert_eq!(uploads.len(), 2, "{uploads:?}");
    assert_eq!(dialogue.session.upload(TransferNumber(1)), Upload::Open(uploads[0].0));
    dialogue.done(x, SENT);
    assert_eq!(dialogue.jobs().len(), 1);
}

#[test]
fn braid_keeps_the_order_of_commands_on_the_same_path() {
    let mut dialogue = braid();
    dialogue.send("MKD d\r\nSTOR d/f\r\nSIZE d/f\r\nSIZE e\r\nDELE x\r\n");
    let jobs = dialogue.jobs();
    // STOR waits for its folder and SIZE for STOR; the other commands wait for nothing.
    assert_eq!(jobs.len(), 3, "{jobs:?}");
    assert_eq!(dialogue.session.upload(TransferNumber(1)), Upload::Undecided);
    dialogue.done(jobs[0].0, Ok(Outcome::Changed));
    let stor = dialogue.job();
    assert_eq!(dialogue.session.upload(TransferNumber(1)), Upload::Open(stor));
    dialogue.done(stor, Ok(Outcome::Received { bytes: 3, name: None }));
    assert_eq!(dialogue.session.upload(TransferNumber(1)), Upload::Over);
    let size = dialogue.job();
    dialogue.size(size, 3);
    dialogue.size(jobs[1].0, 4);
    dialogue.done(jobs[2].0, Ok(Outcome::Changed));
    assert_eq!(dialogue.codes(), [257, 226, 213, 213, 250]);
}

//= specs/ftp-over-sctp.md#section-6.1
//= type=test
//# Both sides count by the verb alone, whether or not the command is refused, its argument is valid, and a user is
//# logged in.
#[test]
fn braid_numbers_transfers_by_the_verb_alone() {
    let mut dialogue = Dialogue::new(Carrier::Braid { data_streams: 2 }, Config::default());
    dialogue.send("RETR a\r\nstor\r\nMLSD x\0y\r\nUSER u\r\nPASS p\r\nSTOR /\r\nXTREE\r\n");
    assert_eq!(dialogue.codes(), [530, 501, 501, 331]);
    assert!(matches!(dialogue.todo[..], [Do::Authenticate { .. }]), "{:?}", dialogue.todo);
    dialogue.todo.clear();
    assert_eq!(dialogue.session.upload(TransferNumber(2)), Upload::Over);
    assert_eq!(dialogue.session.upload(TransferNumber(4)), Upload::Undecided);
    dialogue.handle(Input::Authenticated(Ok(())));
    let todo = std::mem::take(&mut dialogue.todo);
    assert_eq!(dialogue.session.upload(TransferNumber(4)), Upload::Over);
    let [Do::Send { data, .. }] = &todo[..] else { panic!("{todo:?}") };
    assert_eq!(*data, DataPath::Framed { transfer: TransferNumber(5) });
}

#[test]
fn braid_aborts_the_transfer_with_the_given_number() {
    let mut dialogue = braid();
    dialogue.send("RETR a\r\nRETR b\r\nRETR c\r\n");
    dialogue.send("ABOR 2\r\nABOR 3\r\n");
    let todo = std::mem::take(&mut dialogue.todo);
    let [Do::Send { job: a, .. }, Do::Send { job: b, .. }, Do::Cancel { job }] = todo[..] else {
        panic!("{todo:?}")
    };
    assert_eq!(job, b);
    dialogue.done(b, Err(Failure::Cancelled));
    dialogue.done(a, SENT);
    // The third transfer had not begun.
    assert_eq!(dialogue.codes(), [226, 426, 426, 226, 226]);
    assert!(dialogue.todo.is_empty());
}

#[test]
fn braid_permits_only_image_type_and_no_data_connections() {
    let mut dialogue = braid();
    dialogue.send("TYPE A\r\nTYPE I\r\nPASV\r\nEPSV\r\nEPRT |1|127.0.0.1|5001|\r\nPORT 127,0,0,1,39,16\r\n");
    assert_eq!(dialogue.codes(), [504, 200, 503, 503, 503, 503]);
}
