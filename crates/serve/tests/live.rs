//! Live zones through sockets, with a source whose look-ups the test delays, counts and fails.

mod answers;
mod caches;
mod failures;
mod waiting;

use crate::loopback::{Loopback, TIMEOUT, rcode, receive_datagram, zone};
use nameward_answer::{BackendFailure, Engine};
use nameward_serve::live::LiveSettings;
use nameward_serve::pipeline::ServingState;
use nameward_stats::{RingCapacities, Stats};
use nameward_testkit::wait_until;
use nameward_wire::NameBuf;
use nameward_zone::{
    BatchRound, LiveHandle, LiveSource, LookupBatch, LookupEnd, LookupError, LookupFuture,
    LookupRequest, Zone, ZoneFragment, ZoneTable,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const EXAMPLE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
www 60 A 192.0.2.80
out 60 CNAME www.other.
back 60 CNAME to.other.
moved 60 DNAME elsewhere
www.elsewhere 60 A 192.0.2.9
many 60 TXT \"0123456789012345678901234567890123456789012345678901234567890123456789\"
";
const OTHER: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.2
www 60 A 192.0.2.81
to 60 CNAME www.example.
";

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

/// A source that returns the whole zone as the fragment for any name.
struct Memory {
    texts: Mutex<Vec<(String, String)>>,
    /// Look-ups started.
    started: AtomicUsize,
    /// Each look-up takes one permit and keeps it.
    allowed: Semaphore,
    down: AtomicBool,
    blocking: bool,
    /// Concurrent batches; 0: no batches.
    batches: usize,
    /// Sizes of the started batches.
    sizes: Mutex<Vec<usize>>,
}

impl Memory {
    fn new(blocking: bool) -> Arc<Self> {
        Arc::new(Memory {
            texts: Mutex::new(vec![
                ("example.".into(), EXAMPLE.into()),
                ("other.".into(), OTHER.into()),
            ]),
            started: AtomicUsize::new(0),
            allowed: Semaphore::new(1_000_000),
            down: AtomicBool::new(false),
            blocking,
            batches: 0,
            sizes: Mutex::default(),
        })
    }

    /// A source that takes one batch at a time.
    fn with_batches(blocking: bool) -> Arc<Self> {
        let mut memory = Memory::new(blocking);
        Arc::get_mut(&mut memory).unwrap().batches = 1;
        memory
    }

    fn hold(&self) {
        self.allowed.forget_permits(usize::MAX >> 4);
    }

    fn release(&self) {
        self.allowed.add_permits(1_000_000);
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    fn set(&self, index: usize, text: &str) {
        self.texts.lock().unwrap()[index].1 = text.into();
    }
}

impl LiveSource for Memory {
    fn lookup<'a>(&'a self, wanted: LookupRequest<'a>) -> LookupFuture<'a> {
        Box::pin(async move {
            self.started.fetch_add(1, Ordering::SeqCst);
            let (apex, text) = self.texts.lock().unwrap()[wanted.zone as usize].clone();
            self.allowed.acquire().await.unwrap().forget();
            let fail = |kind, reason: &str| {
                let reason = reason.into();
                Err(LookupError { kind, reason })
            };
            if self.down.load(Ordering::SeqCst) {
                return fail(BackendFailure::Unreachable, "down");
            }
            if wanted.name == name("broken.example.").as_name() {
                return fail(BackendFailure::BadData, "table records, id 7");
            }
            assert_ne!(
                wanted.name,
                name("bug.example.").as_name(),
                "a bug on purpose"
            );
            Ok(ZoneFragment {
                zone: Arc::new(zone(&apex, &text)),
                statements: 1,
                is_shared: false,
            })
        })
    }

    fn batches(&self) -> usize {
        self.batches
    }

    fn batch<'a>(&'a self, wanted: &[LookupRequest<'a>]) -> Option<Box<dyn LookupBatch + 'a>> {
        if self.batches == 0 {
            return None;
        }
        self.sizes.lock().unwrap().push(wanted.len());
        let open = wanted.iter().copied().enumerate().collect();
        Some(Box::new(MemoryBatch { source: self, open }))
    }

    fn is_blocking(&self) -> bool {
        self.blocking
    }

    fn is_up(&self) -> bool {
        !self.down.load(Ordering::SeqCst)
    }
}

/// Finishes its look-ups in the first round, except for names that start with `alone` or `never`.
struct MemoryBatch<'s> {
    source: &'s Memory,
    open: Vec<(usize, LookupRequest<'s>)>,
}

impl LookupBatch for MemoryBatch<'_> {
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = BatchRound> + Send + 'a>> {
        Box::pin(async move {
            let (mut ended, mut never) = (Vec::new(), Vec::new());
            for (place, wanted) in self.open.drain(..) {
                let text = wanted.name.to_string();
                if text.starts_with("never") {
                    never.push((place, wanted));
                } else if text.starts_with("alone") {
                    ended.push((place, LookupEnd::Alone));
                } else {
                    let result = self.source.lookup(wanted).await;
                    ended.push((place, LookupEnd::Done(result)));
                }
            }
            self.open = never;
            let statements = 1;
            BatchRound { ended, statements }
        })
    }
}

struct Server {
    loopback: Loopback,
    source: Arc<Memory>,
    handles: [LiveHandle; 2],
}

impl Deref for Server {
    type Target = Loopback;

    fn deref(&self) -> &Loopback {
        &self.loopback
    }
}

impl Server {
    fn start(settings: LiveSettings) -> Server {
        Server::with(settings, Memory::new(false), "127.0.0.1:0")
    }

    fn with(settings: LiveSettings, source: Arc<Memory>, address: &str) -> Server {
        Server::with_sources(settings, [source.clone(), source], address)
    }

    /// The zone `example.` is in the first source, `other.` in the second.
    fn with_sources(settings: LiveSettings, sources: [Arc<Memory>; 2], address: &str) -> Server {
        let stats = Stats::new(RingCapacities::default());
        let shared = ServingState::with_live(Engine::default(), stats, settings);
        let add = |name, source: &Arc<Memory>| shared.live.add_source(name, source.clone());
        let first = add("first", &sources[0]);
        let second = if Arc::ptr_eq(&sources[0], &sources[1]) {
            first
        } else {
            add("second", &sources[1])
        };
        let stub = |apex, backend, id| Arc::new(Zone::stub(name(apex).as_name(), backend, id));
        let zones = [stub("example.", first, 0), stub("other.", second, 1)];
        let handles = [&zones[0], &zones[1]].map(|zone| LiveHandle::new(zone).unwrap());
        let [source, _] = sources;
        let mut table = ZoneTable::default();
        zones.into_iter().for_each(|zone| table.insert(zone));
        table.insert(Arc::new(zone(
            "resident.",
            "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS a\nin 60 CNAME www.example.\na 60 A 192.0.2.3\n",
        )));
        shared.zones.store(Arc::new(table));
        Server {
            loopback: Loopback::serve(shared, address),
            source,
            handles,
        }
    }

    fn exchange(&self, qname: &str, qtype: u16) -> Vec<u8> {
        self.exchange_packet(&query(qname, qtype))
    }

    fn exchange_packet(&self, packet: &[u8]) -> Vec<u8> {
        self.loopback.exchange(packet, false)
    }

    fn wait_started(&self, count: usize) {
        wait_until("look-ups", || self.source.started() == count);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.source.release();
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    receive_datagram(socket).expect("a reply")
}

fn query(qname: &str, qtype: u16) -> Vec<u8> {
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0".to_vec();
    packet.extend_from_slice(name(qname).as_name().as_wire());
    packet.extend_from_slice(&qtype.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet
}

fn with_edns(mut packet: Vec<u8>, payload: u16, dnssec_ok: bool, options: &[u8]) -> Vec<u8> {
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41]);
    packet.extend_from_slice(&payload.to_be_bytes());
    packet.extend_from_slice(&[0, 0, if dnssec_ok { 0x80 } else { 0 }, 0]);
    packet.extend_from_slice(&(options.len() as u16).to_be_bytes());
    packet.extend_from_slice(options);
    packet
}

fn answers(reply: &[u8]) -> u16 {
    u16::from_be_bytes([reply[6], reply[7]])
}

fn uncached() -> LiveSettings {
    LiveSettings {
        packet_entries: 0,
        query_entries: 0,
        ..LiveSettings::for_tests()
    }
}

fn without_packet_cache() -> LiveSettings {
    LiveSettings {
        packet_entries: 0,
        ..LiveSettings::for_tests()
    }
}

fn exchange_tcp(server: &Server, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    for packet in packets {
        stream
            .write_all(&(packet.len() as u16).to_be_bytes())
            .unwrap();
        stream.write_all(packet).unwrap();
    }
    // Half-closed: the answers must still arrive.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let mut replies = Vec::new();
    let mut rest = &all[..];
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let (reply, tail) = tail.split_at(u16::from_be_bytes(*len).into());
        replies.push(reply.to_vec());
        rest = tail;
    }
    replies
}
