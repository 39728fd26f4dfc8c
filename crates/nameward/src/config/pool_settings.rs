//! The `[[pool]]` and `[[map]]` tables: addresses by health and weight, and which clients get which.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use nameward_steering::geo::GeoPoint;
use nameward_steering::health::{CheckKind, HealthCheck};
use nameward_steering::pools::{
    AllDown, MapEntry, MapRule, PoolMember, PoolRule, PoolRules, is_pool_name,
};
use toml::{Spanned, de::DeValue};

use super::read::{Count, Read, Wrong, keywords, parse, words};
use super::setting::section;
use super::zone_values::{inline_table, setting};
use super::{Config, ConfigReader};

/// Maximum number of members of all pools.
const MEMBERS_MAX: usize = 20_000;
/// The User-Agent of requests.
const USER_AGENT: &str = "Nameward";

section! {
    /// Addresses from which each answer is chosen, by health, weight and order ([pools.md](pools.md)). May be given
    /// several times. A zone uses a pool by a LUA record: `www LUA A "pool('web')"`. All members are checked from
    /// start-up on. Changes take effect on reload.
    PoolSettings = "pool" {
        /// Name of the pool in zone data: letters, digits, "-", "_" and ".". A pool and a map cannot have the same name.
        name: String = r#""""#;
        /// The addresses: `"192.0.2.1"`, or tables such as `{ address = "192.0.2.1", weight = 10, order = 1,
        /// check_address = "10.0.0.1" }`. `weight` is a share of the answers (1), `order` a rank (0): members of a higher
        /// order are used while none of a lower one works. `check_address` is checked instead of the address, `check_url`
        /// is used by `check = "external"`.
        members: Vec<MemberSettings> = "[]";
        /// Number of records in an answer; 0 means all members that work.
        answers: Count<0, 100> = "1";
        /// Give a client the same members as long as they work.
        sticky: bool = "false";
        /// The answer when no member works: `serve` answers as if all members worked, `empty` without records, `fail`
        /// with SERVFAIL.
        all_down: AllDown = r#""serve""#;
        /// How members are checked: `tcp` connects to the port, `http` and `https` request `path`, `dns` queries `query`,
        /// `external` requests the `check_url` of each member, where another server reports the member's health.
        check: PoolCheckWord = r#""none""#;
        /// The port for checks; 0 means the default port of the protocol.
        port: Count<0, 65_535> = "0";
        /// The host name in HTTP requests, for which certificates are verified; "" means the address of the member.
        host: String = r#""""#;
        /// The path in HTTP requests.
        path: String = r#""/""#;
        /// The status that an HTTP response must have.
        status: Count<100, 999> = "200";
        /// A string that an HTTP response must contain.
        contains: String = r#""""#;
        /// The name whose SOA record DNS checks query; the response must have no error.
        query: String = r#"".""#;
        /// Seconds between two checks of a member; 0 means `health.interval`.
        interval: Count<0, 86_400> = "0";
        /// Timeout for a check, in milliseconds.
        timeout_ms: Count<1, 60_000> = "2000";
        /// Successful checks in a row after which a member that was down is up.
        rise: Count<1, 1000> = "1";
        /// Failed checks in a row after which a member that was up is down.
        fall: Count<1, 1000> = "1";
    }
}

section! {
    /// Pools by client ([pools.md](pools.md)). May be given several times. A zone uses a map like a pool, by its name:
    /// `www LUA A "pool('geo')"`. The longest matching network decides; else the country, else the continent, else the
    /// closest coordinates. Changes take effect on reload.
    MapSettings = "map" {
        /// Name of the map in zone data.
        name: String = r#""""#;
        /// Clients and their pools: tables with `networks`, `countries` (`["DE", "FR"]`), `continents` (`["EU"]`), or
        /// `latitude` and `longitude`, and `pools` in order of preference: the first one with members that work is used.
        /// All of these except networks need `[geoip] databases`.
        entries: Vec<MapEntry> = "[]";
        /// The pools of all other clients, in order of preference.
        default: Vec<String> = "[]";
    }
}

keywords! {
    AllDown {
        "serve" => AllDown::Serve,
        "empty" => AllDown::Empty,
        "fail" => AllDown::Fail,
    }
}

words! {
    /// How members are checked.
    PoolCheckWord {
        /// Not at all.
        None = "none",
        /// A TCP connection.
        Tcp = "tcp",
        /// An HTTP request.
        Http = "http",
        /// An HTTPS request.
        Https = "https",
        /// A DNS query.
        Dns = "dns",
        /// A URL elsewhere.
        External = "external",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    address: IpAddr,
    weight: u32,
    order: u32,
    check_address: Option<IpAddr>,
    check_url: String,
}

const MEMBER: &str = r#"an address, or a table such as { address = "192.0.2.1", weight = 10 }"#;

fn address(value: &Spanned<DeValue<'_>>) -> Result<IpAddr, Wrong> {
    parse(value, "an address")
}

impl Read for MemberSettings {
    const LIST: &'static str =
        "a list of addresses, or of tables such as { address = \"192.0.2.1\", weight = 10 }";

    fn expected() -> String {
        MEMBER.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let mut member = MemberSettings {
            address: IpAddr::from([0; 4]),
            weight: 1,
            order: 0,
            check_address: None,
            check_url: String::new(),
        };
        if value.get_ref().as_str().is_some() {
            member.address = address(value)?;
            return Ok(member);
        }
        let keys = ["address", "weight", "order", "check_address", "check_url"];
        let table = inline_table(value, MEMBER, &keys)?;
        let own = table.get("address");
        member.address = address(own.ok_or_else(|| Wrong::expected(MEMBER, value))?)?;
        if let Some(weight) = setting::<Count<0, 1_000_000>>(table, "weight", base)? {
            member.weight = weight.get() as u32;
        }
        if let Some(order) = setting::<Count<0, 1000>>(table, "order", base)? {
            member.order = order.get() as u32;
        }
        member.check_address = table.get("check_address").map(address).transpose()?;
        member.check_url = setting(table, "check_url", base)?.unwrap_or_default();
        Ok(member)
    }
}

const ENTRY: &str = r#"a table such as { countries = ["DE"], pools = ["web"] }"#;

fn degrees(value: &Spanned<DeValue<'_>>, limit: f64) -> Result<f64, Wrong> {
    let number = match value.get_ref() {
        DeValue::Float(number) => number.as_str().replace('_', "").parse::<f64>().ok(),
        DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    { number.filter(|number| number.abs() <= limit) }
        .ok_or_else(|| Wrong::expected(&format!("degrees from -{limit} to {limit}"), value))
}

impl Read for MapEntry {
    const LIST: &'static str =
        "a list of tables such as { countries = [\"DE\"], pools = [\"web\"] }";

    fn expected() -> String {
        ENTRY.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let keys = [
            "networks",
            "countries",
            "continents",
            "latitude",
            "longitude",
            "pools",
        ];
        let table = inline_table(value, ENTRY, &keys)?;
        let texts = |key| setting::<Vec<String>>(table, key, base).map(Option::unwrap_or_default);
        let networks = setting(table, "networks", base);
        let degrees = |key, limit| {
            let value = table.get(key);
            value.map(|value| degrees(value, limit)).transpose()
        };
        let (latitude, longitude) = (degrees("latitude", 90.0)?, degrees("longitude", 180.0)?);
        let wrong = |message: &str| Wrong::new(value, message);
        if latitude.is_some() != longitude.is_some() {
            return Err(wrong("latitude and longitude belong together"));
        }
        let entry = MapEntry {
            networks: networks?.unwrap_or_default(),
            countries: texts("countries")?,
            continents: texts("continents")?,
            point: latitude
                .zip(longitude)
                .map(|(latitude, longitude)| GeoPoint {
                    latitude,
                    longitude,
                }),
            pools: texts("pools")?,
        };
        let codes = entry.countries.iter().chain(&entry.continents);
        if let Some(code) = codes
            .clone()
            .find(|code| code.len() != 2 || !code.is_ascii())
        {
            return Err(wrong(&format!(
                "invalid code {code:?}: expected two letters"
            )));
        }
        if entry.networks.is_empty() && codes.count() == 0 && entry.point.is_none() {
            return Err(wrong(
                "an entry needs networks, countries, continents or coordinates",
            ));
        }
        Ok(entry)
    }
}

/// The reason why the members of a pool cannot be checked as configured.
#[derive(Debug, thiserror::Error)]
enum PoolFault {
    #[error("check = \"tcp\" needs a port")]
    NoPort,
    #[error("{0}: check = \"external\" needs check_url")]
    NoUrl(IpAddr),
}

impl PoolSettings {
    /// Returns the check of a member; an error if the settings do not suffice.
    fn check_of(&self, member: &MemberSettings) -> Result<Option<HealthCheck>, PoolFault> {
        let port = |default: u16| match self.port.get() as u16 {
            0 => default,
            port => port,
        };
        let address = member.check_address.unwrap_or(member.address);
        let host = if self.host.is_empty() {
            match address {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            }
        } else {
            self.host.clone()
        };
        let url = |url: String| CheckKind::Url {
            url,
            string_match: self.contains.clone(),
            user_agent: USER_AGENT.to_owned(),
            bytes_limit: 0,
            http_code: self.status.get() as u16,
            has_weight: false,
        };
        let (address, kind) = match self.check {
            PoolCheckWord::None => return Ok(None),
            PoolCheckWord::Tcp if self.port.get() == 0 => {
                return Err(PoolFault::NoPort);
            }
            PoolCheckWord::Tcp => (Some(address), CheckKind::Port(port(0))),
            PoolCheckWord::Http => (
                Some(address),
                url(format!("http://{host}:{}{}", port(80), self.path)),
            ),
            PoolCheckWord::Https => (
                Some(address),
                url(format!("https://{host}:{}{}", port(443), self.path)),
            ),
            PoolCheckWord::Dns => {
                let name = self.query.clone();
                (
                    Some(address),
                    CheckKind::Dns {
                        port: port(53),
                        name,
                    },
                )
            }
            PoolCheckWord::External if member.check_url.is_empty() => {
                return Err(PoolFault::NoUrl(member.address));
            }
            PoolCheckWord::External => (None, url(member.check_url.clone())),
        };
        Ok(Some(HealthCheck {
            address,
            kind,
            source: None,
            timeout_ms: self.timeout_ms.get() as u64,
            interval: self.interval.get() as u64,
            minimum_failures: self.fall.get() as u32,
            minimum_successes: self.rise.get() as u32,
        }))
    }

    fn rule(&self) -> Result<PoolRule, PoolFault> {
        let members = self.members.iter().map(|member| {
            Ok(PoolMember {
                address: member.address,
                weight: member.weight,
                order: member.order,
                check: self.check_of(member)?,
            })
        });
        Ok(PoolRule {
            name: self.name.clone(),
            members: members.collect::<Result<_, PoolFault>>()?,
            answers: self.answers.get(),
            is_sticky: self.sticky,
            all_down: self.all_down,
        })
    }

    /// Returns why a pool is not possible.
    fn objection(&self) -> Option<String> {
        if self.members.is_empty() {
            return Some(format!("pool {:?} needs members", self.name));
        }
        if !self.path.starts_with('/') {
            return Some("path must start with \"/\"".into());
        }
        self.rule().err().map(|fault| fault.to_string())
    }
}

pub fn rules(config: &Config) -> PoolRules {
    let map = |map: &MapSettings| MapRule {
        name: map.name.clone(),
        entries: map.entries.clone(),
        default: map.default.clone(),
    };
    PoolRules {
        pools: config
            .pools
            .iter()
            .filter_map(|pool| pool.rule().ok())
            .collect(),
        maps: config.maps.iter().map(map).collect(),
    }
}

impl ConfigReader<'_> {
    /// Reads `[[pool]]`.
    pub(super) fn pools(&mut self, pools: &mut Vec<PoolSettings>, value: &Spanned<DeValue<'_>>) {
        let mut names = HashSet::new();
        self.each(value, |reader, entry, pool: PoolSettings| {
            let objection = name_objection(&pool.name, &mut names).or_else(|| pool.objection());
            match objection {
                Some(message) => reader.problem(entry.span(), message),
                None => pools.push(pool),
            }
        });
        if pools.iter().map(|pool| pool.members.len()).sum::<usize>() > MEMBERS_MAX {
            self.problem(value.span(), format!("more than {MEMBERS_MAX} members"));
        }
    }

    /// Reads `[[map]]`, after the pools.
    pub(super) fn maps(&mut self, config: &mut Config, value: Option<&Spanned<DeValue<'_>>>) {
        let Some(value) = value else {
            return;
        };
        let mut names: HashSet<String> =
            config.pools.iter().map(|pool| pool.name.clone()).collect();
        let known = names.clone();
        let mut maps = Vec::new();
        self.each(value, |reader, entry, map: MapSettings| {
            let objection = name_objection(&map.name, &mut names).or_else(|| {
                let lists = map.entries.iter().map(|entry| &entry.pools);
                let mut named = lists.chain([&map.default]).flatten();
                let unknown = named.find(|name| !known.contains(*name));
                unknown.map(|name| format!("unknown [[pool]] {name:?}"))
            });
            match objection {
                Some(message) => reader.problem(entry.span(), message),
                None => maps.push(map),
            }
        });
        config.maps = maps;
    }
}

/// Returns why a pool or map cannot have a name.
fn name_objection(name: &str, names: &mut HashSet<String>) -> Option<String> {
    if !is_pool_name(name.as_bytes()) {
        return Some(format!(
            "invalid name {name:?}: expected letters, digits, \"-\", \"_\" and \".\""
        ));
    }
    (!names.insert(name.to_owned())).then(|| format!("two pools or maps have the name {name:?}"))
}
