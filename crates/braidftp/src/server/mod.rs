//! The server: executes what the FTP session asks for, over each transport.
