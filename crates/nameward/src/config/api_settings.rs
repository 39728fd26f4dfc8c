//! Owns the settings of the HTTP API.

use std::net::SocketAddr;

use ipnet::IpNet;

use super::setting::section;
use nameward_base::secret::Secret;

section! {
    /// The PowerDNS-compatible HTTP API (docs/api.md).
    ApiSettings = "api" {
        /// Address of the API; "" disables it. It may be the address of the status page: both then answer on one port.
        listen: Option<SocketAddr> = r#""""#;
        /// Key that clients send as `X-API-Key`, plain or a scrypt hash from `nameward hash-password`. It grants all rights. ""
        /// means `web.api_key`.
        key: Secret<String> = r#""""#;
        /// Clients that may connect; connections from others are closed without a response.
        allow_from: Vec<IpNet> = r#"["127.0.0.1", "::1"]"#;
        /// Store keys created by `nameward api-key create` in a database and accept keys from there, so that all servers
        /// on it share them. Accounts with write access to the table `tsigkeys` can then create keys with all rights.
        keys_in_database: bool = "false";
        /// Serve the web administration at `/admin` (docs/admin.md). Users log in with an API key.
        admin: bool = "false";
        /// SOA-EDIT metadata of zones created through the API; "" means none.
        default_soa_edit: String = r#""""#;
        /// SOA-EDIT-API metadata of zones created through the API: how a change increases the serial.
        default_soa_edit_api: String = r#""DEFAULT""#;
        /// Catalog zone that lists primary zones created through the API; "" means none.
        default_catalog_zone: String = r#""""#;
    }
}
