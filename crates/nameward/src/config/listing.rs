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
    fn of<S: ConfigTable>() -> TableListing {
        TableListing {
            name: S::NAME,
            about: S::ABOUT,
            settings: list::<S>().collect(),
        }
    }
    vec![
        of::<Server>(),
        of::<Web>(),
        of::<ApiSettings>(),
        of::<TlsSettings>(),
        of::<HttpsTable>(),
        of::<QuicTable>(),
        of::<Backend>(),
        of::<KeySettings>(),
        of::<DnssecPolicySettings>(),
        of::<ZoneDefaults>(),
        of::<TemplateSettings>(),
        of::<AutoprimarySettings>(),
        of::<ZoneSettings>(),
        of::<ViewSettings>(),
        of::<Cache>(),
        of::<Journal>(),
        of::<Overload>(),
        of::<RateLimit>(),
        of::<CookieTable>(),
        of::<ClientSubnetTable>(),
        of::<XdpTable>(),
        of::<LuaTable>(),
        of::<GeoipTable>(),
        of::<HealthTable>(),
        of::<PoolSettings>(),
        of::<MapSettings>(),
        of::<Recursor>(),
        of::<SecurityPoll>(),
        of::<Rings>(),
        of::<Log>(),
        of::<QueryLogSettings>(),
        of::<DnstapSettings>(),
    ]
}

/// Returns every setting, in the same order.
pub fn all_settings() -> Vec<Listed> {
    tables()
        .into_iter()
        .flat_map(|table| table.settings)
        .collect()
}
