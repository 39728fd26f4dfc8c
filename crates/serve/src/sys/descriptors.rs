//! Passing of open descriptors between processes (SCM_RIGHTS of unix(7)).

use std::ffi::c_int;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Descriptors in one message; the kernel accepts 253.
const MESSAGE_MAX: usize = 128;
/// Octets for the header of the control message and its descriptors, aligned.
const CONTROL_LEN: usize = size_of::<libc::cmsghdr>() + MESSAGE_MAX * size_of::<c_int>() + 16;

/// Buffer for a control message.
#[repr(C, align(8))]
struct ControlBuffer([u8; CONTROL_LEN]);

/// Sends descriptors, each batch with one octet of data.
pub fn send(stream: &UnixStream, descriptors: &[OwnedFd]) -> io::Result<()> {
    descriptors
        .chunks(MESSAGE_MAX)
        .try_for_each(|batch| send_batch(stream, batch))
}

fn send_batch(stream: &UnixStream, batch: &[OwnedFd]) -> io::Result<()> {
    let numbers: Vec<RawFd> = batch.iter().map(AsRawFd::as_raw_fd).collect();
    let mut control = ControlBuffer([0; CONTROL_LEN]);
    let mut data = [b'.'];
    let mut part = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let length = size_of_val(&numbers[..]) as libc::c_uint;
    // SAFETY: an all-zero msghdr is valid; all pointers are to buffers that live through the call. The control buffer is
    // aligned and has room for a batch, so the header and data that CMSG_FIRSTHDR and CMSG_DATA point to are within it.
    let sent = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(length) as _;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(length) as _;
        let to = libc::CMSG_DATA(message).cast::<c_int>();
        std::ptr::copy_nonoverlapping(numbers.as_ptr(), to, numbers.len());
        libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    match sent {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives as many descriptors as were sent, with close-on-exec set.
pub fn receive(stream: &UnixStream, number: usize) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::new();
    while all.len() < number {
        let before = all.len();
        receive_batch(stream, &mut all)?;
        if all.len() == before {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(all)
}

fn receive_batch(stream: &UnixStream, all: &mut Vec<OwnedFd>) -> io::Result<()> {
    let mut control = ControlBuffer([0; CONTROL_LEN]);
    let mut data = [0];
    let mut part = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: an all-zero msghdr is valid; all pointers are to buffers that live through the call. CMSG_FIRSTHDR returns
    // null or a header that the kernel wrote into the aligned buffer, and its length says how many descriptors follow; each
    // is new in this process and owned by nothing else.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_LEN as _;
        let received = libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        if message.is_null()
            || (*message).cmsg_level != libc::SOL_SOCKET
            || (*message).cmsg_type != libc::SCM_RIGHTS
        {
            return Ok(());
        }
        let octets = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
        let from = libc::CMSG_DATA(message).cast::<c_int>();
        for index in 0..octets / size_of::<c_int>() {
            all.push(OwnedFd::from_raw_fd(from.add(index).read_unaligned()));
        }
    }
    Ok(())
}

/// Returns the process ID of the peer of a socket.
pub fn peer_process(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: `peer` is a ucred, which SO_PEERCRED fills, and `length` is its size.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => u32::try_from(peer.pid).map_err(io::Error::other),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a descriptor number of this process, such as that of stdout, refer to the file of another one.
pub fn replace(number: RawFd, by: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain numbers; the descriptor that is replaced is closed by the call.
    if unsafe { libc::dup2(by.as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the descriptors passed by the service manager (`LISTEN_FDS` of sd_listen_fds(3)), from 3 on.
///
/// # Safety
/// They must not be owned by anything else in this process: call once, before anything is opened.
pub unsafe fn passed_by_service_manager(number: usize) -> Vec<OwnedFd> {
    let number = c_int::try_from(number).unwrap_or(0);
    // SAFETY: the caller guarantees it.
    (3..3 + number)
        .map(|number| unsafe { OwnedFd::from_raw_fd(number) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn as_many_descriptors_arrive_as_were_sent_and_are_the_same_files() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let copies: Vec<OwnedFd> = (0..MESSAGE_MAX + 2)
            .map(|_| writer.try_clone().unwrap().into())
            .collect();
        send(&here, &copies).unwrap();
        let received = receive(&there, copies.len()).unwrap();
        assert_eq!(received.len(), copies.len());
        drop((copies, writer));
        let last = received.into_iter().next_back().unwrap();
        std::fs::File::from(last).write_all(b"x").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }
}
