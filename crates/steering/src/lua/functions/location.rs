//! Functions by location: country, continent, region, autonomous system, coordinates, the closest address.

use std::net::IpAddr;

use mlua::{Lua, Table, Value};

use super::super::arguments::{self, texts};
use super::super::budget;
use super::super::current::with_current;
use super::ScriptNames;
use crate::geo::{GeoAttribute, GeoPoint};
use crate::random::random_below;

/// The text for an unknown code.
const UNKNOWN: &str = "--";
/// The attributes of `geoiplookup` by name; their numbers are their positions.
const ATTRIBUTES: [(&str, GeoAttribute); 8] = [
    ("ASn", GeoAttribute::AsNumber),
    ("City", GeoAttribute::City),
    ("Continent", GeoAttribute::Continent),
    ("Country", GeoAttribute::Country),
    ("Country2", GeoAttribute::Country),
    ("Name", GeoAttribute::Name),
    ("Region", GeoAttribute::Region),
    ("Location", GeoAttribute::Location),
];

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    let matching = [
        ("asnum", GeoAttribute::AsNumber),
        ("continent", GeoAttribute::Continent),
        ("country", GeoAttribute::Country),
        ("region", GeoAttribute::Region),
    ];
    for (name, attribute) in matching {
        let matches = move |_: &Lua, wanted: Value| matches(attribute, &wanted);
        names.function(name, matches)?;
    }
    let codes = [
        ("continentCode", GeoAttribute::Continent),
        ("countryCode", GeoAttribute::Country),
        ("regionCode", GeoAttribute::Region),
    ];
    for (name, attribute) in codes {
        let code = move |_: &Lua, _: Value| {
            let code = client_attribute(attribute)?;
            Ok(code.map_or_else(|| UNKNOWN.to_owned(), |code| code.to_lowercase()))
        };
        names.function(name, code)?;
    }
    names.function("latlon", |_, ()| Ok(coordinates(client_point()?)))?;
    names.function("latlonMagic", |_, ()| latlon_magic())?;
    names.function("latlonloc", |_, ()| {
        let point = client_point()?;
        Ok(loc(point.unwrap_or_default()))
    })?;
    names.function("pickclosest", |_, list: Table| pick_closest(&texts(&list)?))?;
    names.function("closestMagic", |_, ()| closest_magic())?;
    names.function("geoiplookup", |_, (address, attribute): (String, usize)| {
        let address = arguments::address(&address)?;
        let attribute = ATTRIBUTES.get(attribute).map(|(_, attribute)| *attribute);
        let attribute = attribute.ok_or_else(|| mlua::Error::runtime("unknown attribute"))?;
        let found = with_current(|run| {
            let (value, scope) = run.steering.geo().find(address, attribute);
            if address == run.query.client.best_address() {
                run.scope = run.scope.max(scope);
            }
            value
        })?;
        Ok(found.unwrap_or_default().to_lowercase())
    })?;
    let attributes = names.numbers(ATTRIBUTES.map(|(name, _)| name))?;
    names.table.raw_set("GeoIPQueryAttribute", attributes)
}

/// Returns a property of the client; notes how many bits of its address decided.
fn client_attribute(attribute: GeoAttribute) -> mlua::Result<Option<String>> {
    with_current(|run| {
        let client = run.query.client.best_address();
        let (value, scope) = run.steering.geo().find(client, attribute);
        run.scope = run.scope.max(scope);
        value
    })
}

fn client_point() -> mlua::Result<Option<GeoPoint>> {
    with_current(|run| {
        let client = run.query.client.best_address();
        let (point, scope) = run.steering.geo().locate(client);
        run.scope = run.scope.max(scope);
        point
    })
}

/// Checks whether the client has one of these values, in any letter case.
fn matches(attribute: GeoAttribute, wanted: &Value) -> mlua::Result<bool> {
    let wanted = match wanted {
        Value::Table(list) => texts(list)?,
        Value::String(text) => vec![text.to_string_lossy()],
        Value::Integer(number) => vec![number.to_string()],
        Value::Number(number) => vec![number.to_string()],
        other => {
            return Err(mlua::Error::runtime(format!(
                "{} is not a code",
                other.type_name()
            )));
        }
    };
    let found = client_attribute(attribute)?;
    Ok(found.is_some_and(|found| {
        wanted
            .iter()
            .any(|wanted| wanted.eq_ignore_ascii_case(&found))
    }))
}

/// Returns the address that is closest to the client; one of them if several are equally close, or if the client's location
/// is unknown.
pub(super) fn pick_closest(addresses: &[String]) -> mlua::Result<String> {
    budget::charge(64 * addresses.len())?;
    let mut closest = Vec::new();
    if let Some(client) = client_point()? {
        let mut best = f64::INFINITY;
        for text in addresses {
            let Ok(address) = text.parse::<IpAddr>() else {
                continue;
            };
            let point = with_current(|run| run.steering.geo().locate(address).0)?;
            let distance = point.map_or(f64::MAX, |point| point.distance(client));
            if distance < best {
                closest.clear();
                best = distance;
            }
            if distance <= best {
                closest.push(text);
            }
        }
    }
    if closest.is_empty() {
        closest = addresses.iter().collect();
    }
    let chosen = closest.get(random_below(closest.len() as u64) as usize);
    let chosen = chosen.ok_or_else(|| mlua::Error::runtime("the list of addresses is empty"))?;
    Ok((*chosen).clone())
}

/// Returns the closest of the addresses in the labels of the queried name, such as `192-0-2-1.198-51-100-1.magic`.
fn closest_magic() -> mlua::Result<String> {
    let labels = with_current(|run| {
        let (name, zone) = (run.query.name, run.query.zone);
        let kept = name.as_name().label_count() - zone.as_name().label_count();
        let labels = name.as_name().labels().take(kept);
        labels
            .map(|label| String::from_utf8_lossy(label).replace('-', "."))
            .collect::<Vec<_>>()
    })?;
    let addresses = labels
        .into_iter()
        .take_while(|label| label.parse::<IpAddr>().is_ok());
    pick_closest(&addresses.collect::<Vec<_>>())
}

/// Returns the coordinates of the IPv4 address in the first four labels of the queried name, the last octet first.
fn latlon_magic() -> mlua::Result<String> {
    with_current(|run| {
        let labels: Vec<&[u8]> = run.query.name.as_name().labels().take(4).collect();
        let [d, c, b, a] = labels[..] else {
            return "unknown".to_owned();
        };
        let text = [a, b, c, d].map(String::from_utf8_lossy).join(".");
        let point = text.parse::<IpAddr>().ok();
        let point = point.and_then(|address| run.steering.geo().locate(address).0);
        coordinates(point)
    })
}

/// Returns latitude and longitude as text; zeros for an unknown point, as in PowerDNS.
fn coordinates(point: Option<GeoPoint>) -> String {
    let point = point.unwrap_or_default();
    format!("{:.6} {:.6}", point.latitude, point.longitude)
}

/// Returns a point as the data of a LOC record.
fn loc(point: GeoPoint) -> String {
    let angle = |degrees: f64, positive: char, negative: char| {
        let sign = if degrees < 0.0 { negative } else { positive };
        let seconds = degrees.abs() * 3600.0;
        let (whole, rest) = ((seconds / 3600.0).floor(), seconds % 3600.0);
        format!(
            "{whole:.0} {:.0} {:.3} {sign}",
            (rest / 60.0).floor(),
            rest % 60.0
        )
    };
    let (latitude, longitude) = (
        angle(point.latitude, 'N', 'S'),
        angle(point.longitude, 'E', 'W'),
    );
    format!("{latitude} {longitude} 0.00m 1.00m 10000.00m 10.00m")
}
