//! The list of all tables and settings, for the documentation and `nameward config`.

use super::setting::{ConfigTable, Listed, list};
use super::{
    ApiSettings, AutoprimarySettings, Backend, Cache, ClientSubnetTable, CookieTable,
    DnssecPolicySettings, DnstapSettings, GeoipTable, HealthTable, HttpsTable, Journal,
    KeySettings, Log, LuaTable, MapSettings, Overload, PoolSettings, QueryLogSettings, QuicTable,
    RateLimit, Recursor, Rings, SecurityPoll, Server, TemplateSettings, TlsSettings, ViewSettings,
    Web, XdpTable, ZoneDefaults, ZoneSettings,
};

/// A table of the configuration file, for listings.
pub struct TableListing {
    /// Its name in the file.
    pub name: &'static str,
    /// Its description, line by line.
    pub about: &'static [&'static str],
    /// Its settings, in file order.
    pub settings: Vec<Listed>,
}

/// Returns every table, in documentation order.
pub fn tables() -> Vec<TableListing> {
    fn table_listing<S: ConfigTable>() -> TableListing {
        TableListing {
            name: S::NAME,
            about: S::ABOUT,
            settings: list::<S>().collect(),
        }
    }
    vec![
        table_listing::<Server>(),
        table_listing::<Web>(),
        table_listing::<ApiSettings>(),
        table_listing::<TlsSettings>(),
        table_listing::<HttpsTable>(),
        table_listing::<QuicTable>(),
        table_listing::<Backend>(),
        table_listing::<KeySettings>(),
        table_listing::<DnssecPolicySettings>(),
        table_listing::<ZoneDefaults>(),
        table_listing::<TemplateSettings>(),
        table_listing::<AutoprimarySettings>(),
        table_listing::<ZoneSettings>(),
        table_listing::<ViewSettings>(),
        table_listing::<Cache>(),
        table_listing::<Journal>(),
        table_listing::<Overload>(),
        table_listing::<RateLimit>(),
        table_listing::<CookieTable>(),
        table_listing::<ClientSubnetTable>(),
        table_listing::<XdpTable>(),
        table_listing::<LuaTable>(),
        table_listing::<GeoipTable>(),
        table_listing::<HealthTable>(),
        table_listing::<PoolSettings>(),
        table_listing::<MapSettings>(),
        table_listing::<Recursor>(),
        table_listing::<SecurityPoll>(),
        table_listing::<Rings>(),
        table_listing::<Log>(),
        table_listing::<QueryLogSettings>(),
        table_listing::<DnstapSettings>(),
    ]
}

/// Returns every setting, in the same order.
pub fn all_settings() -> Vec<Listed> {
    tables()
        .into_iter()
        .flat_map(|table| table.settings)
        .collect()
}
