//! The `[client_subnet]` table: the EDNS client subnet option (RFC 7871).

use super::clients::Clients;
use super::setting::section;

section! {
    /// The EDNS client subnet option (RFC 7871), by which a resolver names the network of its client
    /// ([client-subnet.md](client-subnet.md)). Changes take effect on reload.
    ClientSubnetTable = "client_subnet" {
        /// Resolvers whose option is believed: their queries are answered for the network in it, and the reply says how much
        /// of the address the answer depends on. From others it is ignored.
        allow_from: Clients = "[]";
    }
}
