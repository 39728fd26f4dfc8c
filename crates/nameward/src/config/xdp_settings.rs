//! The `[xdp]` table: datagrams without the kernel's sockets.

use super::setting::section;

section! {
    /// Datagrams straight from network interfaces, without the kernel's sockets ([xdp.md](xdp.md)). Changes take effect on restart.
    XdpTable = "xdp" {
        /// Interfaces such as `eth0` on which queries over UDP are received by AF_XDP. It takes root or CAP_NET_ADMIN, CAP_NET_RAW
        /// and CAP_BPF at the start. TCP, fragments and everything that arrives elsewhere take the ordinary sockets.
        interfaces: Vec<String> = "[]";
        /// Send replies where the routing table says, instead of to the station that sent the query. Queries whose replies leave by
        /// another interface then take the ordinary sockets. It takes the kernel settings `net.ipv4.conf.lo.forwarding = 1` and
        /// `net.ipv6.conf.lo.forwarding = 1`, which let the filter look up routes.
        route_check: bool = "false";
    }
}
