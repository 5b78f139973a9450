//! The endpoint against good peers, bad peers and no peers.
