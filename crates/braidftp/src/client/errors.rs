//! Converts replies and lost connections into errors of the program.

use braidftp_ftp::{Code, Reply};

use crate::exit::{Again, Error, Exit};

/// A lost connection, which may be opened again.
pub(crate) fn lost(why: impl std::fmt::Display) -> Error {
    Error::new(Exit::Interrupted, "go on", why).hint("run the same command again to resume")
}

/// Converts an error reply to a command that writes or creates something. For these, 550 does not mean that
/// the path is missing.
pub(crate) fn of_write_reply(what: &str, reply: &Reply) -> Error {
    match reply.code {
        Code::FILE_UNAVAILABLE => Error::new(Exit::Refused, what, format_args!("the server said: {reply}"))
            .hint("check that the user may write there; braidftp serve is read-only without --writable"),
        _ => of_reply(what, reply),
    }
}

/// Converts an error reply to a command about an existing path.
pub(crate) fn of_reply(what: &str, reply: &Reply) -> Error {
    let said = format!("the server said: {reply}");
    let (exit, hint) = match reply.code {
        Code::FILE_UNAVAILABLE => {
            (Exit::NoSuchPath, "check the path with braidftp ls, and that the user may read or write there")
        }
        Code::NOT_LOGGED_IN | Code::NEED_ACCOUNT => (Exit::Login, "log in as a user who may do this"),
        Code::NO_SPACE | Code::QUOTA => (Exit::Refused, "free some space on the server"),
        Code::NAME_NOT_ALLOWED => (Exit::Refused, "choose another name"),
        Code::UNAVAILABLE => (Exit::Interrupted, "the same command again, in a while"),
        Code::CANNOT_OPEN_DATA | Code::TRANSFER_ABORTED => (
            Exit::Refused,
            "check that no firewall blocks the connection; run the same command again to resume",
        ),
        Code::DATA_TLS_FAILED => (Exit::Refused, "run the same command again to resume"),
        Code::NOT_IMPLEMENTED | Code::SYNTAX_ERROR => {
            (Exit::Refused, "the server does not know this command")
        }
        code if code.class() == braidftp_ftp::reply::Class::Transient => {
            (Exit::Refused, "the same command again")
        }
        _ => (Exit::Refused, "-vv shows the lines of both sides"),
    };
    let again = match reply.code {
        // 522: the session tickets with which a data connection resumes the TLS session are sent at the end
        // of earlier connections. If their packets are lost, the client may temporarily have none.
        Code::CANNOT_OPEN_DATA | Code::TRANSFER_ABORTED | Code::DATA_TLS_FAILED => Again::Worthwhile,
        _ => Again::Vain,
    };
    Error { again, ..Error::new(exit, what, said).hint(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_requested_again_if_its_data_connection_failed() {
        for (code, again) in
            [(425, Again::Worthwhile), (426, Again::Worthwhile), (522, Again::Worthwhile), (550, Again::Vain)]
        {
            let code = Code::new(code).unwrap();
            assert_eq!(of_reply("fetch a", &Reply::new(code, "no")).again, again, "{code:?}");
        }
    }
}
