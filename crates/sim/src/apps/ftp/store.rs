//! Files in memory whose contents follow from their number: file data is a slice of one pattern, with
//! which received data is compared.

use bytes::Bytes;

use crate::random::Random;

/// The period of the pattern: a prime, so that missing, duplicate or swapped packets are detected.
const PERIOD: usize = 65_521;
/// The maximum length of a slice.
pub(super) const SLICE_MAX: usize = 65_536;
/// The random stream of the pattern.
const RANDOM_STREAM: u64 = 1 << 50;

/// The files.
#[derive(Debug)]
pub(super) struct Store {
    sizes: Vec<u64>,
    pattern: Bytes,
}

impl Store {
    /// Creates files of these sizes in bytes.
    pub(super) fn new(sizes: Vec<u64>) -> Self {
        let mut pattern = vec![0; PERIOD];
        Random::new(0, RANDOM_STREAM).fill(&mut pattern);
        let again: Vec<u8> = pattern.iter().copied().cycle().take(SLICE_MAX).collect();
        pattern.extend(again);
        Self { sizes, pattern: pattern.into() }
    }

    /// The number of files.
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The name of a file.
    pub(super) fn name(file: usize) -> String {
        format!("f{file:04}")
    }

    /// Returns the file with this name.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let file = std::str::from_utf8(name.strip_prefix(b"f")?).ok()?.parse().ok()?;
        (file < self.len() && Self::name(file).as_bytes() == name).then_some(file)
    }

    /// The size of a file in bytes.
    pub(super) fn size(&self, file: usize) -> u64 {
        self.sizes[file]
    }

    /// Returns a part of the content, of at most `most` bytes.
    pub(super) fn content(&self, file: usize, offset: u64, most: usize) -> Bytes {
        let left = self.sizes[file].saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(most).min(SLICE_MAX);
        let start = Self::place(file, offset);
        self.pattern.slice(start..start + length)
    }

    /// Whether a file has these bytes at this offset.
    pub(super) fn matches(&self, file: usize, offset: u64, bytes: &[u8]) -> bool {
        let left = self.sizes[file].saturating_sub(offset);
        let start = Self::place(file, offset);
        bytes.len() as u64 <= left
            && self.pattern.get(start..start + bytes.len()).is_some_and(|expected| expected == bytes)
    }

    fn place(file: usize, offset: u64) -> usize {
        ((offset + file as u64 * 7_919) % PERIOD as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_equals_its_slices_and_differs_from_all_other_files() {
        let store = Store::new(vec![200_000, 200_000, 0]);
        let whole = |file| {
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < store.size(file) {
                bytes.extend_from_slice(&store.content(file, bytes.len() as u64, 30_001));
            }
            bytes
        };
        assert_eq!(whole(0).len(), 200_000);
        assert_eq!(whole(2).len(), 0);
        for (at, part) in whole(1).chunks(1_452).enumerate() {
            let at = at as u64 * 1_452;
            assert!(store.matches(1, at, part));
            assert!(!store.matches(0, at, part) && !store.matches(1, at + 1_452, part));
        }
        assert!(!store.matches(0, 199_999, &whole(0)[..2]), "beyond the end");
    }

    #[test]
    fn files_are_found_by_their_names_alone() {
        let store = Store::new(vec![1; 12]);
        assert_eq!(
            (0..12).map(|file| store.find(Store::name(file).as_bytes())).collect::<Vec<_>>(),
            (0..12).map(Some).collect::<Vec<_>>()
        );
        for name in ["f0012", "f1", "g0001", "f", "", "f00001"] {
            assert_eq!(store.find(name.as_bytes()), None, "{name}");
        }
    }
}
