//! Listings: lines of real servers, and what is rejected.

use proptest::prelude::*;

use super::*;
use crate::path::SafeName;
use crate::stamp::Timestamp;
use crate::store::FileKind;

/// 2026-11-20 11:09:00.
const NOW: Timestamp = Timestamp::from_seconds(1_795_172_940);

fn list(line: &str) -> Entry {
    match parse_list(line.as_bytes(), NOW) {
        Ok(Parsed::Entry(entry)) => entry,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn listings_of_many_servers_are_parsed() {
    use FileKind::{Directory, File, Other, Symlink};
    for (line, kind, size, modified, name) in [
        ("-rw-r--r--   1 ftp      ftp          1234 Nov 20 11:09 a b", File, 1234, "20261120110900", "a b"),
        ("-rw-r--r--   1 ftp      ftp          1234 Nov 20 11:09  two", File, 1234, "20261120110900", " two"),
        ("-rw-r--r--   1 ftp      ftp          1234 Dec 24 11:09 x", File, 1234, "20251224110900", "x"),
        ("-rw-r--r--   1 ftp      ftp          1234 Feb 29  2024 x", File, 1234, "20240229000000", "x"),
        ("drwxr-xr-x+  2 domain users  4096 Nov  2 2025 d", Directory, 0, "20251102000000", "d"),
        ("-rw-r--r--.  1 Domain Users 99 20 Nov 11:09 day-first", File, 99, "20261120110900", "day-first"),
        ("-rw-r--r--   1 ftp 17 Nov 20 11:09 no group", File, 17, "20261120110900", "no group"),
        ("-rw-r--r-- 1 a b 5 2026-11-20 11:09 iso", File, 5, "20261120110900", "iso"),
        ("-rw-r--r-- 1 a b 5 2026-11-20 11:09:01.500000000 +0100 iso", File, 5, "20261120100901", "iso"),
        ("-rw-r--r-- 1 a b 5 20. nov 11:09 x", File, 5, "20261120110900", "x"),
        ("-rw-r--r-- 1 a b 5 11月 20 11:09 x", File, 5, "20261120110900", "x"),
        ("-rw-r--r-- 1 a b 5 Mär 20 11:09 x", File, 5, "", "x"),
        ("-rw-r--r-- 1 a b 5 févr. 20 2024 x", File, 5, "", "x"),
        ("crw-rw---- 1 root tty 4, 64 Nov 20 11:09 ttyS0", Other, 0, "20261120110900", "ttyS0"),
        ("lrwxrwxrwx 1 a b 5 Nov 20 11:09 link -> ../x y", Symlink, 0, "20261120110900", "link"),
        ("d [R----F--] supervisor 512 Jan 16 18:53 login", Directory, 0, "20260116185300", "login"),
        (
            "11-20-26  11:09AM       <DIR>          Program Files",
            Directory,
            0,
            "20261120110900",
            "Program Files",
        ),
        ("11-20-2026  12:09PM              1234 a  b.txt", File, 1234, "20261120120900", "a  b.txt"),
        ("11-20-26  12:09AM              1,234 m", File, 1234, "20261120000900", "m"),
        ("2026-11-20  23:09      7 x", File, 7, "20261120230900", "x"),
        ("+i8388621.48594,m1795172940,r,s280,up644,\tdjb.html", File, 280, "20261120110900", "djb.html"),
        ("+/,\tsub", Directory, 0, "", "sub"),
    ] {
        let entry = list(line);
        let stamp = entry.metadata.modified.map(|stamp| stamp.to_string()).unwrap_or_default();
        assert_eq!(
            (entry.metadata.kind, entry.metadata.size, stamp.as_str(), entry.path.as_bytes()),
            (kind, size, modified, name.as_bytes()),
            "{line}"
        );
    }
    assert_eq!(
        list("lrwxrwxrwx 1 a b 5 Nov 20 11:09 link -> ../x y").metadata.target.as_deref(),
        Some(&b"../x y"[..])
    );
    assert_eq!(list("-rwsr-x--T 1 a b 5 Nov 20 11:09 x").metadata.unix_mode, Some(0o5750));
}

#[test]
fn non_entries_are_skipped_and_unsafe_names_are_rejected() {
    for line in ["", "  ", "total 12", "insgesamt 4", "drwxr-xr-x 1 a b 5 Nov 20 11:09 ..", "+/,\t."] {
        assert_eq!(parse_list(line.as_bytes(), NOW), Ok(Parsed::Nothing), "{line}");
    }
    for line in
        ["hello", "-rw-r--r-- 1 a b", "-rw-r--r-- 1 a b 5 Nov 20 11:09", "11-20-26 11:09AM <DIR>", "+r,x"]
    {
        assert_eq!(parse_list(line.as_bytes(), NOW), Err(ListingError::Form), "{line}");
    }
    for line in ["-rw-r--r-- 1 a b 5 Nov 20 11:09 ../x", "11-20-26 11:09AM 5 /etc/passwd", "+r,\ta/b"] {
        assert!(matches!(parse_list(line.as_bytes(), NOW), Err(ListingError::Name(_))), "{line}");
    }
}

#[test]
fn facts_of_other_servers_are_parsed() {
    for (line, kind, size, path) in [
        ("Type=file;Size=25730;Modify=19940728095854;Perm=; cap8.txt", FileKind::File, 25_730, "cap8.txt"),
        ("type=cdir;modify=20261120110900;perm=el; /whole/path", FileKind::Directory, 0, ""),
        ("type=OS.unix=slink:/target;unique=1g2; link", FileKind::Symlink, 0, "link"),
        ("type=file;size=1  leading", FileKind::File, 1, " leading"),
        ("type=dir;unknown=x;modify=nonsense; a/b", FileKind::Directory, 0, "a/b"),
    ] {
        match parse_line(line.as_bytes()) {
            Ok(Parsed::Entry(entry)) => {
                assert_eq!((entry.metadata.kind, entry.metadata.size), (kind, size), "{line}");
                assert_eq!(entry.path.as_bytes(), path.as_bytes(), "{line}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    assert_eq!(parse_line(b"type=pdir; .."), Ok(Parsed::Nothing));
    assert_eq!(parse_line(b""), Ok(Parsed::Nothing));
}

//= specs/ftp-over-sctp.md#section-8.2
//= type=test
//# MUST refuse a path with an empty name, `.`, `..`, a leading `/`, NUL, CR or LF.
#[test]
fn facts_with_unsafe_paths_are_refused() {
    for path in ["../x", "/etc/passwd", "a/../../b", "a//b", "a/.", "a\0b", "a\rb", "a\nb", "", "a/"] {
        let line = format!("type=file; {path}");
        assert!(matches!(parse_line(line.as_bytes()), Err(ListingError::Name(_))), "{path:?}");
    }
    for line in ["type=file;", "size=1; x", "nonsense x", "type=file"] {
        assert_eq!(parse_line(line.as_bytes()), Err(ListingError::Form), "{line}");
    }
}

//= specs/ftp-over-sctp.md#section-8.3
//= type=test
//# the server MUST send a line `type=dir;x.error=code;` with the folder's path
#[test]
fn an_incomplete_folder_is_marked() {
    let path = SafePath::strict(b"a/b").unwrap();
    let unreadable = Gap { why: Code::FILE_UNAVAILABLE, name: None };
    let unsaid = Gap { why: Code::NAME_NOT_ALLOWED, name: Some("x\ny;z".into()) };
    for (path, what, gap, expected) in [
        (path, What::Entry, unreadable, &b"type=dir;x.error=550; a/b\r\n"[..]),
        (SafePath::ROOT, What::This, unsaid, b"type=cdir;x.error=553;x.name=x%0Ay%3Bz; .\r\n"),
    ] {
        let line = encode_incomplete(&path, what, &gap);
        assert_eq!(line, expected);
        let Ok(Parsed::Entry(entry)) = parse_line(&line[..line.len() - 2]) else { panic!() };
        assert_eq!((entry.path, entry.listed), (path, Listed::Incomplete(gap)));
    }
}

#[test]
fn a_link_to_a_file_has_the_size_that_retr_would_send() {
    let mut link = Metadata::new(FileKind::Symlink, 5);
    assert_eq!(encode_facts(&link, FactSet::ALL), b"type=OS.unix=slink;size=5;");
    link.size = 0;
    assert_eq!(encode_facts(&link, FactSet::ALL), b"type=OS.unix=slink;", "it leads to no file");
}

#[test]
fn names_may_have_the_requested_path_as_prefix() {
    for (line, asked, name) in [
        ("a", "", Some("a")),
        ("a", "dir", Some("a")),
        ("dir/a", "dir", Some("a")),
        ("dir/a", "dir/", Some("a")),
        ("/x/dir/a", "/x/dir", Some("a")),
        ("/a", "/", Some("a")),
        ("./a", "", Some("a")),
        ("dir", "dir", Some("dir")),
        ("directory", "dir", Some("directory")),
        (".", "", None),
        ("..", "", None),
        ("", "", None),
    ] {
        let found = parse_name(line.as_bytes(), asked.as_bytes()).unwrap();
        assert_eq!(found, name.map(|name| SafeName::new(name).unwrap()), "{line} {asked}");
    }
    for (line, asked) in [("../x", ""), ("a/b", ""), ("dir/../x", "dir"), ("/etc/passwd", "dir")] {
        assert!(parse_name(line.as_bytes(), asked.as_bytes()).is_err(), "{line}");
    }
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let kind = prop_oneof![
        Just(FileKind::File),
        Just(FileKind::Directory),
        Just(FileKind::Symlink),
        Just(FileKind::Other)
    ];
    let target = proptest::collection::vec(1_u8.., 1..20);
    (kind, any::<u64>(), 0_i64..4_000_000_000, 0_u32..0o10_000, target, any::<(u64, u64)>()).prop_map(
        |(kind, size, seconds, mode, target, unique)| Metadata {
            kind,
            size: if kind == FileKind::File { size } else { 0 },
            modified: Some(Timestamp::from_seconds(seconds)),
            unix_mode: Some(mode),
            target: (kind == FileKind::Symlink).then(|| target.into()),
            unique: Some(unique),
            is_linked: false,
        },
    )
}

fn name() -> impl Strategy<Value = SafeName> {
    proptest::collection::vec(any::<u8>(), 1..20).prop_filter_map("unsafe", |name| SafeName::new(name).ok())
}

#[test]
fn a_tree_identifies_folders_and_files_with_several_names() {
    let line = |kind, is_linked| {
        let metadata = Metadata { unique: Some((1, 2)), is_linked, ..Metadata::new(kind, 3) };
        String::from_utf8(encode_tree_line(&metadata, &SafePath::strict(b"a").unwrap())).unwrap()
    };
    assert_eq!(line(FileKind::File, false), "type=file;size=3; a\r\n");
    assert_eq!(line(FileKind::File, true), "type=file;size=3;unique=1g2; a\r\n");
    assert_eq!(line(FileKind::Directory, false), "type=dir;unique=1g2; a\r\n");
}

proptest! {
    #[test]
    fn facts_come_back(metadata in metadata(), names in proptest::collection::vec(name(), 0..4)) {
        let path = names.iter().fold(SafePath::ROOT, |path, name| path.join(name).unwrap());
        let line = encode_line(&metadata, &path, FactSet::ALL);
        prop_assert!(line.ends_with(b"\r\n"));
        let entry = Entry { path, metadata, listed: Listed::Whole };
        prop_assert_eq!(parse_line(&line[..line.len() - 2]), Ok(Parsed::Entry(entry)));
    }

    #[test]
    fn our_own_ls_comes_back(metadata in metadata(), name in name()) {
        let path = SafePath::from(name);
        let line = encode_unix(&metadata, &path, NOW);
        let Ok(Parsed::Entry(entry)) = parse_list(&line[..line.len() - 2], NOW) else { panic!() };
        prop_assert_eq!(entry.metadata.kind, metadata.kind);
        prop_assert_eq!(entry.metadata.size, metadata.size);
        prop_assert_eq!(entry.metadata.unix_mode.map(|mode| mode & 0o777), metadata.unix_mode.map(|mode| mode & 0o777));
        // A name with an arrow is indistinguishable from a symbolic link.
        if metadata.kind != FileKind::Symlink {
            prop_assert_eq!(entry.path, path);
        }
    }

    #[test]
    fn no_line_panics_and_none_gives_an_unsafe_path(
        head in prop_oneof![Just(""), Just("-rw-r--r-- 1 a b 5 Nov 20 11:09 "), Just("type=file; "), Just("+r,\t"), Just("11-20-26 11:09AM 5 ")],
        tail in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let line = [head.as_bytes(), &tail].concat();
        for parsed in [parse_list(&line, NOW), parse_line(&line)] {
            if let Ok(Parsed::Entry(entry)) = parsed {
                for name in entry.path.components() {
                    prop_assert!(SafeName::new(name.as_bytes().to_vec()).is_ok());
                }
            }
        }
        let _ = parse_name(&line, b"dir");
    }
}
