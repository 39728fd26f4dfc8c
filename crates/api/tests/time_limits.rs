//! Clients that send or read too slowly are disconnected: the limits that take half a minute in a server, with short times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nameward_api::listener::{ApiLimits, ApiServer};
use nameward_api::{Api, ApiDefaults, ApiOperator};
use nameward_control::api_keys::ApiKeys;
use nameward_control::operations::{
    Caller, ItemSink, OperationError, OperationRequest, OperationResult,
};
use nameward_control::web::KeyGate;
use nameward_maintain::{TableWriter, change_feed::ChangeFeed};
use nameward_stats::{RingCapacities, Snapshot, Stats};
use nameward_wire::Name;
use nameward_zone::{TableChange, Zone};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server whose settings make a large reply, with a zone table, and nothing else.
struct Settings(Arc<TableWriter>);

impl ApiOperator for Settings {
    fn run(
        &self,
        _: &Caller,
        _: &OperationRequest,
        _: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        Ok(OperationResult::Listed { items: 0 })
    }

    fn feed(&self) -> Option<Arc<ChangeFeed>> {
        Some(Arc::clone(self.0.feed()))
    }

    fn snapshot(&self) -> Snapshot {
        Stats::new(RingCapacities::default()).snapshot()
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("name".into(), "x".repeat(32 << 20))]
    }
}

async fn start() -> SocketAddr {
    start_with(Arc::default()).await
}

async fn start_with(table: Arc<TableWriter>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ApiLimits {
        read_timeout: Duration::from_millis(200),
        write_timeout: Duration::from_millis(200),
        event_streams_per_client: 1,
        ..ApiLimits::default()
    };
    let api = Api::new(Settings(table), ApiDefaults::default());
    let gate = KeyGate::new("key", Arc::new(ApiKeys::default())).unwrap();
    let server = ApiServer::new(
        (api, None),
        gate,
        vec!["127.0.0.0/8".parse().unwrap()],
        limits,
        None,
    );
    tokio::spawn(server.serve(listener, std::future::pending()));
    address
}

/// Sends octets, keeps the connection open, and returns what is received until the server ends it.
async fn reply_to(address: SocketAddr, octets: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(octets).await.unwrap();
    let mut reply = Vec::new();
    // An end by reset is an end, too.
    let _ = stream.read_to_end(&mut reply).await;
    String::from_utf8_lossy(&reply).into_owned()
}

#[tokio::test]
async fn connections_without_a_whole_head_are_closed() {
    let address = start().await;
    for octets in [
        &b""[..],
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"GET /api HTTP/1.1\r\nHost: x\r\n",
    ] {
        let reply = reply_to(address, octets).await;
        assert!(!reply.contains(" 200 "), "{reply}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_answered_408() {
    let address = start().await;
    let head =
        "PUT /api/v1/servers/localhost/cache/flush HTTP/1.1\r\nHost: x\r\nX-API-Key: key\r\n";
    for rest in [
        "Content-Length: 10\r\n\r\n{",
        "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ] {
        let reply = reply_to(address, format!("{head}{rest}").as_bytes()).await;
        assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_last_reply() {
    let address = start().await;
    let request = b"GET /api HTTP/1.1\r\nHost: x\r\nX-API-Key: key\r\n\r\n";
    let reply = reply_to(address, request).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_reply_is_disconnected() {
    let address = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        b"GET /api/v1/servers/localhost/config HTTP/1.1\r\nHost: x\r\nX-API-Key: key\r\n\r\n";
    stream.write_all(head).await.unwrap();
    // The reply has started, and nothing is read for much longer than the limit. What remains is in the buffers.
    let mut reply = vec![0];
    stream.read_exact(&mut reply).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let _ = stream.read_to_end(&mut reply).await;
    assert!(reply.len() < 32 << 20, "{} octets", reply.len());
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_events_is_disconnected() {
    let table = Arc::<TableWriter>::default();
    table.feed().start();
    let address = start_with(Arc::clone(&table)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        b"GET /api/v1/servers/localhost/events HTTP/1.1\r\nHost: x\r\nX-API-Key: key\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut octets = [0; 12];
    stream.read_exact(&mut octets).await.unwrap();
    assert_eq!(&octets, b"HTTP/1.1 200");
    // A client may have one stream here: it gets another when the server has given up the first, of which nothing more is read.
    let mut status = String::new();
    while status != "HTTP/1.1 200" {
        for _ in 0..1000 {
            let zone = Arc::new(Zone::not_ready(Name::ROOT));
            table.publish(&[TableChange::Offer(zone)]);
            table.publish(&[TableChange::Withdraw(Name::ROOT.as_wire().into(), 0)]);
        }
        let mut other = TcpStream::connect(address).await.unwrap();
        other.write_all(head).await.unwrap();
        other.read_exact(&mut octets).await.unwrap();
        status = String::from_utf8_lossy(&octets).into_owned();
    }
}
