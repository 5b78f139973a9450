//! Who may log in: names, argon2 hashes, home folders.
