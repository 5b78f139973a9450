//! Shared by the sensitivity figures: each constant of an algorithm changed separately, to 70 % and to 130 %
//! of its value. The points have the axes `constant` and `move`.

use crate::figure::{Point, Value};

/// The run without a moved constant.
pub const UNMOVED: &str = "none";

/// The values of the axis `constant`: [`UNMOVED`], then each name. `N` is one more than there are names.
pub const fn constants<const N: usize>(names: &[&'static str]) -> [Value; N] {
    let mut values = [Value::Name(UNMOVED); N];
    let mut index = 0;
    while index < names.len() {
        values[index + 1] = Value::Name(names[index]);
        index += 1;
    }
    values
}

/// The constants as they are in use, and with each of them moved.
pub struct Moved<C> {
    unmoved: C,
    moved: Vec<(&'static str, u32, C)>,
}

impl<C: Copy + PartialEq> Moved<C> {
    /// Moves each of `names` both ways by `move_one`, as [`braidftp_base::constants!`] defines it.
    pub fn new(unmoved: C, names: &[&'static str], move_one: fn(C, &str, u32) -> Option<C>) -> Self {
        let moves = names.iter().flat_map(|name| [(*name, 70), (*name, 130)]);
        let moved =
            moves.filter_map(|(name, percent)| Some((name, percent, move_one(unmoved, name, percent)?)));
        Self { unmoved, moved: moved.collect() }
    }

    /// Returns the constants of a point.
    pub fn at(&self, point: &Point) -> &C {
        let (name, percent) = (point.name("constant"), point.number("move") as u32);
        let found = self.moved.iter().find(|(of, at, _)| *of == name && *at == percent);
        found.map_or(&self.unmoved, |(.., constants)| constants)
    }

    /// Whether each of `names` was moved both ways, to another value.
    #[cfg(test)]
    pub fn is_complete(&self, names: &[&str]) -> bool {
        self.moved.len() == 2 * names.len()
            && self.moved.iter().all(|(.., constants)| *constants != self.unmoved)
    }
}
