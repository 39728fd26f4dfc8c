//! Network interfaces: their indexes and properties, through the ioctls of netdevice(7). Files in `/sys` would
//! describe the network namespace in which it was mounted.

use std::ffi::{CString, c_char, c_int};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Requests and commands of linux/sockios.h and linux/ethtool.h.
const GET_MTU: libc::c_ulong = 0x8921;
const ETHTOOL: libc::c_ulong = 0x8946;
const GET_CHANNELS: u32 = 0x3c;

/// `struct ifreq`: a name, and 24 octets whose meaning depends on the request.
#[repr(C)]
struct InterfaceRequest {
    name: [c_char; libc::IFNAMSIZ],
    data: InterfaceData,
}

#[repr(C)]
union InterfaceData {
    mtu: c_int,
    pointer: *mut Channels,
    size: [u8; 24],
}

/// `struct ethtool_channels`: the command, the maxima, then the numbers in use.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Returns the index of an interface.
pub(crate) fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string that lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// Returns the MTU of an interface.
pub(crate) fn mtu(name: &str) -> Option<usize> {
    let mut request = InterfaceRequest::new(name)?;
    request.make(GET_MTU)?;
    // SAFETY: the request has set it.
    let mtu = unsafe { request.data.mtu };
    usize::try_from(mtu).ok()
}

/// Returns the number of queues that an interface receives on; 1 if the driver does not report it.
pub(crate) fn receive_queues(name: &str) -> u32 {
    let mut channels = Channels {
        command: GET_CHANNELS,
        ..Channels::default()
    };
    let Some(mut request) = InterfaceRequest::new(name) else {
        return 1;
    };
    request.data.pointer = &raw mut channels;
    match request.make(ETHTOOL) {
        Some(()) => (channels.receive + channels.combined).max(1),
        None => 1,
    }
}

impl InterfaceRequest {
    fn new(name: &str) -> Option<Self> {
        let mut request = InterfaceRequest {
            name: [0; libc::IFNAMSIZ],
            data: InterfaceData { size: [0; 24] },
        };
        // Leaves the terminating zero.
        if name.len() >= request.name.len() {
            return None;
        }
        for (to, from) in request.name.iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        Some(request)
    }

    /// Performs the request; `None` if the kernel refuses it.
    fn make(&mut self, request: libc::c_ulong) -> Option<()> {
        // SAFETY: plain numbers.
        let socket =
            unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return None;
        }
        // SAFETY: the kernel has just opened the descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: `self` is an `ifreq`, and what it points to is the structure of the request; both live through the call.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut *self) };
        (result == 0).then_some(())
    }
}

const _: () = assert!(mem::size_of::<InterfaceRequest>() == mem::size_of::<libc::ifreq>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_number_and_a_large_mtu() {
        assert!(index("lo").is_some());
        assert!(mtu("lo").is_some_and(|mtu| mtu >= 1500));
        assert_eq!(receive_queues("lo"), 1);
        assert_eq!((index("no-such-one"), mtu("no-such-one")), (None, None));
        assert_eq!(mtu("a-name-that-is-longer-than-any"), None);
    }
}
