//! Threads that read the rings: as UDP workers, but with packets instead of datagrams.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::XdpClosing;
use super::frame::{self, ReplyHead};
use super::open::{XdpPorts, XdpQueue};
use crate::listen::UdpListener;
use crate::sys::PollSet;
use crate::udp::{
    BATCH, BRIEF_INTERVAL, BatchHandler, BatchTiming, DRAIN_BATCHES, DatagramBatch, IDLE_INTERVAL,
    UdpWorker, WorkerSwitch, WorkerTurn, answer, nanoseconds,
};

/// How often a worker that is never idle checks whether its interfaces still exist.
const CHECK_ROUNDS: u32 = 1 << 14;

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
            rounds: 0,
            interval: IDLE_INTERVAL,
        };
        let (switch, closing) = (Arc::clone(switch), closing.clone());
        UdpWorker::start(format!("xdp-{index}"), move || {
            worker.run(&switch, &closing);
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
    rounds: u32,
    interval: Duration,
}

impl<H: BatchHandler> XdpWorker<H> {
    fn run(&mut self, switch: &WorkerSwitch, closing: &XdpClosing) {
        while !closing.is_closing() && switch.enter() {
            self.set_filters(true);
            let is_hurried = self.read(switch, closing);
            // From now on packets wait in the ordinary sockets.
            self.set_filters(false);
            self.drain();
            self.handler.idle();
            switch.leave(is_hurried);
        }
        if closing.is_closing() {
            for queue in &self.queues {
                queue.state.end_queue("closed for a new process");
            }
        }
    }

    fn set_filters(&self, is_on: bool) {
        for queue in &self.queues {
            queue.attachment.set(is_on);
        }
    }

    /// Serves until the worker must leave. Returns whether it has noted that it waits only briefly.
    fn read(&mut self, switch: &WorkerSwitch, closing: &XdpClosing) -> bool {
        let (mut is_busy, mut is_hurried) = (false, false);
        self.interval = IDLE_INTERVAL;
        loop {
            match switch.turn() {
                _ if closing.is_closing() => return is_hurried,
                WorkerTurn::Read => {}
                WorkerTurn::ReadBriefly if is_hurried => {}
                WorkerTurn::ReadBriefly => {
                    self.interval = BRIEF_INTERVAL;
                    is_hurried = true;
                    switch.hurry();
                }
                WorkerTurn::Leave => return is_hurried,
            }
            is_busy = self.round(is_busy);
        }
    }

    /// Serves each queue that has packets. `is_busy` means that more are likely; returns the same for the next round.
    fn round(&mut self, is_busy: bool) -> bool {
        let timeout = if is_busy {
            Duration::ZERO
        } else {
            self.interval
        };
        // A poll does not tell that an interface is gone.
        self.rounds = self.rounds.wrapping_add(1);
        let is_empty = self.poll.wait(timeout) == 0;
        if is_empty && !is_busy || self.rounds.is_multiple_of(CHECK_ROUNDS) {
            self.remove_failed();
        }
        if is_empty {
            if !is_busy {
                self.handler.idle();
            }
            return false;
        }
        let mut any_full = false;
        for index in 0..self.queues.len() {
            if self.poll.ready(index) {
                any_full |= self.serve(index) == BATCH;
            }
        }
        any_full
    }

    /// Closes the sockets of interfaces that are gone.
    #[cold]
    fn remove_failed(&mut self) {
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

    /// Answers what arrived before the worker stops.
    fn drain(&mut self) {
        for _ in 0..DRAIN_BATCHES {
            let mut taken = 0;
            for index in 0..self.queues.len() {
                taken += self.serve(index);
            }
            if taken == 0 {
                break;
            }
        }
    }

    /// Receives, answers and sends one batch of a queue; returns how many packets were received.
    fn serve(&mut self, index: usize) -> usize {
        let started = Instant::now();
        let (taken, listener) = self.receive(index);
        let Some(listener) = listener else {
            return taken;
        };
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
        taken
    }

    /// Fills the batch with datagrams to one listener, which is returned. Packets that are none are dropped.
    fn receive(&mut self, index: usize) -> (usize, Option<usize>) {
        let queue = &mut self.queues[index];
        let (interface, batch) = (queue.interface, &mut self.batch);
        let (listeners, heads) = (&self.listeners, &mut self.heads);
        let mut current = None;
        let taken = queue.socket.receive(BATCH, |packet| {
            let slot = current.map_or(0, |_| batch.len());
            let Some(inbound) = frame::read(packet, interface, &mut heads[slot]) else {
                return true;
            };
            let mut numbered = listeners.iter().enumerate();
            let Some((found, listener)) = numbered.find(|(_, one)| one.covers(inbound.local))
            else {
                return true;
            };
            match current {
                // The rules of a batch are those of one listener.
                Some(current) if current != found => return false,
                Some(_) => {}
                None => batch.begin(listener),
            }
            current = Some(found);
            batch.push(&inbound);
            true
        });
        (taken, current)
    }

    fn send(&mut self, index: usize, listener: usize) {
        let queue = &mut self.queues[index];
        let mut too_large = 0_u32;
        for (slot, head) in self.heads.iter().enumerate().take(self.batch.len()) {
            let reply = self.batch.replied(slot);
            if reply.is_empty() {
                continue;
            }
            if head.packet_len(reply.len()) > queue.mtu {
                too_large |= 1 << slot;
                continue;
            }
            self.identification = self.identification.wrapping_add(1);
            let identification = self.identification;
            let write = |frame: &mut [u8; _]| head.write(frame, reply, identification);
            if !queue.socket.send(write) {
                self.batch.forget(slot);
            }
        }
        queue.socket.flush();
        if too_large != 0 {
            // The kernel makes fragments of them.
            self.batch
                .send_some(&self.listeners[listener].socket, too_large);
        }
    }
}
