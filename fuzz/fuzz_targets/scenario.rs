//! The texts of a scenario: TOML with its places, quantities, claims and conditions. Each is read, or refused with a place
//! within the text. The lab itself, with its pictures and tables, is not built here: only the modules that parse are.
#![no_main]

#[allow(dead_code, reason = "only what parses is called")]
#[path = "../../crates/lab/src/scenario/expression.rs"]
mod expression;
#[allow(dead_code, reason = "only what parses is called")]
#[path = "../../crates/lab/src/scenario/quantity.rs"]
mod quantity;
#[allow(dead_code, reason = "only what parses is called")]
#[path = "../../crates/lab/src/scenario/tree.rs"]
mod tree;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for error in [expression::claim(text).err(), expression::condition(text).err()].into_iter().flatten() {
        assert!(error.span.start <= error.span.end && error.span.end <= text.len(), "{error:?}");
        assert!(text.is_char_boundary(error.span.start), "{error:?}");
    }
    if let Some(quantity) = quantity::parse(text) {
        assert!(quantity.number.is_finite() && quantity.number >= 0.0, "{quantity:?}");
    }
    if let Err(wrong) = tree::parse(text) {
        let error = tree::ScenarioError::new("fuzz", text, wrong);
        assert!(error.line >= 1 && error.column >= 1 && !error.to_string().is_empty());
    }
});
