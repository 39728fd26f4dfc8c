//! Owns entity tags of zones (RFC 9110 section 8.8.3): `ETag`, `If-None-Match` and `If-Match`.
//!
//! The tag is the serial and a digest of the contents and settings of the zone; the serial alone is not enough, because zones
//! without SOA-EDIT-API keep theirs. What the server changes by itself (notified serial, time of the last check) does not count.

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use nameward_control::operations::ZoneAttributes;

use crate::operator::Call;
use crate::response::{ApiError, ApiResult, PiecedText, to_json};

use super::metadata;
use super::rrsets::{self, ShownRrsets};

/// Octets of the digest in a tag.
const DIGEST: usize = 12;

/// The tag of a zone with these settings and with these RRsets, as [`rrsets::write`] writes all of them.
pub fn entity_tag(
    zone: &ZoneAttributes,
    metadata: &[(String, Vec<String>)],
    rrsets: &PiecedText,
) -> String {
    let kind = zone.kind.name();
    let settings = (kind, &zone.account, &zone.catalog, &zone.primaries);
    let mut digest = Context::new(&SHA256);
    digest.update(&to_json(&(settings, zone.is_signed, metadata)));
    rrsets.0.iter().for_each(|piece| digest.update(piece));
    let digest = HEXLOWER.encode(&digest.finish().as_ref()[..DIGEST]);
    format!("\"{}-{digest}\"", zone.serial)
}

/// Returns the result of a change; one that was refused because the zone has changed as such.
pub fn outcome<T>(result: ApiResult<T>, (zone, serial): (&str, Option<u32>)) -> ApiResult<T> {
    match result {
        Err(ApiError::Status(409, _)) if serial.is_some() => Err(changed(zone)),
        result => result,
    }
}

/// Checks `If-Match`. Returns the serial that the zone must still have when it is changed; `None` without the header.
pub fn check(call: &Call<'_>, zone: &ZoneAttributes) -> ApiResult<Option<u32>> {
    let Some(if_match) = call.request.if_match.as_deref() else {
        return Ok(None);
    };
    if if_match.trim() == "*" {
        return Ok(None);
    }
    let metadata = metadata::stored(call, zone, None)?;
    let mut rrsets = PiecedText::default();
    rrsets::write(call, zone, ShownRrsets::default(), &mut rrsets)?;
    if matches(if_match, &entity_tag(zone, &metadata, &rrsets)) {
        // A zone without contents has no serial.
        Ok((zone.serial > 0).then_some(zone.serial))
    } else {
        Err(changed(&zone.name))
    }
}

/// The error for a zone that has changed since the client read it.
pub fn changed(zone: &str) -> ApiError {
    ApiError::Status(
        412,
        format!("zone {zone} has changed since it was read: read it again"),
    )
}

/// Whether a list of tags, as in `If-Match` or `If-None-Match`, has this one. Weak tags are compared like strong ones.
pub fn matches(list: &str, tag: &str) -> bool {
    let mut tags = list.split(',').map(str::trim);
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_lists() {
        for (list, is_match) in [
            ("\"1-a\"", true),
            ("W/\"1-a\"", true),
            ("\"0-b\", \"1-a\"", true),
            ("*", true),
            ("\"1-ab\"", false),
            ("1-a", false),
            ("", false),
        ] {
            assert_eq!(matches(list, "\"1-a\""), is_match, "{list}");
        }
    }
}
