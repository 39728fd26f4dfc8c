//! The system calls that std does not have, and all `unsafe` of this crate: batches of datagrams,
//! core affinity, and samples of where a core spends its time.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Datagrams of one system call.
pub const BATCH: usize = 32;

/// Buffers of `SIZE` octets with the headers that sendmmsg and recvmmsg take.
pub struct Batch<const SIZE: usize> {
    // The headers point into `vectors`, the vectors into `buffers`; none is resized, ever.
    headers: Box<[libc::mmsghdr]>,
    vectors: Box<[libc::iovec]>,
    buffers: Box<[[u8; SIZE]]>,
}

impl<const SIZE: usize> Batch<SIZE> {
    /// `BATCH` empty buffers.
    pub fn new() -> Self {
        let mut buffers = vec![[0; SIZE]; BATCH].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = buffers
            .iter_mut()
            .map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: SIZE,
            })
            .collect();
        let headers = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: all zeroes is a valid mmsghdr: null pointers and zero lengths.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = ptr::from_mut(vector);
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self {
            headers,
            vectors,
            buffers,
        }
    }

    /// Puts a message into place `index`.
    pub fn fill(&mut self, index: usize, message: &[u8]) -> &mut [u8] {
        let buffer = &mut self.buffers[index][..message.len()];
        buffer.copy_from_slice(message);
        self.vectors[index].iov_len = message.len();
        buffer
    }

    /// Sends the first `count` messages from `first` on; says how many the kernel took.
    pub fn send(&mut self, socket: &UdpSocket, first: usize, count: usize) -> io::Result<usize> {
        let headers = &mut self.headers[first..count];
        // SAFETY: the headers, vectors and buffers behind the slice live as long as self and are
        // not touched by anyone else during the call.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives what is there, without waiting; 0 when nothing is.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: as in `send`; every vector has its whole buffer's length because a batch is used
        // either for sending or for receiving.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        };
        match usize::try_from(received) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }

    /// A received message, cut to the buffer, and its whole length.
    pub fn received(&self, index: usize) -> (&[u8; SIZE], usize) {
        (&self.buffers[index], self.headers[index].msg_len as usize)
    }
}

/// Waits until one of the sockets can be read, or for a millisecond.
pub fn wait_readable(sockets: &[UdpSocket]) {
    let mut entries: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the pointer and the count are those of a live vector.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, 1) };
}

/// Pins the calling thread, and what it starts, to one core.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    // SAFETY: all zeroes is an empty set; CPU_SET checks the index against the set's size; the call
    // reads as many octets as the set has.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Clock ticks of /proc in a second.
pub fn clock_ticks() -> f64 {
    // SAFETY: sysconf takes no pointer.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

/// `struct perf_event_attr` up to its fifth version, as perf_event_open(2) describes it.
#[repr(C)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    rest: [u64; 8],
}

/// Octets of the ring of samples: a power of two of pages.
const RING: usize = 4 << 20;
const PAGE: usize = 4096;
/// Samples are this far apart: no divisor of the scheduler's tick, so that they do not beat with it.
const SAMPLE_NANOS: u64 = 199_933;

/// Samples of a core, five thousand a second: which process, and whether in user or kernel mode.
///
/// The kernel keeps a process's total time exactly but splits it into user and system by what the
/// timer tick happens to meet, 250 times a second on most kernels. A share of a tenth is known to a
/// tenth of itself only after ten seconds; with these samples it is known to two percent after five.
pub struct ModeSamples {
    event: OwnedFd,
    ring: *mut u8,
}

impl ModeSamples {
    /// Begins sampling a core. Needs root or a low `kernel.perf_event_paranoid`.
    pub fn begin(core: usize) -> io::Result<Self> {
        let attr = PerfEventAttr {
            kind: 1, // PERF_TYPE_SOFTWARE
            size: size_of::<PerfEventAttr>() as u32,
            config: 0, // PERF_COUNT_SW_CPU_CLOCK
            sample_period: SAMPLE_NANOS,
            sample_type: 1 << 1, // PERF_SAMPLE_TID
            read_format: 0,
            flags: 0,
            rest: [0; 8],
        };
        // SAFETY: the kernel reads `attr.size` octets of a struct that lives through the call.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                -1 as libc::pid_t,
                core as libc::c_int,
                -1 as libc::c_int,
                8 as libc::c_ulong, // PERF_FLAG_FD_CLOEXEC
            )
        };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave a new descriptor without another owner.
        let event = unsafe { OwnedFd::from_raw_fd(event as libc::c_int) };
        // SAFETY: a fresh mapping at an address of the kernel's choice; unmapped in drop only.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE + RING,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            event,
            ring: ring.cast(),
        })
    }

    /// Ends sampling and counts the samples (user, kernel) of the processes that `belongs` names.
    /// When the ring was too small for the run, its first samples are what counts.
    pub fn end(self, belongs: impl Fn(u32) -> bool) -> (u64, u64) {
        const DISABLE: libc::c_ulong = 0x2401; // PERF_EVENT_IOC_DISABLE
        const DATA_HEAD: usize = 1024; // offset in struct perf_event_mmap_page
        // SAFETY: an ioctl without a pointer.
        unsafe { libc::ioctl(self.event.as_raw_fd(), DISABLE, 0) };
        // SAFETY: the head is an aligned u64 within the first page of our mapping, written by the
        // kernel; an atomic load with acquire order is what perf_event_open(2) asks for.
        let head = unsafe {
            (*self
                .ring
                .add(DATA_HEAD)
                .cast::<std::sync::atomic::AtomicU64>())
            .load(std::sync::atomic::Ordering::Acquire)
        };
        let length = (head as usize).min(RING);
        // SAFETY: the data pages follow the first page; they are not written any more, the event is
        // disabled; `length` is within them.
        let data = unsafe { std::slice::from_raw_parts(self.ring.add(PAGE), length) };
        count_modes(data, belongs)
    }
}

impl Drop for ModeSamples {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this size, no longer used.
        unsafe { libc::munmap(self.ring.cast(), PAGE + RING) };
    }
}

/// Reads records: type (u32), misc (u16), size (u16), then pid and tid (u32 each) in a sample.
fn count_modes(mut data: &[u8], belongs: impl Fn(u32) -> bool) -> (u64, u64) {
    const SAMPLE: [u8; 4] = 9u32.to_ne_bytes();
    const MODE_MASK: u16 = 7;
    const USER: u16 = 2;
    let (mut user, mut kernel) = (0, 0);
    while let [a, b, c, d, misc0, misc1, size0, size1, ..] = *data {
        let size = usize::from(u16::from_ne_bytes([size0, size1]));
        if size < 8 || size > data.len() {
            break;
        }
        if [a, b, c, d] == SAMPLE && size >= 16 {
            let pid = u32::from_ne_bytes([data[8], data[9], data[10], data[11]]);
            if belongs(pid) {
                match u16::from_ne_bytes([misc0, misc1]) & MODE_MASK {
                    USER => user += 1,
                    _ => kernel += 1,
                }
            }
        }
        data = &data[size..];
    }
    (user, kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, pid: u32) -> Vec<u8> {
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend_from_slice(&misc.to_ne_bytes());
        record.extend_from_slice(&16u16.to_ne_bytes());
        record.extend_from_slice(&pid.to_ne_bytes());
        record.extend_from_slice(&pid.to_ne_bytes());
        record
    }

    #[test]
    fn samples_of_our_processes_are_counted_by_mode() {
        let records = [
            record(9, 2, 7),
            record(9, 1, 7),
            record(9, 1, 7),
            record(9, 2, 8),
            record(3, 2, 7),
        ]
        .concat();
        assert_eq!(count_modes(&records, |pid| pid == 7), (1, 2));
        assert_eq!(count_modes(&records[..20], |pid| pid == 7), (1, 0));
    }

    #[test]
    fn a_batch_is_sent_and_received_through_sockets() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let mut out = Batch::<64>::new();
        out.fill(0, b"first");
        out.fill(1, &[7; 60]);
        assert_eq!(out.send(&client, 0, 2).unwrap(), 2);
        let mut into = Batch::<16>::new();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            wait_readable(std::slice::from_ref(&server));
            for index in 0..into.receive(&server).unwrap() {
                let (octets, length) = into.received(index);
                seen.push((octets[0], length));
            }
        }
        assert_eq!(seen, [(b'f', 5), (7, 60)]);
    }
}
