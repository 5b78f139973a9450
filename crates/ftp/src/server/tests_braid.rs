//! The server session in braid: concurrent transfers, their order, their numbers and their aborts.

use super::tests::{Dialogue, SENT, braid, tcp};
use super::*;
use crate::mapping::{FIRST_FILES, TransferNumber};

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

fn path(path: &str) -> SafePath {
    SafePath::strict(path.as_bytes()).unwrap()
}

fn listed(job: JobId, files: &[&str]) -> Input {
    Input::Listed { job, files: files.iter().map(|file| path(file)).collect() }
}

/// The files that jobs send, with the numbers of their transfers.
fn files(jobs: &[(JobId, Do)]) -> Vec<(u32, String)> {
    let file = |(_, todo): &(JobId, Do)| match todo {
        Do::Send {
            data: DataPath::Framed { transfer },
            source: Source::File { path, offset: 0, .. },
            ..
        } => (transfer.0, path.to_string()),
        other => panic!("{other:?}"),
    };
    jobs.iter().map(file).collect()
}

//= specs/ftp-over-sctp.md#section-8.6
//= type=test
//# The n-th RETR without a path after an XTREE retrieves the n-th regular file that the listing names
#[test]
fn retr_without_a_path_retrieves_the_files_that_the_tree_names() {
    let mut dialogue = braid();
    dialogue.send("XTREE d\r\nRETR\r\nretr\r\nRETR /x\r\nRETR\r\n");
    let tree = dialogue.job();
    dialogue.handle(listed(tree, &["a"]));
    let first = dialogue.jobs();
    assert_eq!(files(&first), [(2, "d/a".into())]);
    dialogue.done(first[0].0, SENT);
    // Headers are sent in the order of the numbers: the file with a path waits for the one without.
    assert!(dialogue.jobs().is_empty());
    dialogue.handle(listed(tree, &["e/b", "c"]));
    let second = dialogue.jobs();
    assert_eq!(files(&second), [(3, "d/e/b".into())], "two at a time");
    dialogue.done(tree, SENT);
    let third = dialogue.jobs();
    assert_eq!(files(&third), [(4, "x".into())]);
    dialogue.done(second[0].0, SENT);
    let fourth = dialogue.jobs();
    assert_eq!(files(&fourth), [(5, "d/c".into())]);
    dialogue.done(third[0].0, SENT);
    dialogue.done(fourth[0].0, Err(Failure::Store(StoreError::Denied)));
    assert_eq!(dialogue.codes(), [226, 226, 226, 226, 550]);
    // After the end of the listing too, as long as no other tree is listed.
    dialogue.send("RETR\r\n");
    assert_eq!(dialogue.take_replies(), ["550 no further file"]);
    assert!(dialogue.session.is_idle());
}

#[test]
fn retr_without_a_path_is_refused_where_the_tree_has_no_further_file() {
    for ending in [SENT, Err(Failure::Store(StoreError::NotFound))] {
        let mut dialogue = braid();
        dialogue.send("XTREE\r\nRETR\r\nRETR\r\nRETR b\r\n");
        let tree = dialogue.job();
        dialogue.handle(listed(tree, &["a"]));
        let a = dialogue.job();
        dialogue.done(tree, ending.clone());
        let b = dialogue.jobs();
        assert_eq!(files(&b), [(4, "b".into())]);
        dialogue.done(a, SENT);
        dialogue.done(b[0].0, SENT);
        let tree = if ending.is_ok() { 226 } else { 550 };
        assert_eq!(dialogue.codes(), [tree, 226, 550, 226]);
    }
}

#[test]
fn retr_without_a_path_needs_a_tree_and_nothing_else() {
    let mut dialogue = braid();
    dialogue.send("RETR\r\n");
    assert_eq!(dialogue.codes(), [503]);
    dialogue.send("XTREE\r\nREST 5\r\nRETR\r\nRETR \r\n");
    let tree = dialogue.job();
    dialogue.done(tree, SENT);
    assert_eq!(dialogue.codes(), [226, 350, 554, 501]);
    // Of another user.
    dialogue.send("USER u\r\nPASS p\r\n");
    dialogue.todo.clear();
    dialogue.handle(Input::Authenticated(Ok(())));
    dialogue.send("RETR\r\n");
    assert_eq!(dialogue.codes(), [331, 230, 503]);
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms] {
        let mut dialogue = Dialogue::logged_in(carrier, Config::default());
        dialogue.send("RETR\r\n");
        assert_eq!(dialogue.codes(), [501]);
    }
}

#[test]
fn only_the_first_files_of_a_tree_need_no_path() {
    let mut dialogue = braid();
    dialogue.send("XTREE\r\n");
    let tree = dialogue.job();
    let names: Vec<String> = (0..2 * FIRST_FILES).map(|nth| format!("f{nth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    dialogue.handle(listed(tree, &names[..5]));
    dialogue.handle(listed(tree, &names[5..]));
    dialogue.handle(listed(JobId(77), &["of another job"]));
    dialogue.send(&"RETR\r\n".repeat(FIRST_FILES + 1));
    let mut sent = Vec::new();
    dialogue.done(tree, SENT);
    let mut jobs = dialogue.jobs();
    while !jobs.is_empty() {
        sent.extend(files(&jobs));
        jobs.iter().for_each(|(job, _)| dialogue.done(*job, SENT));
        jobs = dialogue.jobs();
    }
    let number = u32::try_from(FIRST_FILES).unwrap();
    assert_eq!(sent, (0..number).map(|nth| (nth + 2, format!("f{nth}"))).collect::<Vec<_>>());
    assert_eq!(dialogue.codes(), [vec![226; FIRST_FILES + 1], vec![550]].concat());
}

#[test]
fn a_file_without_a_path_can_be_aborted_with_and_without_its_listing() {
    let mut dialogue = braid();
    dialogue.send("XTREE\r\nRETR\r\nRETR\r\nABOR 2\r\n");
    let tree = dialogue.job();
    dialogue.handle(listed(tree, &["a", "b"]));
    let b = dialogue.jobs();
    assert_eq!(files(&b), [(3, "b".into())]);
    dialogue.done(b[0].0, SENT);
    dialogue.send("XTREE\r\nRETR\r\n");
    dialogue.send("ABOR\r\n");
    let todo = std::mem::take(&mut dialogue.todo);
    assert!(matches!(todo[..], [Do::Send { .. }, Do::Cancel { .. }, Do::Cancel { .. }]), "{todo:?}");
    let Do::Send { job: other, .. } = todo[0] else { panic!() };
    dialogue.done(tree, Err(Failure::Cancelled));
    dialogue.done(other, Err(Failure::Cancelled));
    assert_eq!(dialogue.codes(), [426, 426, 226, 226, 426, 426, 226]);
    assert!(dialogue.session.is_idle());
}

#[test]
fn a_login_waits_for_files_of_the_tree_before_it() {
    let mut dialogue = braid();
    dialogue.send("XTREE\r\nRETR\r\nRETR\r\nUSER u\r\n");
    let tree = dialogue.job();
    dialogue.handle(listed(tree, &["a"]));
    let a = dialogue.jobs();
    assert_eq!(files(&a), [(2, "a".into())]);
    dialogue.done(a[0].0, SENT);
    dialogue.done(tree, SENT);
    assert_eq!(dialogue.codes(), [226, 226, 550, 331]);
}

#[test]
fn another_tree_ends_what_waits_for_files_of_the_one_before() {
    let mut dialogue = braid();
    dialogue.send("XTREE d\r\nRETR\r\nXTREE e\r\nRETR\r\n");
    let jobs = dialogue.jobs();
    let [(d, _), (e, _)] = jobs[..] else { panic!("{jobs:?}") };
    dialogue.handle(listed(d, &["a"]));
    assert!(dialogue.jobs().is_empty());
    dialogue.handle(listed(e, &["b"]));
    dialogue.done(d, SENT);
    let b = dialogue.jobs();
    assert_eq!(files(&b), [(4, "e/b".into())]);
    dialogue.done(e, SENT);
    dialogue.done(b[0].0, SENT);
    assert_eq!(dialogue.codes(), [226, 550, 226, 226]);
}
