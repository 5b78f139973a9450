//! Scenario templates.

/// Names and texts.
const ALL: &[(&str, &str)] = &[
    ("one-path", include_str!("templates/one-path.toml")),
    ("two-paths", include_str!("templates/two-paths.toml")),
    ("cross-traffic", include_str!("templates/cross-traffic.toml")),
    ("controllers", include_str!("templates/controllers.toml")),
    ("requests", include_str!("templates/requests.toml")),
    ("outage", include_str!("templates/outage.toml")),
];

/// The names of all templates.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The text of a template.
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(its, _)| *its == name).map(|(_, text)| *text)
}

/// The description of a template: its first line.
pub fn says(name: &str) -> Option<&'static str> {
    text(name).and_then(|text| text.lines().next()).map(|line| line.trim_start_matches("# "))
}
