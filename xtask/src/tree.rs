//! `cargo xtask tree DIR [--files N] [--seed N] [--big SIZE] [--plain SIZE]`: creates test trees, nasty or
//! plain.
//!
//! The same arguments create the same tree, modification times included. A nasty tree has empty files, names
//! with spaces, in UTF-8 and in no valid encoding, names that look like listings, options and patterns,
//! twelve levels of folders, an empty folder, and symbolic links inside and out. A plain tree has many small
//! files in folders of a thousand.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

/// The name prefix of links that lead out of the tree. A copy must not have them.
pub(crate) const OUTSIDE: &str = "outside-";

/// The depth of the folders.
const LEVELS: usize = 12;

/// The parameters of a tree.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// The number of regular files, the big one included.
    pub(crate) files: usize,
    /// The seed.
    pub(crate) seed: u64,
    /// The size of the big file in bytes; 0: none.
    pub(crate) big: u64,
    /// The kind of names and sizes.
    pub(crate) kind: Kind,
}

/// The kind of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unusual names and folders.
    Nasty,
    /// Files of equal size with plain names.
    Plain {
        /// The size of every file, in bytes.
        size: u64,
    },
}

/// The contents of a created tree.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Made {
    /// The number of regular files.
    pub(crate) files: usize,
    /// The bytes in them.
    pub(crate) bytes: u64,
}

/// Names that have broken file transfer programs.
const NAMES: &[&[u8]] = &[
    b"a name with spaces",
    b" a leading space",
    b"a trailing space ",
    b"two  spaces",
    b"-rf",
    b"--",
    b"*",
    b"?",
    b"[ab]",
    b"{a,b}",
    b"~",
    b"$HOME",
    b"`true`",
    b"quote\"quote",
    b"it's",
    b"back\\slash",
    b"%2e%2e%2f",
    b"percent%",
    b"semi;colon",
    b"#hash",
    b"a&b",
    b"a:b",
    b"a=b",
    b"type=dir;size=0; x",
    b"-rw-r--r-- 1 root root 0 Jan  1 00:00 x",
    b"x -> y",
    b"226 Transfer complete",
    b".hidden",
    b"..hidden",
    b"...",
    b"name.",
    "\u{fc}n\u{ef}c\u{f8}d\u{e9}".as_bytes(),
    "e\u{301} decomposed".as_bytes(),
    "\u{65e5}\u{672c}\u{8a9e}".as_bytes(),
    "\u{1f98a} fox".as_bytes(),
    "\u{202e}right to left".as_bytes(),
    b"latin-\xe9",
    b"\x80\x81",
    b"\xff",
    b"telnet \xff\xf4\xff\xf2 interrupt",
    b"half a \xe6\x97 character",
];

/// A small generator with a fixed sequence (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// `cargo xtask tree`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    const USAGE: &str = "usage: cargo xtask tree DIR [--files N] [--seed N] [--big SIZE] [--plain SIZE]";
    let mut shape = Shape { files: 5_000, seed: 1, big: 1 << 30, kind: Kind::Nasty };
    let mut dir = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().context(USAGE);
        match word.as_str() {
            "--files" => shape.files = value()?.parse().context(USAGE)?,
            "--seed" => shape.seed = value()?.parse().context(USAGE)?,
            "--big" => shape.big = bytes(value()?)?,
            "--plain" => shape.kind = Kind::Plain { size: bytes(value()?)? },
            name if !name.starts_with('-') && dir.is_none() => dir = Some(PathBuf::from(name)),
            _ => bail!(USAGE),
        }
    }
    let dir = dir.context(USAGE)?;
    if dir.exists() {
        bail!("{} exists: name a folder that does not", dir.display());
    }
    let made = make(&dir, &shape)?;
    println!("{}: {} files, {} bytes", dir.display(), made.files, made.bytes);
    Ok(())
}

/// Parses `1GB`, `500kB`, `1GiB`, `10240`.
pub(crate) fn bytes(text: &str) -> Result<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match &text[digits..] {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => bail!("`{text}` is not a size: write a number and B, kB, MB, GB, KiB, MiB or GiB"),
    };
    let number: u64 = text[..digits].parse().with_context(|| format!("`{text}` is not a size"))?;
    number.checked_mul(unit).with_context(|| format!("`{text}` is too large"))
}

/// Creates the tree at `dir`, which must not exist.
pub(crate) fn make(dir: &Path, shape: &Shape) -> Result<Made> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut maker = Maker { rng: Rng(shape.seed), made: Made::default() };
    match shape.kind {
        Kind::Plain { size } => {
            for number in 0..shape.files {
                let folder =
                    if shape.files > 1_000 { dir.join(format!("{:03}", number / 1_000)) } else { dir.into() };
                if number % 1_000 == 0 {
                    fs::create_dir_all(&folder)?;
                }
                maker.file(&folder.join(format!("{number:06}")), size)?;
            }
        }
        Kind::Nasty => maker.nasty(dir, shape)?,
    }
    if shape.big > 0 {
        maker.file(&dir.join("big"), shape.big)?;
    }
    Ok(maker.made)
}

/// Creates a tree and counts its contents.
struct Maker {
    rng: Rng,
    made: Made,
}

impl Maker {
    fn nasty(&mut self, dir: &Path, shape: &Shape) -> Result<()> {
        let folders = folders(dir);
        for folder in &folders {
            fs::create_dir_all(folder)?;
        }
        fs::create_dir_all(dir.join("an empty folder"))?;
        links(dir)?;
        self.file(&dir.join("n".repeat(255)), 17)?;
        for (place, name) in NAMES.iter().enumerate() {
            let size = if place % 3 == 0 { 0 } else { self.rng.below(3_000) };
            self.file(&dir.join("names").join(OsStr::from_bytes(name)), size)?;
        }
        let left = shape.files.saturating_sub(self.made.files + usize::from(shape.big > 0));
        for number in 0..left {
            let folder = &folders[number % folders.len()];
            let size = match self.rng.below(100) {
                0..10 => 0,
                10..80 => self.rng.below(4_096),
                80..98 => self.rng.below(32_768),
                _ => self.rng.below(400_000),
            };
            let mut name = NAMES[self.rng.below(NAMES.len() as u64) as usize].to_vec();
            name.extend_from_slice(format!("{number}").as_bytes());
            self.file(&folder.join(OsStr::from_bytes(&name)), size)?;
        }
        Ok(())
    }

    /// A file of random bytes, last modified at some second of the last twenty years.
    fn file(&mut self, path: &Path, size: u64) -> Result<()> {
        let failed = || format!("cannot write {}", path.display());
        let mut file = File::create_new(path).with_context(failed)?;
        let mut left = size;
        let mut block = [0; 1 << 16];
        while left > 0 {
            let now = left.min(block.len() as u64) as usize;
            for word in block[..now.next_multiple_of(8)].chunks_exact_mut(8) {
                word.copy_from_slice(&self.rng.next().to_le_bytes());
            }
            file.write_all(&block[..now]).with_context(failed)?;
            left -= now as u64;
        }
        let changed = 1_100_000_000 + self.rng.below(600_000_000);
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(changed)).with_context(failed)?;
        self.made.files += 1;
        self.made.bytes += size;
        Ok(())
    }
}

/// The folders for the files: a chain of twelve, some beside it, and some with names like the files'.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned(), dir.join("names")];
    let mut deep = dir.to_owned();
    for level in 1..=LEVELS {
        deep = deep.join(format!("level {level}"));
        all.push(deep.clone());
    }
    for number in 0..20 {
        all.push(dir.join("wide").join(format!("{number}")));
    }
    for name in NAMES.iter().step_by(4) {
        all.push(dir.join("folders").join(OsStr::from_bytes(name)));
    }
    all
}

/// Links inside the tree, which a copy keeps, and links outside, which it must not have.
fn links(dir: &Path) -> Result<()> {
    let link = |target: &[u8], name: &str| {
        std::os::unix::fs::symlink(OsStr::from_bytes(target), dir.join(name))
            .with_context(|| format!("cannot make the link {name}"))
    };
    link(b"names/.hidden", "a link to a file")?;
    link(b"level 1/level 2", "a link to a folder")?;
    link(b"names/latin-\xe9", "a link to no text")?;
    link(b"no such file", "a dangling link")?;
    link(b".", "a link to its own folder")?;
    link(b"../names/...", "level 1/a link up and down")?;
    link(b"/etc/passwd", &format!("{OUTSIDE}absolute"))?;
    link(b"../../../../../../../../etc/passwd", &format!("level 1/{OUTSIDE}far up"))?;
    link(b"..", &format!("{OUTSIDE}up"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_with_units() {
        assert_eq!(bytes("1GB").unwrap(), 1_000_000_000);
        assert_eq!(bytes("10240").unwrap(), 10_240);
        assert_eq!(bytes("2MiB").unwrap(), 2 << 20);
        for text in ["", "GB", "1.5GB", "1furlong", "99999999999999999999", "99999999999999GB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_sequence_of_numbers_is_fixed() {
        let mut rng = Rng(1);
        assert_eq!([rng.next(), rng.next()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
    }
}
