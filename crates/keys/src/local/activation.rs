//! Activates a zone's stored keys: the signing that the zone table adds to each version.

use super::{SigningSettings, ZoneKey, ZoneKeys, ZoneKeysError, directory, read_all, signing_keys};
use nameward_dnssec::{Keys, Publish, Signing, SigningPolicy};
use nameward_wire::Name;
use std::sync::Arc;

impl SigningSettings {
    fn policy(&self) -> SigningPolicy {
        let managed = self.managed.as_ref();
        let shows_cds = managed.is_none_or(|managed| managed.shows_cds);
        let asks_removal = managed.is_some_and(|managed| managed.asks_removal);
        let (cds, cdnskey) = match (shows_cds, asks_removal) {
            (false, _) => (Publish::Nothing, Publish::Nothing),
            (true, true) => (Publish::Removal, Publish::Removal),
            // RFC 7344: a parent that polls them keeps its DS current by itself. All validators support SHA-256.
            (true, false) => (Publish::Keys(vec![2]), Publish::Keys(())),
        };
        SigningPolicy {
            denial: self.denial.denial.clone(),
            style: self.denial.style,
            is_opt_out: self.denial.is_opt_out,
            cds,
            cdnskey,
            soa_edit: self.soa_edit,
            signatures: managed.map(|managed| managed.signatures),
            dnskey_ttl: managed.map(|managed| managed.dnskey_ttl),
            serial_offset: self.serial.offset,
            ..SigningPolicy::default()
        }
    }
}

impl ZoneKeys {
    /// Activates the stored state of a zone.
    pub(super) fn refresh(&self, zone: Name<'_>) -> Result<(), ZoneKeysError> {
        let values = self.values(zone)?;
        if values.is_empty() {
            let signing = self.without_keys(zone)?;
            self.table.set_signing(zone, signing);
            Ok(())
        } else {
            self.put_in_force(zone, &read_all(&values))
        }
    }

    /// Returns the signing state of a zone that no longer has keys: its serial, if that is ahead of the contents'
    /// serial.
    fn without_keys(&self, zone: Name<'_>) -> Result<Option<Arc<Signing>>, ZoneKeysError> {
        let serial_offset = self.terms(zone)?.serial.offset;
        if serial_offset == 0 {
            return Ok(None);
        }
        let policy = SigningPolicy {
            serial_offset,
            ..SigningPolicy::default()
        };
        let (keys, cache) = (Arc::new(Keys::default()), Arc::clone(&self.signatures));
        let signing = Signing::new(zone, keys, Arc::new(policy), cache);
        Ok(Some(Arc::new(signing)))
    }

    pub(super) fn put_in_force(
        &self,
        zone: Name<'_>,
        keys: &Result<Vec<ZoneKey>, ZoneKeysError>,
    ) -> Result<(), ZoneKeysError> {
        let keys_hide_ds = keys.as_ref().is_ok_and(|keys| directory::hide_ds(keys));
        let made = keys.as_ref().map_err(ZoneKeysError::clone);
        let keys = match made.and_then(|keys| signing_keys(keys)) {
            Ok(keys) => keys,
            Err(error) => {
                let place = match &error {
                    ZoneKeysError::Pair(_) => "key file",
                    _ => "state store",
                };
                tracing::error!(
                    "zone {zone}: cannot sign, queries with DO are answered SERVFAIL: {place}: {error}"
                );
                Keys::broken()
            }
        };
        let mut policy = self.terms(zone)?.policy();
        if keys_hide_ds {
            (policy.cds, policy.cdnskey) = (Publish::Nothing, Publish::Nothing);
        }
        let policy = Arc::new(policy);
        let cache = Arc::clone(&self.signatures);
        let signing = Signing::new(zone, Arc::new(keys), policy, cache);
        self.table.set_signing(zone, Some(Arc::new(signing)));
        Ok(())
    }
}
