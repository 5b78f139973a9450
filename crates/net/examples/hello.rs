//! A message there and one back: `cargo run -p braidftp-net --example hello`.

use std::sync::Arc;

use braidftp_net::{Bind, Config, Connect, Endpoint, Message, Ppid, StreamId};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Endpoint::bind(Bind::to(["127.0.0.1:0".parse()?]))?;
    let listener = server.listen(21, Arc::new(Config::default()))?;
    let at = server.local_addrs()[0];
    let answering = tokio::spawn(async move {
        let association = listener.accept().await.expect("the endpoint is open");
        let piece = association.recv(StreamId(0)).await.expect("no error").expect("a message comes");
        let question = String::from_utf8_lossy(&piece.payload.concat()).into_owned();
        let answer = Message::new(Ppid(0), format!("{question}, too"));
        association.send(StreamId(0), answer).await.expect("the association is up");
        association.closed().await;
    });

    let client = Endpoint::bind(Bind::to(["127.0.0.1:0".parse()?]))?;
    let association = client.connect(Connect::to([at], 21))?;
    association.send(StreamId(0), Message::new(Ppid(0), "hello")).await?;
    let piece = association.recv(StreamId(0)).await?.ok_or("the peer has no more to say")?;
    println!("{}", String::from_utf8_lossy(&piece.payload.concat()));
    association.shutdown().await;
    answering.await?;
    Ok(())
}
