//! Captured bytes, both ways, and properties of the whole of `wire`.
