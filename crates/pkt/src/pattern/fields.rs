//! Reads the fields of an item one by one, in the order of the grammar.

use crate::script::{Field, Item, ScriptError, Value};

type Result<T> = std::result::Result<T, ScriptError>;

/// The bounds of a number, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    /// All numbers of `bytes` bytes.
    pub(super) const fn of_bytes(bytes: usize) -> Self {
        Self { min: 0, max: u64::MAX >> (64 - 8 * bytes) }
    }
}

/// The fields of an item that have not been read yet.
pub(super) struct Fields<'a> {
    item: &'a Item,
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(item: &'a Item) -> Self {
        Self { item, at: 0 }
    }

    pub(super) fn error<T>(&self, what: impl std::fmt::Display) -> Result<T> {
        Err(ScriptError::new(self.item.line, format!("{}: {what}", self.item.name)))
    }

    fn wrong<T>(&self, key: &str, what: &str) -> Result<T> {
        self.error(format_args!("{key} must be {what}"))
    }

    /// The value of the next field, which must be `key`.
    pub(super) fn value(&mut self, key: &str) -> Result<&'a Value> {
        match self.item.fields.get(self.at) {
            Some(Field { key: Some(found), value }) if found == key => {
                self.at += 1;
                Ok(value)
            }
            Some(Field { key: Some(found), .. }) => self.error(format_args!("expected {key}=, got {found}=")),
            _ => self.error(format_args!("expected {key}=")),
        }
    }

    pub(super) fn number(&mut self, key: &str, range: Range) -> Result<Option<u64>> {
        match self.value(key)? {
            Value::Any => Ok(None),
            Value::Number(number) if (range.min..=range.max).contains(number) => Ok(Some(*number)),
            _ => self.wrong(key, &format!("a number from {} to {}, or ...", range.min, range.max)),
        }
    }

    /// `flgs=`, as a number or as `letters`, the first of which is the lowest bit.
    pub(super) fn flags(&mut self, letters: &str) -> Result<Option<u8>> {
        match self.value("flgs")? {
            Value::Any => Ok(None),
            Value::Number(number) if *number <= 0xff => Ok(Some(*number as u8)),
            Value::Word(word) if !letters.is_empty() => {
                let mut flags = 0;
                for letter in word.chars() {
                    match letters.find(letter) {
                        Some(bit) if flags & 1 << bit == 0 => flags |= 1 << bit,
                        _ => {
                            return self.wrong("flgs", &format!("letters of {letters}, each at most once"));
                        }
                    }
                }
                Ok(Some(flags))
            }
            _ => self.wrong("flgs", "a byte, or ..."),
        }
    }

    /// `type=` of a chunk, by number or name.
    pub(super) fn chunk_type(&mut self, names: &[(&str, u8)]) -> Result<Option<u8>> {
        match self.value("type")? {
            Value::Any => Ok(None),
            value => match chunk_type(value, names) {
                Some(kind) => Ok(Some(kind)),
                None => self.wrong("type", "a chunk type, or ..."),
            },
        }
    }

    pub(super) fn bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.value(key)?;
        match (value, super::list(value)) {
            (Value::Any, _) | (Value::List(_), None) => Ok(None),
            (_, Some(values)) => {
                let byte = |value: &Value| match value {
                    Value::Number(number) => u8::try_from(*number).ok(),
                    _ => None,
                };
                match values.iter().map(byte).collect() {
                    Some(bytes) => Ok(Some(bytes)),
                    None => self.wrong(key, "a list of bytes"),
                }
            }
            _ => self.wrong(key, "a list of bytes, or ..."),
        }
    }

    pub(super) fn numbers(&mut self, key: &str) -> Result<Option<Vec<u32>>> {
        let number = |value: &Value| match value {
            Value::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        self.list_of(key, "numbers", number)
    }

    pub(super) fn gaps(&mut self, key: &str) -> Result<Option<Vec<(u16, u16)>>> {
        let gap = |value: &Value| match value {
            Value::Gap(from, to) => Some((u16::try_from(*from).ok()?, u16::try_from(*to).ok()?)),
            _ => None,
        };
        self.list_of(key, "gap blocks", gap)
    }

    /// A list of what `read` parses; `None` for `...`.
    pub(super) fn list_of<T>(
        &mut self,
        key: &str,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let value = self.value(key)?;
        match (value, super::list(value)) {
            (Value::Any, _) | (Value::List(_), None) => Ok(None),
            (_, Some(values)) => match values.iter().map(read).collect() {
                Some(list) => Ok(Some(list)),
                None => self.wrong(key, &format!("a list of {what}")),
            },
            _ => self.wrong(key, &format!("a list of {what}, or ...")),
        }
    }

    /// Whether the next field is `key`.
    pub(super) fn is(&self, key: &str) -> bool {
        self.item.fields.get(self.at).is_some_and(|field| field.key.as_deref() == Some(key))
    }

    /// A list of `{1,0}`: each element as the bytes of numbers of these sizes.
    pub(super) fn tuples(&mut self, key: &str, sizes: &[usize]) -> Result<Option<Vec<Vec<u8>>>> {
        let tuple = |value: &Value| {
            let Value::List(numbers) = value else { return None };
            if numbers.len() != sizes.len() {
                return None;
            }
            let mut bytes = Vec::new();
            for (number, size) in numbers.iter().zip(sizes) {
                match number {
                    Value::Number(number) if *number <= Range::of_bytes(*size).max => {
                        bytes.extend_from_slice(&number.to_be_bytes()[8 - size..]);
                    }
                    _ => return None,
                }
            }
            Some(bytes)
        };
        self.list_of(key, "streams with their numbers", tuple)
    }

    /// The remaining fields as items; `None` for `...`.
    pub(super) fn items(&mut self) -> Result<Option<Vec<&'a Item>>> {
        let rest = &self.item.fields[self.at..];
        self.at = self.item.fields.len();
        if let [Field { key: None, value: Value::Any }] = rest {
            return Ok(None);
        }
        let item = |field: &'a Field| match field {
            Field { key: None, value: Value::Item(item) } => Some(item),
            _ => None,
        };
        match rest.iter().map(item).collect() {
            Some(items) => Ok(Some(items)),
            None => self.error("expected parameters or causes"),
        }
    }

    /// Whether the only remaining field is `...`.
    pub(super) fn is_any(&self) -> bool {
        matches!(&self.item.fields[..], [Field { key: None, value: Value::Any }])
    }

    /// Checks that a length matches the number of bytes.
    pub(super) fn expect_len(&self, key: &str, len: Option<u64>, bytes: usize) -> Result<()> {
        match len {
            Some(len) if len == bytes as u64 => Ok(()),
            Some(len) => self.error(format_args!("len={len} does not match {key}, which makes it {bytes}")),
            None => self.error(format_args!("len must be given with {key}")),
        }
    }

    /// Checks that a length is sufficient for the bytes.
    pub(super) fn expect_room(&self, key: &str, len: Option<u64>, bytes: usize) -> Result<()> {
        match len {
            Some(len) if len >= bytes as u64 => Ok(()),
            Some(len) => self.error(format_args!("len={len} is too small for {key}, which needs {bytes}")),
            None => self.error(format_args!("len must be given with {key}")),
        }
    }

    /// Checks that no field is left.
    pub(super) fn end(&self) -> Result<()> {
        match self.item.fields.get(self.at) {
            None => Ok(()),
            Some(Field { key: Some(key), .. }) => self.error(format_args!("unexpected field {key}")),
            Some(_) => self.error("unexpected value"),
        }
    }
}

/// A chunk type, by number or name.
pub(super) fn chunk_type(value: &Value, names: &[(&str, u8)]) -> Option<u8> {
    match value {
        Value::Number(number) => u8::try_from(*number).ok(),
        Value::Word(word) => names.iter().find(|(name, _)| name == word).map(|(_, kind)| *kind),
        _ => None,
    }
}
