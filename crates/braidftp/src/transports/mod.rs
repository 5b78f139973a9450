//! What carries FTP: TCP connections, SCTP associations.
