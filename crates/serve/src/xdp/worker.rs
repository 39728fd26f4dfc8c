//! Threads that read the rings, like UDP workers, but packets instead of datagrams.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::XdpClosing;
use super::frame::{self, ReplyHead};
use super::open::{XdpPorts, XdpQueue};
use crate::listen::UdpListener;
use crate::sys::xsk::{PACKET_MAX, PacketReading};
use crate::sys::{PollSet, coarse_time};
use crate::udp::{
    BATCH, BatchHandler, BatchTiming, DRAIN_BATCHES, DatagramBatch, IDLE_INTERVAL, SwitchedWorker,
    UdpWorker, WorkerSwitch, answer, nanoseconds,
};

/// Interval at which a worker that is never idle checks its sockets: whether their interfaces still exist, and what
/// they dropped.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long packets can take from the filter to a ring after the filter is switched off.
const LAST_PACKETS: Duration = Duration::from_millis(5);

/// Starts at most `threads` workers, which share the queues of all interfaces.
pub(crate) fn spawn_workers<H: BatchHandler>(
    ports: XdpPorts,
    threads: usize,
    (switch, closing): (&Arc<WorkerSwitch>, &XdpClosing),
    mut handler: impl FnMut() -> H,
) -> io::Result<Vec<UdpWorker>> {
    let listeners: Arc<[UdpListener]> = ports.listeners.into();
    let threads = threads.clamp(1, ports.queues.len().max(1));
    let mut shares: Vec<Vec<XdpQueue>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, queue) in ports.queues.into_iter().enumerate() {
        shares[number % threads].push(queue);
    }
    let shares = shares.into_iter().filter(|share| !share.is_empty());
    let workers = shares.enumerate().map(|(index, queues)| {
        let mut worker = XdpWorker {
            poll: poll_set(&queues),
            queues,
            listeners: Arc::clone(&listeners),
            handler: handler(),
            batch: DatagramBatch::new(),
            heads: vec![ReplyHead::default(); BATCH],
            identification: 0,
            interval: IDLE_INTERVAL,
            next_check: Duration::ZERO,
            closing: closing.clone(),
        };
        let switch = Arc::clone(switch);
        UdpWorker::start(format!("xdp-{index}"), move || {
            switch.run(&mut worker);
            worker.end();
        })
    });
    workers.collect()
}

fn poll_set(queues: &[XdpQueue]) -> PollSet {
    PollSet::new(queues.iter().map(|queue| queue.socket.as_raw_fd()))
}

struct XdpWorker<H> {
    queues: Vec<XdpQueue>,
    poll: PollSet,
    listeners: Arc<[UdpListener]>,
    handler: H,
    batch: DatagramBatch,
    /// The headers of the replies of the batch.
    heads: Vec<ReplyHead>,
    /// Identification of the last IPv4 packet.
    identification: u16,
    interval: Duration,
    /// When it checks its sockets at the latest, by [`coarse_time`].
    next_check: Duration,
    closing: XdpClosing,
}

impl<H: BatchHandler> SwitchedWorker for XdpWorker<H> {
    fn start(&mut self) {
        self.set_filters(true);
    }

    fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    fn round(&mut self, _is_busy: bool) -> bool {
        // Rings are read without a system call.
        if coarse_time() >= self.next_check {
            self.check();
        }
        let mut is_served = false;
        for index in 0..self.queues.len() {
            if self.queues[index].socket.has_packets() {
                self.serve(index);
                is_served = true;
            }
        }
        if !is_served && self.poll.wait(self.interval) == 0 {
            self.check();
            self.handler.idle();
        }
        is_served
    }

    fn finish(&mut self) {
        // From now on, packets reach the ordinary sockets.
        self.set_filters(false);
        for _ in 0..DRAIN_BATCHES {
            let mut taken = 0;
            for index in 0..self.queues.len() {
                taken += self.serve(index);
            }
            if taken == 0 {
                break;
            }
        }
        self.handler.idle();
    }

    fn is_closing(&self) -> bool {
        self.closing.is_closing()
    }
}

impl<H: BatchHandler> XdpWorker<H> {
    fn set_filters(&self, is_on: bool) {
        for queue in &self.queues {
            queue.attachment.set(is_on);
        }
    }

    fn end(&mut self) {
        if self.closing.is_closing() {
            thread::sleep(LAST_PACKETS);
            self.finish();
            for queue in &self.queues {
                queue.state.end_queue("closed for a new process");
            }
        }
    }

    /// Counts dropped datagrams, and closes the sockets of removed interfaces: poll reports neither.
    #[cold]
    fn check(&mut self) {
        self.next_check = coarse_time() + CHECK_INTERVAL;
        for queue in &mut self.queues {
            let dropped = queue.socket.newly_dropped();
            if dropped > 0 {
                queue.state.count_dropped(dropped);
                self.handler.dropped(dropped);
            }
        }
        let number = self.queues.len();
        self.queues.retain(|queue| match queue.socket.failure() {
            None => true,
            Some(_) => {
                let reason = "the interface was removed; restart the server when it is back";
                tracing::error!("XDP on {}: {reason}", queue.state.interface);
                queue.state.end_queue(reason);
                false
            }
        });
        if self.queues.len() != number {
            self.poll = poll_set(&self.queues);
        }
    }

    /// Receives, answers and sends one batch of a queue; returns how many packets were received.
    fn serve(&mut self, index: usize) -> usize {
        let started = Instant::now();
        let (taken, listener) = self.receive(index);
        if let Some(listener) = listener {
            let received = Instant::now();
            answer(&mut self.handler, &mut self.batch);
            let answered = Instant::now();
            self.send(index, listener);
            let timing = BatchTiming {
                receive_ns: Some(nanoseconds(started, received)),
                answer_ns: nanoseconds(received, answered),
                send_ns: nanoseconds(answered, Instant::now()),
            };
            self.handler.sent(&self.batch, timing);
        }
        self.queues[index].socket.release(&mut self.batch);
        taken
    }

    /// Fills the batch with datagrams to one listener, which is returned. Packets without a valid datagram are dropped.
    fn receive(&mut self, index: usize) -> (usize, Option<usize>) {
        let queue = &mut self.queues[index];
        let interface = queue.interface;
        let (listeners, heads) = (&self.listeners, &mut self.heads);
        let mut current = None;
        let taken = queue.socket.receive(&mut self.batch, |packet, batch| {
            let slot = current.map_or(0, |_| batch.len());
            let Some(inbound) = frame::read(packet, interface, &mut heads[slot]) else {
                return PacketReading::Nothing;
            };
            let mut numbered = listeners.iter().enumerate();
            let Some((found, listener)) = numbered.find(|(_, one)| one.covers(inbound.local))
            else {
                return PacketReading::Nothing;
            };
            match current {
                // The rules of a batch are those of one listener.
                Some(current) if current != found => return PacketReading::Stop,
                Some(_) => {}
                None => batch.begin(listener),
            }
            current = Some(found);
            PacketReading::Datagram(inbound)
        });
        (taken, current)
    }

    fn send(&mut self, index: usize, listener: usize) {
        let queue = &mut self.queues[index];
        let mut too_large = 0_u32;
        for (slot, head) in self.heads.iter().enumerate().take(self.batch.len()) {
            let len = self.batch.replied(slot).len();
            if len == 0 {
                continue;
            }
            if head.packet_len(len) > queue.mtu.min(PACKET_MAX) {
                too_large |= 1 << slot;
                continue;
            }
            self.identification = self.identification.wrapping_add(1);
            let identification = self.identification;
            let write = |frame: &mut [u8]| head.write(frame, identification);
            if !queue.socket.send(slot, (head.len(), len), write) {
                self.batch.mark_unsent(slot);
            }
        }
        queue.socket.flush();
        if too_large != 0 {
            // The kernel fragments them.
            self.batch
                .send_slots(&self.listeners[listener].socket, too_large);
        }
    }
}
