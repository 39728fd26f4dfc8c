//! The `[xdp]` table: datagrams without the kernel's sockets.

use super::setting::section;

section! {
    /// Datagrams straight from network interfaces, without the kernel's sockets ([xdp.md](xdp.md)). Changes take effect on restart.
    XdpTable = "xdp" {
        /// Interfaces such as `eth0` on which queries over UDP are received by AF_XDP. It takes root or CAP_NET_ADMIN, CAP_NET_RAW
        /// and CAP_BPF at the start. TCP, fragments and everything that arrives elsewhere take the ordinary sockets.
        interfaces: Vec<String> = "[]";
    }
}
