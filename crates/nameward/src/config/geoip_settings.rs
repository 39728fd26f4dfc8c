//! The `[geoip]` table: databases of where addresses are.

use super::read::Paths;
use super::setting::section;

section! {
    /// GeoIP databases, which LUA records read ([lua.md](lua.md#location)). Changes take effect on reload.
    GeoipTable = "geoip" {
        /// Files in the MaxMind format (`.mmdb`), such as GeoLite2-City and GeoLite2-ASN; of each property the first file that has
        /// it counts. A file that changes is read within ten seconds; if it is damaged, the previous contents stay in use, with a
        /// fault.
        databases: Paths = "[]";
    }
}
