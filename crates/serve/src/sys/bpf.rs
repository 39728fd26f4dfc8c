//! bpf(2): the maps, the program and the link that make up the filter of [`crate::xdp`]. The structures are those of
//! linux/bpf.h, up to the last field used: the kernel assumes zero for the others.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::mapping::Mapping;

const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Allows the value of an array to be mapped into memory.
const MAPPABLE: u32 = 1 << 10;
/// Buffer size for the kernel's explanation of a rejected program.
const VERIFIER_LOG: usize = 64 << 10;

/// The kinds of maps that are used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    /// Keys to values.
    Hash = 1,
    /// Queues to AF_XDP sockets.
    Sockets = 17,
}

/// How a program is attached to an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttachMode {
    /// By the driver.
    Native = 1 << 2,
    /// By the network stack, after the driver.
    Generic = 1 << 1,
}

#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Calls bpf(2).
fn call<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: the attributes are a plain structure of this size that lives through the call; pointers in them refer
    // to memory of the caller that does, too.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            (attributes as *mut T).cast::<libc::c_void>(),
            size_of::<T>() as libc::c_uint,
        )
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result as c_int),
    }
}

fn owned(descriptor: c_int) -> OwnedFd {
    // SAFETY: the kernel has just opened the descriptor for this call.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn number(descriptor: &impl AsRawFd) -> u32 {
    descriptor.as_raw_fd() as u32
}

/// Creates a map.
pub(crate) fn create_map(
    kind: MapKind,
    (key_size, value_size): (usize, usize),
    max_entries: usize,
) -> io::Result<OwnedFd> {
    let mut attributes = MapAttributes {
        kind: kind as u32,
        key_size: key_size as u32,
        value_size: value_size as u32,
        max_entries: max_entries as u32,
        flags: 0,
    };
    call(MAP_CREATE, &mut attributes).map(owned)
}

/// Creates a number that the program reads and this process sets without a system call.
pub(crate) fn create_number() -> io::Result<(OwnedFd, Mapping)> {
    let mut attributes = MapAttributes {
        kind: 2,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        flags: MAPPABLE,
    };
    let map = call(MAP_CREATE, &mut attributes).map(owned)?;
    let value = Mapping::shared(&map, 8, 0)?;
    Ok((map, value))
}

/// Sets an element of a map. Key and value have the sizes that it was created with.
pub(crate) fn set_element(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let mut attributes = ElementAttributes {
        map: number(map),
        pad: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    call(MAP_UPDATE, &mut attributes).map(drop)
}

/// Loads an XDP program. If the kernel rejects it, the error contains the kernel's reason.
pub(crate) fn load_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramAttributes {
        kind: PROGRAM_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"nameward\0\0\0\0\0\0\0\0",
        interface: 0,
        attach_type: ATTACH_XDP,
    };
    let error = match call(PROGRAM_LOAD, &mut attributes) {
        Ok(program) => return Ok(owned(program)),
        Err(error) => error,
    };
    if error.raw_os_error() != Some(libc::EINVAL) && error.raw_os_error() != Some(libc::EACCES) {
        return Err(error);
    }
    let mut log = vec![0_u8; VERIFIER_LOG];
    attributes.log_level = 1;
    attributes.log_size = log.len() as u32;
    attributes.log = log.as_mut_ptr() as u64;
    let Err(error) = call(PROGRAM_LOAD, &mut attributes).map(owned) else {
        return Err(error);
    };
    let end = log.iter().position(|octet| *octet == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&log[..end]);
    let last = text.lines().rev().nth(1).unwrap_or_default();
    Err(io::Error::new(error.kind(), format!("{error}: {last}")))
}

/// Attaches a program to an interface for as long as the returned link is open.
pub(crate) fn attach(program: &OwnedFd, interface: u32, mode: AttachMode) -> io::Result<OwnedFd> {
    let mut attributes = LinkAttributes {
        program: number(program),
        interface,
        attach_type: ATTACH_XDP,
        flags: mode as u32,
    };
    call(LINK_CREATE, &mut attributes).map(owned)
}

/// The instructions that the filter needs.
pub(crate) mod instruction {
    use super::RawFd;

    /// Registers: 0 has the result, 1 to 5 the arguments, 6 to 9 survive calls, 10 is the frame pointer.
    pub(crate) type Register = u8;

    pub(crate) const fn encode(
        code: u8,
        to: Register,
        from: Register,
        offset: i16,
        value: i32,
    ) -> u64 {
        code as u64
            | (to as u64) << 8
            | (from as u64) << 12
            | (offset as u16 as u64) << 16
            | (value as u32 as u64) << 32
    }

    /// Loads 1, 2 or 4 octets.
    pub(crate) const fn load(octets: u8, to: Register, from: Register, offset: i16) -> u64 {
        let code = match octets {
            1 => 0x71,
            2 => 0x69,
            _ => 0x61,
        };
        encode(code, to, from, offset, 0)
    }

    /// Stores the lower 4 octets of a register.
    pub(crate) const fn store(to: Register, offset: i16, from: Register) -> u64 {
        encode(0x63, to, from, offset, 0)
    }

    /// Stores the lower 2 octets of a register.
    pub(crate) const fn store_half(to: Register, offset: i16, from: Register) -> u64 {
        encode(0x6b, to, from, offset, 0)
    }

    /// Stores 4 octets.
    pub(crate) const fn store_value(to: Register, offset: i16, value: i32) -> u64 {
        encode(0x62, to, 0, offset, value)
    }

    pub(crate) const fn copy(to: Register, from: Register) -> u64 {
        encode(0xbf, to, from, 0, 0)
    }

    pub(crate) const fn set(to: Register, value: i32) -> u64 {
        encode(0xb7, to, 0, 0, value)
    }

    pub(crate) const fn add(to: Register, value: i32) -> u64 {
        encode(0x07, to, 0, 0, value)
    }

    pub(crate) const fn mask(to: Register, value: i32) -> u64 {
        encode(0x57, to, 0, 0, value)
    }

    /// The address of a map.
    pub(crate) const fn map(to: Register, descriptor: RawFd) -> [u64; 2] {
        [encode(0x18, to, 1, 0, descriptor), 0]
    }

    /// The address of the first value of a map.
    pub(crate) const fn map_value(to: Register, descriptor: RawFd) -> [u64; 2] {
        [encode(0x18, to, 2, 0, descriptor), 0]
    }

    pub(crate) const fn call(function: i32) -> u64 {
        encode(0x85, 0, 0, 0, function)
    }

    pub(crate) const EXIT: u64 = encode(0x95, 0, 0, 0, 0);
    /// Jumps: always; if equal or not to a value; if above, below or different from a register.
    pub(crate) const JUMP: u8 = 0x05;
    pub(crate) const JUMP_EQUAL: u8 = 0x15;
    pub(crate) const JUMP_NOT_EQUAL: u8 = 0x55;
    pub(crate) const JUMP_ABOVE: u8 = 0x2d;
    pub(crate) const JUMP_BELOW: u8 = 0xad;
    pub(crate) const JUMP_DIFFERENT: u8 = 0x5d;
}
