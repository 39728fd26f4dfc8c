//! The `[client_subnet]` table: the EDNS client subnet option (RFC 7871).

use super::clients::Clients;
use super::setting::section;

section! {
    /// The EDNS client subnet option (RFC 7871), in which a resolver sends the network of its client
    /// ([client-subnet.md](client-subnet.md)). Changes take effect on reload.
    ClientSubnetTable = "client_subnet" {
        /// Resolvers whose option is trusted: their queries are answered for the network in the option, and the response
        /// says how many bits of the address the answer depends on. From other clients the option is ignored.
        allow_from: Clients = "[]";
    }
}
