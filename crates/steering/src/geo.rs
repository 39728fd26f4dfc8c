//! Where addresses are: MaxMind databases (GeoIP2, GeoLite2), read whole into memory.
//!
//! Several databases complement each other: a value is that of the first one that has it. A file that changes is read again;
//! one that cannot be read or is damaged is reported, and the previous contents stay in use.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use maxminddb::{PathElement, Reader, path};

/// The contents of one database file.
struct GeoFile {
    path: PathBuf,
    /// Size and time of the file when it was read; `None` if it could not be read.
    stamp: Option<(u64, SystemTime)>,
    reader: Option<Arc<Reader<Vec<u8>>>>,
    /// Why the current file is not used.
    error: Option<String>,
}

/// A database file that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoFault {
    /// The file.
    pub path: PathBuf,
    /// Why it is not used.
    pub error: String,
    /// Whether an older version of it is in use.
    pub has_previous: bool,
}

/// A property of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoAttribute {
    /// The number of its autonomous system.
    AsNumber,
    /// The organisation of its autonomous system.
    Name,
    /// The city, in English.
    City,
    /// The continent, as two letters.
    Continent,
    /// The country, as two letters.
    Country,
    /// The largest subdivision of the country, by its ISO code.
    Region,
    /// Latitude and longitude.
    Location,
}

/// Latitude and longitude in degrees.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GeoPoint {
    /// North is positive.
    pub latitude: f64,
    /// East is positive.
    pub longitude: f64,
}

impl GeoPoint {
    /// Returns the square of the distance between two points on a unit sphere, through it: enough to compare.
    pub fn distance(self, other: GeoPoint) -> f64 {
        let position = |point: GeoPoint| {
            let (latitude, longitude) = (point.latitude.to_radians(), point.longitude.to_radians());
            [
                latitude.cos() * longitude.cos(),
                latitude.cos() * longitude.sin(),
                latitude.sin(),
            ]
        };
        let (here, there) = (position(self), position(other));
        here.iter().zip(there).map(|(a, b)| (a - b) * (a - b)).sum()
    }
}

/// The two letters of a country or continent, in upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GeoCode([u8; 2]);

impl GeoCode {
    /// Returns the code with these letters; `None` if there are not two of them.
    pub fn new(text: &str) -> Option<Self> {
        let code: [u8; 2] = text.as_bytes().try_into().ok()?;
        Some(GeoCode(code.map(|letter| letter.to_ascii_uppercase())))
    }
}

/// Read without an allocation: answers of maps depend on it.
impl<'de> serde::Deserialize<'de> for GeoCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        GeoCode::new(text).ok_or_else(|| serde::de::Error::custom("not two letters"))
    }
}

/// The paths of a country.
const COUNTRY: [&[PathElement<'static>]; 2] = [
    &[PathElement::Key("country"), PathElement::Key("iso_code")],
    &[
        PathElement::Key("registered_country"),
        PathElement::Key("iso_code"),
    ],
];
/// The path of a continent.
const CONTINENT: [&[PathElement<'static>]; 1] =
    [&[PathElement::Key("continent"), PathElement::Key("code")]];

/// The databases in use.
#[derive(Default)]
pub struct GeoDatabases {
    files: ArcSwap<Vec<GeoFile>>,
}

impl std::fmt::Debug for GeoDatabases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeoDatabases").finish_non_exhaustive()
    }
}

impl GeoDatabases {
    /// Uses these files from now on; those that have not changed are not read again. Reads files, so it must not be called
    /// by a worker.
    pub fn load(&self, paths: &[PathBuf]) {
        let before = self.files.load_full();
        let loaded = paths.iter().map(|path| {
            let loaded = before.iter().find(|file| file.path == *path);
            load_file(path, loaded)
        });
        self.files.store(Arc::new(loaded.collect()));
    }

    /// Reads the files again that have changed.
    pub fn refresh(&self) {
        let files = self.files.load_full();
        let is_changed = |file: &GeoFile| stamp(&file.path) != file.stamp;
        if files.iter().any(is_changed) {
            let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
            self.load(&paths);
        }
    }

    /// Returns the files that are not used.
    pub fn faults(&self) -> Vec<GeoFault> {
        let files = self.files.load();
        let faulty = files.iter().filter_map(|file| {
            Some(GeoFault {
                path: file.path.clone(),
                error: file.error.clone()?,
                has_previous: file.reader.is_some(),
            })
        });
        faulty.collect()
    }

    /// Returns a property of an address as text, and the length of the network that it holds for.
    pub fn find(&self, address: IpAddr, attribute: GeoAttribute) -> (Option<String>, u8) {
        let (value, scope) = match attribute {
            GeoAttribute::AsNumber => {
                let (number, scope) =
                    self.decode::<u32>(address, &[&path!["autonomous_system_number"]]);
                (number.map(|number| number.to_string()), scope)
            }
            GeoAttribute::Location => {
                let (point, scope) = self.locate(address);
                let text =
                    |point: GeoPoint| format!("{:.6} {:.6}", point.latitude, point.longitude);
                (point.map(text), scope)
            }
            GeoAttribute::Name => self.decode(address, &[&path!["autonomous_system_organization"]]),
            GeoAttribute::City => self.decode(address, &[&path!["city", "names", "en"]]),
            GeoAttribute::Continent => self.decode(address, &CONTINENT),
            GeoAttribute::Country => self.decode(address, &COUNTRY),
            GeoAttribute::Region => self.decode(address, &[&path!["subdivisions", 0, "iso_code"]]),
        };
        (value, scope)
    }

    /// Returns the country of an address, and the length of the network that it holds for.
    pub fn country(&self, address: IpAddr) -> (Option<GeoCode>, u8) {
        self.decode(address, &COUNTRY)
    }

    /// Returns the continent of an address, and the length of the network that it holds for.
    pub fn continent(&self, address: IpAddr) -> (Option<GeoCode>, u8) {
        self.decode(address, &CONTINENT)
    }

    /// Returns the location of an address, and the length of the network that it holds for.
    pub fn locate(&self, address: IpAddr) -> (Option<GeoPoint>, u8) {
        let (latitude, scope) = self.decode(address, &[&path!["location", "latitude"]]);
        let (longitude, _) = self.decode(address, &[&path!["location", "longitude"]]);
        let point = latitude
            .zip(longitude)
            .map(|(latitude, longitude)| GeoPoint {
                latitude,
                longitude,
            });
        (point, scope)
    }

    /// Returns the first value that a database has at one of the paths.
    fn decode<T>(&self, address: IpAddr, paths: &[&[PathElement<'_>]]) -> (Option<T>, u8)
    where
        T: for<'de> serde::Deserialize<'de>,
    {
        let mut scope = 0;
        for file in self.files.load().iter() {
            let Some(reader) = &file.reader else { continue };
            let Ok(found) = reader.lookup(address) else {
                continue;
            };
            // The result for an address applies to its network, even if the database has no data for it.
            scope = scope.max(found.network().map_or(0, |network| network.prefix()));
            for path in paths {
                if let Ok(Some(value)) = found.decode_path(path) {
                    return (Some(value), scope);
                }
            }
        }
        (None, scope)
    }
}

fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

fn load_file(path: &Path, loaded: Option<&GeoFile>) -> GeoFile {
    let current = stamp(path);
    let previous = loaded.and_then(|loaded| loaded.reader.clone());
    if let Some(loaded) = loaded
        && loaded.stamp == current
        && current.is_some()
    {
        return GeoFile {
            path: path.into(),
            stamp: current,
            reader: previous,
            error: loaded.error.clone(),
        };
    }
    let (reader, error) = match read(path) {
        Ok(reader) => (Some(Arc::new(reader)), None),
        Err(error) => (previous, Some(error.to_string())),
    };
    match &error {
        Some(error) => tracing::error!("GeoIP database {}: {error}", path.display()),
        None => tracing::info!("GeoIP database {}: loaded", path.display()),
    }
    GeoFile {
        path: path.into(),
        stamp: current,
        reader,
        error,
    }
}

/// The reason why a database cannot be used.
#[derive(Debug, thiserror::Error)]
enum GeoReadError {
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    #[error("{0}")]
    Damaged(#[from] maxminddb::MaxMindDbError),
}

/// Reads and checks a file: a damaged one must be found now, not by a query.
fn read(path: &Path) -> Result<Reader<Vec<u8>>, GeoReadError> {
    let reader = Reader::from_source(std::fs::read(path)?)?;
    reader.verify()?;
    Ok(reader)
}
