//! Key management for the DTLS chunk of SCTP: TLS 1.3 in user messages.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod aead;
mod exporter;
mod manager;
mod message;
mod settings;

pub use rustls;

pub use self::aead::record_keys;
pub use self::manager::{Action, Driven, KeyError, KeyEvent, KeyManager};
pub use self::message::MessageError;
pub use self::settings::{Method, Resumption, Settings, provider};
