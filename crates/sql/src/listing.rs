//! Complete lists of a zone's names: which have descendants, and their denial chain.
//!
//! `ordername` and `auth` also contain the order of names, but only as long as every writer maintains them, and nothing
//! shows where one was forgotten: a name missing from the order would be denied. The names that are read for
//! [`super::empty_nonterminals`] anyway provide the order without that risk. If they are outdated, or too many, denial
//! records are made for each answer.

use super::dialect::Statement;
use super::empty_nonterminals::{AncestorSet, ChainProgress, Collector, NamesRead};
use super::error::SqlError;
use super::row::read_type;
use super::{LiveZone, SqlBackend};
use nameward_wire::Type;
use nameward_zone::{ChainLister, NameRecord};
use std::sync::Arc;

/// Memory for the names and types of one zone while its chain is built, in octets: enough for about two million
/// records.
const LIST_BYTES_MAX: usize = 64 << 20;
/// Maximum number of records whose chain is built inline; larger ones are built on a blocking thread, because they take
/// longer.
const RECORDS_AT_ONCE: usize = 5_000;

impl SqlBackend {
    /// Returns the names of a zone that have descendants, and the number of statements it took.
    pub(super) async fn ancestors(
        &self,
        zone: &LiveZone,
    ) -> Result<(Arc<AncestorSet>, u32), SqlError> {
        let mut statements = 0;
        let read = async || {
            statements = 1;
            let lister = self.lister(zone).await;
            self.read_names(zone, lister).await
        };
        let ancestors = self.inner.ancestors.get_or_read(zone.id, read).await?;
        Ok((ancestors, statements))
    }

    /// Starts the chain of a zone that has one.
    async fn lister(&self, zone: &LiveZone) -> Option<ChainLister> {
        // If keys cannot be read, the lookup itself fails.
        let signing = self.signing(zone).await.ok().flatten()?;
        let apex = zone.apex.as_name();
        signing
            .lists_live_names()
            .then(|| ChainLister::new(apex, &signing, LIST_BYTES_MAX))
    }

    async fn read_names(
        &self,
        zone: &LiveZone,
        mut lister: Option<ChainLister>,
    ) -> Result<NamesRead, SqlError> {
        let mut collector = Collector::new(&zone.apex);
        self.query(Statement::Names, Some(zone.id), &[], &mut |row| {
            let name = collector.take(row.text(1).unwrap_or_default());
            if let (Some(name), Some(lister)) = (name, &mut lister) {
                lister.push(name, listed(row.text(2).unwrap_or_default(), row.text(3)));
            }
            Ok(())
        })
        .await?;
        let chain = match lister {
            None => ChainProgress::NotRequested,
            Some(lister) => self.finish_list(zone, lister).await,
        };
        let ancestors = collector.ancestors;
        Ok(NamesRead { ancestors, chain })
    }

    async fn finish_list(&self, zone: &LiveZone, lister: ChainLister) -> ChainProgress {
        let is_full = lister.is_full();
        // A thread that may block on SQLite can just as well do this.
        let is_at_once = lister.len() <= RECORDS_AT_ONCE || self.is_blocking();
        let made = if is_at_once {
            lister.finish()
        } else {
            let made = tokio::task::spawn_blocking(|| lister.finish());
            made.await.ok().flatten()
        };
        if let Some(chain) = made {
            return ChainProgress::Made(Arc::new(chain));
        }
        if is_full && !self.inner.ancestors.is_too_large(zone.id) {
            tracing::warn!(
                "zone {}: too many names for an NSEC chain in live mode; using white lies instead (mode = \"resident\" \
                 uses the chain)",
                zone.apex
            );
        }
        ChainProgress::TooLarge
    }
}

/// Parses a type as far as a chain needs it; `script` is the content of a LUA record, which starts with the type that it
/// computes.
fn listed(rtype: &[u8], script: Option<&[u8]>) -> NameRecord {
    let word = script.map(|script| {
        let mut words = script.split(u8::is_ascii_whitespace);
        words.find(|word| !word.is_empty()).unwrap_or_default()
    });
    match (read_type(rtype), word.map(read_type)) {
        (Ok(Type::LUA), Some(Ok(computed))) => NameRecord::Computed(computed),
        (Ok(Type::LUA), Some(Err(_))) | (Err(_), _) => NameRecord::Unreadable,
        (Ok(rtype), _) => NameRecord::Of(rtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_counts_as_the_type_that_it_computes() {
        let script = |text: &'static str| listed(b"LUA", Some(text.as_bytes()));
        assert_eq!(script("A \"x\""), NameRecord::Computed(Type::A));
        assert_eq!(
            script("  TXT \";return 1\""),
            NameRecord::Computed(Type::TXT)
        );
        assert_eq!(script("nothing"), NameRecord::Unreadable);
        assert_eq!(script(""), NameRecord::Unreadable);
        assert_eq!(listed(b"LUA", None), NameRecord::Of(Type::LUA));
        assert_eq!(listed(b"MX", None), NameRecord::Of(Type(15)));
    }
}
