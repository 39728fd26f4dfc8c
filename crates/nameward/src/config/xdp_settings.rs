//! The `[xdp]` table: datagrams without the kernel's sockets.

use super::setting::section;

section! {
    /// Datagrams directly from network interfaces, bypassing kernel sockets ([xdp.md](xdp.md)). Changes take effect on
    /// restart.
    XdpTable = "xdp" {
        /// Interfaces such as `eth0` on which UDP queries are received by AF_XDP. Requires root or CAP_NET_ADMIN,
        /// CAP_NET_RAW and CAP_BPF at start-up. TCP, fragments and all traffic on other interfaces use ordinary sockets.
        interfaces: Vec<String> = "[]";
        /// Send responses according to the routing table, instead of to the station that sent the query. Queries whose
        /// responses leave through another interface then use ordinary sockets. Requires the kernel settings
        /// `net.ipv4.conf.lo.forwarding = 1` and `net.ipv6.conf.lo.forwarding = 1`, which let the filter look up routes.
        route_check: bool = "false";
    }
}
