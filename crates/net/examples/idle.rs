//! Idle associations between two processes, for `cargo xtask bench idle --associations N`.
//!
//! `idle serve` prints its address, accepts associations and keeps them. `idle connect ADDRESS N` opens N, prints `up` and keeps
//! them until its standard input ends.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use braidftp_net::sctp::Profile;
use braidftp_net::{Association, Bind, Connect, Endpoint};

/// The number of associations that are opened at a time.
const AT_ONCE: usize = 64;
const PORT: u16 = 21;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve"] => serve().await,
        ["connect", address, count] => connect(address.parse()?, count.parse()?).await,
        _ => Err("usage: idle serve | idle connect ADDRESS N".into()),
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::bind(Bind::to(["127.0.0.1:0".parse()?]))?;
    let listener = endpoint.listen(PORT, Arc::new(Profile::Modern.config()))?;
    println!("{}", endpoint.local_addrs()[0]);
    let mut kept = Vec::new();
    while let Some(association) = listener.accept().await {
        kept.push(association);
    }
    Ok(())
}

async fn connect(address: std::net::SocketAddr, count: usize) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::bind(Bind::to(["127.0.0.1:0".parse()?]))?;
    let mut kept: Vec<Association> = Vec::new();
    while kept.len() < count {
        let before = kept.len();
        for _ in 0..AT_ONCE.min(count - before) {
            let connect =
                Connect { config: Arc::new(Profile::Modern.config()), ..Connect::to([address], PORT) };
            kept.push(endpoint.connect(connect)?);
        }
        for association in &kept[before..] {
            association.up().await?;
        }
    }
    println!("up");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
