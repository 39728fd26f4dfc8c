//! A requested change, and the zone as presented to a change that depends on its contents.

use super::super::{SqlError, ZoneRow};
use super::InvalidChange;
use super::derive::{CachedDenial, CanonicalName, key};
use super::edit::check_edit;
use super::session::{Failure, Session, Value};
use crate::dialect::octets;
use nameward_dnssec::{MadeTypes, Nsec3Param, SigningPolicy, SoaEdit};
use nameward_wire::NameBuf;
use nameward_zone::SerialRule;
use nameward_zone::change::{ChangeAuthor, ChangeOrigin, ConditionalChange, Edit, ZoneChange};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The metadata kind that names the server that manages the keys of a zone.
pub const KEY_SERVER: &str = "X-NAMEWARD-KEY-SERVER";

#[derive(Clone, Copy)]
pub(super) enum RequestedChange<'c> {
    /// Its edits are known.
    Change(&'c ZoneChange),
    /// Its edits depend on the zone's contents.
    When(&'c dyn ConditionalChange),
}

impl RequestedChange<'_> {
    pub(super) fn origin(self) -> ChangeOrigin {
        match self {
            RequestedChange::Change(change) => change.origin,
            RequestedChange::When(requested) => requested.origin(),
        }
    }

    pub(super) fn author(self) -> Option<Arc<ChangeAuthor>> {
        match self {
            RequestedChange::Change(_) => None,
            RequestedChange::When(requested) => requested.author(),
        }
    }

    pub(super) fn names(self) -> BTreeSet<CanonicalName> {
        match self {
            RequestedChange::Change(change) => names_of(change),
            RequestedChange::When(requested) => {
                let names = requested.names().into_iter();
                names.map(|name| key(name.as_name())).collect()
            }
        }
    }
}

/// Checks each edit independently of the zone's contents.
pub(super) fn check_edits(
    change: &ZoneChange,
    zone: &ZoneRow,
    signing: &SigningRows,
) -> Result<(), InvalidChange> {
    let apex = NameBuf::from(zone.name.as_name().zone());
    let check = |edit: &Edit| check_edit(edit, &apex, signing.is_presigned);
    change.edits.iter().try_for_each(check)
}

/// Returns the owners that edits refer to.
pub(super) fn names_of(change: &ZoneChange) -> BTreeSet<CanonicalName> {
    let name = |edit: &Edit| key(edit.name().as_name());
    change.edits.iter().map(name).collect()
}

/// How a zone is signed, according to its database.
pub(super) struct SigningRows {
    pub(super) denial: CachedDenial,
    pub(super) is_presigned: bool,
    /// The types that this server makes, if it signs the zone.
    pub(super) made: MadeTypes,
    /// How the served serial is derived: SOA-EDIT applies while the zone is signed here.
    pub(super) soa_edit: SoaEdit,
    /// How a change by the API raises the serial.
    pub(super) api_serial: SerialRule,
}

pub(super) async fn read_signing(session: &mut Session, zone: i64) -> Result<SigningRows, Failure> {
    let (mut param, mut narrow, mut is_presigned) = (None, false, false);
    let (mut policy, mut has_key_server) = (SigningPolicy::default(), false);
    let (mut soa_edit, mut soa_edit_api) = (None, None);
    let text = octets(session.engine(), "content");
    let sql = format!(
        "SELECT domain_id, CAST(kind AS CHAR(32)), {text} FROM domainmetadata WHERE domain_id = ? \
         AND kind IN ('NSEC3PARAM', 'NSEC3NARROW', 'PRESIGNED', 'PUBLISH-CDS', 'PUBLISH-CDNSKEY', 'SOA-EDIT', \
         'SOA-EDIT-API', '{KEY_SERVER}')"
    );
    session
        .rows(&sql, &[Value::Int(zone)], &mut |row| {
            let content = row.string(2).unwrap_or_default();
            match row.text(1).unwrap_or_default().trim_ascii() {
                b"NSEC3PARAM" => param = Some(content),
                b"NSEC3NARROW" => narrow = content == "1",
                b"SOA-EDIT-API" => {
                    soa_edit_api.get_or_insert(content);
                }
                kind @ (b"PUBLISH-CDS" | b"PUBLISH-CDNSKEY" | b"SOA-EDIT") => {
                    // Values that cannot be read there are not in effect either.
                    let _ = policy.take(&String::from_utf8_lossy(kind), &content);
                    if kind == b"SOA-EDIT" {
                        soa_edit.get_or_insert(content);
                    }
                }
                kind if kind == KEY_SERVER.as_bytes() => has_key_server = true,
                _ => is_presigned = content == "1",
            }
        })
        .await?;
    let sql = "SELECT id FROM cryptokeys WHERE domain_id = ? AND active LIMIT 1";
    let has_keys = session.finds(sql, &[Value::Int(zone)]).await?;
    // Names in the wrong order would be denied by PowerDNS.
    let param = param.map(|text| Nsec3Param::read(&text)).transpose();
    let param = param.map_err(|error| SqlError::row("domainmetadata", 0, error.to_string()))?;
    Ok(SigningRows {
        denial: match (has_keys || is_presigned, param) {
            (false, _) => CachedDenial::Unsigned,
            (true, None) => CachedDenial::Nsec,
            (true, Some(param)) => CachedDenial::Nsec3 { param, narrow },
        },
        is_presigned,
        api_serial: SerialRule::for_api(soa_edit_api.as_deref(), soa_edit.as_deref()),
        soa_edit: if has_keys && !is_presigned {
            policy.soa_edit
        } else {
            SoaEdit::None
        },
        // A policy that manages the keys writes CDS and CDNSKEY as rows.
        made: if has_key_server {
            MadeTypes::ALL
        } else {
            policy.made_types()
        },
    })
}

/// Checks whether a zone has stored signatures.
pub(super) async fn read_presigned(session: &mut Session, zone: i64) -> Result<bool, Failure> {
    let sql = "SELECT id FROM domainmetadata WHERE domain_id = ? AND kind = 'PRESIGNED' AND content = '1'";
    session.finds(sql, &[Value::Int(zone)]).await
}
