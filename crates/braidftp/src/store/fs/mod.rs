//! Local files under one root.
