//! `/zones`: list, create, show, change, patch, delete.

use nameward_control::operations::{
    ListedItem, ListedKind, MetadataSpec, OperationRequest, OperationResult, RrsetStep,
    RrsetsRequest, ZoneAttributes, ZoneProvision, ZoneSettings,
};
use nameward_zone::ZoneKind;
use serde_json::Value;

use crate::fields::{
    canonical_name, check_canonical, optional_bool, optional_list, optional_string,
    optional_strings,
};
use crate::operator::{ApiDefaults, Call};
use crate::response::{ApiError, ApiResponse, ApiResult, PiecedText, ReplyRest, media, to_json};

use super::paging::ListPage;
use super::rrsets::ShownRrsets;
use super::zone_views::{RrsetJson, ZONE_SORT_FIELDS, ZoneDocument, write_zone};
use super::{changes, conditional, metadata, rrsets, tsigkeys, zone_name};

/// Octets of a part of the list of all zones, at least.
const PART_MIN: usize = 256 << 10;

/// The list of zones, or the one that `zone` names.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let with_dnssec = call.request.flag("dnssec", true)?;
    let mut zones = Vec::new();
    let zone = call.request.text("zone").map(check_canonical).transpose()?;
    let zone = zone.map(str::to_owned);
    let page = ListPage::read(call.request)?;
    if zone.is_none() && page.is_whole() {
        let start = ReplyRest {
            position: String::new(),
            with_dnssec,
            is_empty: true,
        };
        let (body, rest) = start.make(call)?;
        let mut reply = ApiResponse::text(200, media::JSON, body);
        reply.rest = rest.map(Box::new);
        return Ok(reply);
    }
    let listed = call.list(&OperationRequest::ZoneAttributes { zone }, &mut |item| {
        if let ListedItem::Attributes(zone) = item {
            zones.push(*zone);
        }
        true
    });
    match listed {
        Ok(_) | Err(ApiError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let is_whole = page.is_whole();
    let total = page.apply(&mut zones, |zone| zone.name.as_str(), ZONE_SORT_FIELDS)?;
    let mut body = vec![b'['];
    for (at, zone) in zones.iter().enumerate() {
        let start = if at == 0 { "" } else { ", " };
        body.extend_from_slice(start.as_bytes());
        write_zone(zone, with_dnssec, &mut body);
    }
    body.push(b']');
    let reply = ApiResponse::text(200, media::JSON, body);
    if is_whole {
        return Ok(reply);
    }
    Ok(reply.with("x-total-count", total.to_string()))
}

impl ReplyRest {
    /// Makes the next part of the reply, and what follows it.
    pub fn make(mut self, call: &Call<'_>) -> ApiResult<(Vec<u8>, Option<Self>)> {
        let mut body = Vec::new();
        if self.position.is_empty() {
            body.push(b'[');
        }
        loop {
            let position = std::mem::take(&mut self.position);
            let request = OperationRequest::ZoneAttributesPage { position };
            let with_dnssec = self.with_dnssec;
            let is_empty = &mut self.is_empty;
            let listed = call.list(&request, &mut |item| {
                if let ListedItem::Attributes(zone) = item {
                    if !std::mem::take(is_empty) {
                        body.extend_from_slice(b", ");
                    }
                    write_zone(&zone, with_dnssec, &mut body);
                }
                true
            })?;
            match listed {
                OperationResult::ListedPage {
                    next: Some(next), ..
                } => self.position = next,
                _ => {
                    body.push(b']');
                    return Ok((body, None));
                }
            }
            // A key for some zones sees few of a page.
            if body.len() >= PART_MIN {
                return Ok((body, Some(self)));
            }
        }
    }
}

/// Creates a zone.
pub fn create(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    let name = canonical_name(&body, "name")?;
    zone_name(name)?;
    let kind = read_kind(&body)?.unwrap_or_default();
    let rrsets = match optional_list(&body, "rrsets")? {
        Some(list) => rrsets::read(list, name, false)?,
        None => Vec::new(),
    };
    let mut request = ZoneProvision {
        zone: name.to_owned(),
        kind,
        primaries: optional_strings(&body, "masters")?.unwrap_or_default(),
        account: optional_string(&body, "account")?.unwrap_or("").to_owned(),
        catalog: read_catalog(&body)?.unwrap_or_default(),
        is_default_catalog: false,
        name_servers: optional_strings(&body, "nameservers")?.unwrap_or_default(),
        rrsets,
        zone_file: optional_string(&body, "zone")?
            .filter(|text| !text.is_empty())
            .map(str::to_owned),
        metadata: read_metadata(&body)?,
        default_metadata: default_metadata(&call.api.defaults),
        secure: optional_bool(&body, "dnssec")?.unwrap_or(false),
    };
    for server in &request.name_servers {
        if !server.ends_with('.') {
            return Err(ApiError::invalid(format!(
                "Nameserver is not canonical: '{server}'"
            )));
        }
    }
    check_keys(call, &request.metadata)?;
    add_default_catalog(&call.api.defaults, &mut request);
    match call.run(&OperationRequest::ZoneProvision(request)) {
        Ok(_) => {}
        Err(ApiError::Status(409, _)) => return Err(ApiError::Conflict),
        Err(error) => return Err(error),
    }
    let with_rrsets = call.request.flag("rrsets", true)?;
    show_zone(call, name, with_rrsets, 201)
}

/// Lists a new primary zone without a catalog in the configured one.
pub fn add_default_catalog(defaults: &ApiDefaults, request: &mut ZoneProvision) {
    let is_primary = request.kind == ListedKind::OfZone(ZoneKind::Primary);
    // A catalog lists zones, not their versions for views.
    let is_version = request.zone.trim_end_matches('.').contains("..");
    if request.catalog.is_empty() && is_primary && !is_version {
        request.catalog.clone_from(&defaults.catalog_zone);
        request.is_default_catalog = true;
    }
}

/// The configured defaults of new zones. An empty word in a request means none, also against a default.
pub fn default_metadata(defaults: &ApiDefaults) -> Vec<MetadataSpec> {
    let soa_edit_api = match defaults.soa_edit_api.as_str() {
        "" => "DEFAULT",
        word => word,
    };
    vec![
        item("SOA-EDIT-API", soa_edit_api),
        item("SOA-EDIT", &defaults.soa_edit),
    ]
}

/// The zone with its RRsets.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let with_rrsets = call.request.flag("rrsets", true)?;
    show_zone(call, &zone_name(arguments[0])?, with_rrsets, 200)
}

fn show_zone(call: &Call<'_>, name: &str, with_rrsets: bool, status: u16) -> ApiResult {
    let zone = call.zone(name)?;
    let metadata = metadata::stored(call, &zone, None)?;
    let name = call.request.text("rrset_name");
    let name = name.map(|name| format!("{}.", name.trim_end_matches('.')));
    // As in PowerDNS, a type selects RRsets of a name only.
    let rtype = call.request.text("rrset_type");
    let filter = ShownRrsets {
        name: name.as_deref(),
        rtype: rtype.filter(|_| name.is_some()),
        served_only: !call.request.flag("include_disabled", true)?,
    };
    let has_rrsets = zone.serial > 0 || !zone.is_transferred();
    let page = ListPage::read(call.request)?;
    if !with_rrsets {
        let view = ZoneDocument::new(zone, &metadata, None);
        return Ok(ApiResponse::text(status, media::JSON, to_json(&view)));
    }
    if !page.is_whole() {
        return show_page(call, &zone, &metadata, (filter, page), status);
    }
    // The RRsets of a large zone take most of the memory: they are written where they stay.
    let mut rrsets = PiecedText::default();
    let mut body = to_json(&ZoneDocument::new(
        zone.clone(),
        &metadata,
        Some(Vec::new()),
    ));
    let tail = split_at_rrsets(&mut body);
    if has_rrsets {
        rrsets::write(call, &zone, filter, &mut rrsets)?;
    }
    let is_all = filter.name.is_none() && !filter.served_only;
    let tag = is_all.then(|| conditional::entity_tag(&zone, &metadata, &rrsets));
    let known = call.request.if_none_match.as_deref();
    if let (Some(tag), Some(known), 200) = (&tag, known, status)
        && conditional::matches(known, tag)
    {
        return Ok(ApiResponse::empty(304).with("etag", tag));
    }
    let mut reply = ApiResponse::text(status, media::JSON, body);
    reply.pieces = rrsets.0;
    reply.pieces.push(tail);
    reply.headers.extend(tag.map(|tag| ("etag", tag)));
    Ok(reply)
}

/// Cuts the document of a zone without RRsets where they belong, and returns what follows them.
fn split_at_rrsets(document: &mut Vec<u8>) -> Vec<u8> {
    // No text in the document has a quotation mark without a backslash before it.
    const LIST: &[u8] = b"\"rrsets\": [";
    let mut found = document.windows(LIST.len());
    let at = found.position(|octets| octets == LIST);
    document.split_off(at.map_or(document.len(), |at| at + LIST.len()))
}

/// A zone with one page of its RRsets.
fn show_page(
    call: &Call<'_>,
    zone: &ZoneAttributes,
    metadata: &[(String, Vec<String>)],
    (filter, page): (ShownRrsets<'_>, ListPage<'_>),
    status: u16,
) -> ApiResult {
    let mut list = Vec::new();
    if zone.serial > 0 || !zone.is_transferred() {
        rrsets::each(call, zone, filter, &mut |rrset| list.push(rrset.clone()))?;
    }
    let total = page.apply(&mut list, |rrset| &rrset.name, RrsetJson::SORT_FIELDS)?;
    let view = ZoneDocument::new(zone.clone(), metadata, Some(list));
    let reply = ApiResponse::text(status, media::JSON, to_json(&view));
    Ok(reply.with("x-total-count", total.to_string()))
}

/// Changes attributes of a zone, and all of its RRsets if the body has them.
pub fn change(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let name = zone_name(arguments[0])?;
    let _turn = call.api.turns.wait(call.request, &name);
    let zone = call.zone(&name)?;
    let body = call.request.json()?;
    let rrsets = match optional_list(&body, "rrsets")? {
        Some(list) if !list.is_empty() => Some(rrsets::read(list, &zone.name, false)?),
        _ => None,
    };
    let terms = ZoneSettings {
        kind: read_kind(&body)?,
        primaries: optional_strings(&body, "masters")?,
        account: optional_string(&body, "account")?.map(str::to_owned),
        catalog: read_catalog(&body)?,
        metadata: read_metadata(&body)?,
        secure: optional_bool(&body, "dnssec")?,
        rrsets,
        ..ZoneSettings::default()
    };
    check_keys(call, &terms.metadata)?;
    let serial = conditional::check(call, &zone)?;
    if call.request.flag("check", false)? {
        let rrsets = terms.rrsets.clone();
        let only = ZoneSettings {
            rrsets: rrsets.clone(),
            ..ZoneSettings::default()
        };
        let rrsets = rrsets.filter(|_| terms == only).ok_or_else(|| {
            ApiError::invalid("check=true covers changes of RRsets, without other settings")
        })?;
        let request = RrsetsRequest {
            zone: zone.name,
            rrsets,
            delete_others: true,
            serial,
            ..RrsetsRequest::default()
        };
        return changes::check(call, request);
    }
    if terms != ZoneSettings::default() {
        let request = ZoneSettings {
            zone: zone.name.clone(),
            serial,
            ..terms
        };
        let result = call.run(&OperationRequest::ZoneSet(request));
        conditional::outcome(result, (&zone.name, serial))?;
    }
    Ok(ApiResponse::empty(204))
}

/// Changes RRsets, all or none.
pub fn patch(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let name = zone_name(arguments[0])?;
    let _turn = call.api.turns.wait(call.request, &name);
    let steps = read_patch(call, &name);
    // The change itself finds the zone. Here it is looked up only where more than its existence matters; that it does not exist
    // goes before faults of the body.
    let zone = match (&steps, &call.request.if_match) {
        (Ok(_), None) => None,
        _ => Some(call.zone(&name)?),
    };
    let steps = steps?;
    let serial = match &zone {
        Some(zone) => conditional::check(call, zone)?,
        None => None,
    };
    let request = RrsetsRequest {
        rrsets: steps,
        zone: zone.map_or_else(|| name.clone(), |zone| zone.name),
        serial,
        ..RrsetsRequest::default()
    };
    if call.request.flag("check", false)? {
        return changes::check(call, request);
    }
    let result = call.run(&OperationRequest::RrsetsChange(request));
    let (old, new) = match conditional::outcome(result, (&name, serial))? {
        OperationResult::ZoneChanged(changed) => (changed.previous_serial, changed.serial),
        _ => {
            let serial = Some(call.zone(&name)?.serial);
            (serial, serial)
        }
    };
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    Ok(ApiResponse::empty(204)
        .with("x-pdns-old-serial", old.to_string())
        .with("x-pdns-new-serial", new.to_string()))
}

fn read_patch(call: &Call<'_>, zone: &str) -> ApiResult<Vec<RrsetStep>> {
    let body = call.request.json()?;
    let list = body.get("rrsets").and_then(Value::as_array);
    let list = list.ok_or_else(|| ApiError::invalid("No rrsets given in update request"))?;
    rrsets::read(list, zone, true)
}

/// Deletes a zone. `nameward zone undelete` can bring it back.
pub fn delete(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let name = zone_name(arguments[0])?;
    let _turn = call.api.turns.wait(call.request, &name);
    let zone = call.zone(&name)?;
    let serial = conditional::check(call, &zone)?;
    let result = call.run(&OperationRequest::ZoneDelete {
        zone: zone.name.clone(),
        no_copy: false,
        serial,
    });
    conditional::outcome(result, (&zone.name, serial))?;
    Ok(ApiResponse::empty(204))
}

/// Refuses TSIG keys that do not exist.
fn check_keys(call: &Call<'_>, metadata: &[MetadataSpec]) -> ApiResult<()> {
    let is_about_keys =
        |item: &&MetadataSpec| matches!(&*item.kind, "TSIG-ALLOW-AXFR" | "AXFR-MASTER-TSIG");
    for name in metadata
        .iter()
        .filter(is_about_keys)
        .flat_map(|item| &item.content)
    {
        if tsigkeys::find(call, name).is_err() {
            return Err(ApiError::invalid(format!(
                "A TSIG key with the name '{name}' does not exist"
            )));
        }
    }
    Ok(())
}

fn read_kind(body: &Value) -> ApiResult<Option<ListedKind>> {
    let Some(word) = optional_string(body, "kind")? else {
        return Ok(None);
    };
    match ListedKind::from_name(word) {
        Ok(kind @ ListedKind::OfZone(_)) => Ok(Some(kind)),
        _ => Err(ApiError::invalid(format!(
            "kind: expected Native, Master, Slave, Producer or Consumer, found '{word}'"
        ))),
    }
}

fn read_catalog(body: &Value) -> ApiResult<Option<String>> {
    match optional_string(body, "catalog")? {
        None => Ok(None),
        Some("") => Ok(Some(String::new())),
        Some(name) => Ok(Some(check_canonical(name)?.to_owned())),
    }
}

fn item(kind: &str, content: &str) -> MetadataSpec {
    MetadataSpec {
        kind: kind.to_owned(),
        content: match content {
            "" => Vec::new(),
            text => vec![text.to_owned()],
        },
    }
}

/// The fields of a zone that are stored as metadata.
fn read_metadata(body: &Value) -> ApiResult<Vec<MetadataSpec>> {
    let mut items = Vec::new();
    for (key, kind) in [
        ("soa_edit", "SOA-EDIT"),
        ("soa_edit_api", "SOA-EDIT-API"),
        ("nsec3param", "NSEC3PARAM"),
    ] {
        if let Some(text) = optional_string(body, key)? {
            items.push(item(kind, text));
        }
    }
    for (key, kind) in [
        ("api_rectify", "API-RECTIFY"),
        ("nsec3narrow", "NSEC3NARROW"),
    ] {
        match optional_bool(body, key)? {
            // Without NSEC3NARROW names are denied as usual.
            Some(false) if kind == "NSEC3NARROW" => items.push(item(kind, "")),
            Some(is_on) => items.push(item(kind, if is_on { "1" } else { "0" })),
            None => {}
        }
    }
    for (key, kind) in [
        ("master_tsig_key_ids", "TSIG-ALLOW-AXFR"),
        ("slave_tsig_key_ids", "AXFR-MASTER-TSIG"),
    ] {
        if let Some(keys) = optional_strings(body, key)? {
            let keys = keys.iter().map(|key| key.trim_end_matches('.').to_owned());
            items.push(MetadataSpec {
                kind: kind.to_owned(),
                content: keys.collect(),
            });
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_catalog_lists_new_primary_zones_and_not_their_versions() {
        let defaults = ApiDefaults {
            catalog_zone: "catalog.test.".into(),
            ..ApiDefaults::default()
        };
        let catalog_of = |zone: &str, kind| {
            let mut request = ZoneProvision {
                zone: zone.into(),
                kind: ListedKind::OfZone(kind),
                ..ZoneProvision::default()
            };
            add_default_catalog(&defaults, &mut request);
            request.catalog
        };
        let listed = catalog_of("one.test.", ZoneKind::Primary);
        assert_eq!(listed, defaults.catalog_zone);
        assert_eq!(catalog_of("one.test.", ZoneKind::Native), "");
        assert_eq!(catalog_of("one.test..inside", ZoneKind::Primary), "");
    }
}
