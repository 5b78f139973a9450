//! TODO skeleton
#![forbid(unsafe_code)]
