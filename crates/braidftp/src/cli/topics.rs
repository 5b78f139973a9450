//! Texts of `braidftp help TOPIC`: lists that are too long for the help of a command.

use braidftp_net::cc;

use super::args::{URL_HELP, multipath_help};

/// A topic, and its text.
pub(super) struct Topic {
    /// The argument of `help`.
    pub(super) name: &'static str,
    /// One line for the list of topics.
    pub(super) about: &'static str,
    text: fn() -> String,
}

/// All topics.
pub(super) const TOPICS: [Topic; 5] = [
    Topic { name: "cc", about: "names and parameters of --cc", text: cc::help },
    Topic { name: "multipath", about: "names of --multipath", text: multipath_help },
    Topic { name: "urls", about: "URLs, passwords, exit codes", text: || URL_HELP.to_owned() },
    Topic {
        name: "filter",
        about: "what a mirror takes: --include, --exclude, --filter",
        text: || FILTER.to_owned(),
    },
    Topic { name: "users", about: "the file of `serve --users`", text: || USERS.to_owned() },
];

impl Topic {
    /// The text, with a line end.
    pub(super) fn text(&self) -> String {
        let text = (self.text)();
        format!("{}\n", text.trim_end())
    }
}

/// The list of topics.
pub(super) fn list() -> String {
    let lines = TOPICS.iter().map(|topic| format!("  {:<10} {}\n", topic.name, topic.about));
    format!(
        "braidftp COMMAND --help prints the options of a command. Topics of `braidftp help TOPIC`:\n{}",
        lines.collect::<String>()
    )
}

const FILTER: &str = "\
--include GLOB takes only files that match, --exclude GLOB no file or folder that matches and nothing beneath it; --exclude wins.
Both may be given several times. A glob without a slash is compared with the last name of a path, one with a slash with the
whole path from the top of the tree. * and ? match within a name, ** across slashes, [a-z] one byte, {a,b} either.
  braidftp mirror URL DIR --exclude '*.o' --exclude target --include 'src/**'

--exclude-from FILE reads patterns in .gitignore's notation. --filter RULE is in rsync's:
  - PATTERN       leaves out what matches          + PATTERN     takes it, whatever later rules say
  merge FILE      rules from FILE, one a line      clear         forgets the rules before
The first rule that matches decides. A pattern without a slash is compared with the last name, one with a slash with the end of
the path, one that begins with a slash with the whole path from the top; one that ends in a slash matches folders alone, and
dir/*** the folder and all in it. A folder that is left out is not entered.
  braidftp mirror URL DIR --filter '+ */' --filter '+ *.c' --filter '- *'";

/// The form of the users file, as in docs/guide.md.
pub(crate) const USERS: &str = "\
The file of `serve --users` is TOML, a table for each user:

  [[user]]
  name = \"anna\"
  hash = \"$argon2id$v=19$m=19456,t=2,p=1$...\"   # as `braidftp serve --hash-password` prints it
  keys = [\"SHA256:...\"]                         # as `braidftp key` prints it; with such a key no password is needed
  home = \"anna\"                                 # within the folder that is served; all of it without this
  writable = true                               # else as --writable says; or one by one:
  # rights = [\"list\", \"write\"]                  # of read, list, write, delete
  quota = \"10GiB\"                               # of all files in the home
  rate = \"3MB\"                                  # bytes of files a second, of all sessions of the user together
  sessions = 4                                  # at once

  [[user]]
  name = \"anonymous\"                            # any password will do, for this name and `ftp` alone

A user has a hash, keys, or both. `braidftp serve DIR --users FILE --check` reads the file and prints what each may do.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Access, Users};

    #[test]
    fn every_topic_has_a_text_and_is_listed() {
        for topic in &TOPICS {
            assert!(topic.text().lines().count() > 3, "{}", topic.name);
            assert!(list().contains(topic.name));
        }
    }

    #[test]
    fn the_documented_form_of_the_users_file_is_valid() {
        let hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let file: String = USERS
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .map(|line| line.split("   #").next().unwrap().trim_start_matches("# ").to_owned() + "\n")
            .filter(|line| !line.starts_with("rights") && !line.starts_with("keys"))
            .collect::<String>()
            .replace("$argon2id$v=19$m=19456,t=2,p=1$...", hash);
        Users::parse(&file, Access::ReadOnly).unwrap();
    }
}
