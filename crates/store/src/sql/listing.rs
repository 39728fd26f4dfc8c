//! The names of a zone, read as a whole: which have something below them, and their chain of denial.
//!
//! `ordername` and `auth` have the order of names, too, but only as long as whoever writes rows keeps them up, and nothing shows
//! where one was forgotten: a name that is missing from the order would be denied. The names that are read for
//! [`super::empty_nonterminals`] anyway have the order without that. Where they are out of date, or too many, records of denial are made
//! for each answer.

use super::dialect::Statement;
use super::empty_nonterminals::{Above, Collector};
use super::error::SqlError;
use super::row::read_type;
use super::{LiveZone, SqlBackend};
use nameward_zone::{ChainLister, ListedChain, NameRecord};
use std::sync::Arc;

/// Memory for the names and types of one zone while its chain is made: those of some two million records.
const LIST_BYTES_MAX: usize = 64 << 20;
/// Records whose chain is made at once; that of more is made aside, because it takes a thread for longer than a moment.
const RECORDS_AT_ONCE: usize = 5_000;

/// The names of a zone.
pub(crate) struct NamesRead {
    pub(crate) above: Above,
    pub(crate) chain: ListStanding,
}

/// How far the chain of a zone is known.
pub(crate) enum ListStanding {
    /// Nobody asked for one when the names were read, or it is out of date.
    NotAsked,
    /// It takes too much memory.
    TooLarge,
    /// It is here.
    Made(Arc<ListedChain>),
}

/// The chain of a zone for one answer.
pub(crate) enum ChainFound {
    /// It may be used.
    Usable(Arc<ListedChain>),
    /// It may when the names have been read again.
    Later,
    /// There is none.
    Never,
}

impl ListStanding {
    /// Drops a chain that is out of date.
    pub(crate) fn forget(&mut self) {
        if let ListStanding::Made(_) = self {
            *self = ListStanding::NotAsked;
        }
    }

    /// Goes on with the chain from before if it is the same, so that parts which use it can.
    pub(crate) fn share_with(&mut self, before: &ListStanding) {
        if let (ListStanding::Made(own), ListStanding::Made(before)) = (&mut *self, before)
            && **own == **before
        {
            *own = Arc::clone(before);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            ListStanding::Made(chain) => chain.heap_bytes(),
            ListStanding::NotAsked | ListStanding::TooLarge => 0,
        }
    }
}

impl SqlBackend {
    /// The names of a zone that have something below them, and how many statements it took to know.
    pub(super) async fn above(&self, zone: &LiveZone) -> Result<(Arc<Above>, u32), SqlError> {
        let mut statements = 0;
        let read = async || {
            statements = 1;
            let lister = self.lister(zone).await;
            self.read_names(zone, lister).await
        };
        let above = self.inner.above.of(zone.id, read).await?;
        Ok((above, statements))
    }

    /// Begins the chain of a zone that has one.
    async fn lister(&self, zone: &LiveZone) -> Option<ChainLister> {
        // Where keys cannot be read the look-up fails by itself.
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
                lister.push(name, listed(row.text(2).unwrap_or_default()));
            }
            Ok(())
        })
        .await?;
        let chain = match lister {
            None => ListStanding::NotAsked,
            Some(lister) => self.finish_list(zone, lister).await,
        };
        let above = collector.finish();
        Ok(NamesRead { above, chain })
    }

    async fn finish_list(&self, zone: &LiveZone, lister: ChainLister) -> ListStanding {
        let is_full = lister.is_full();
        // A thread that waits for SQLite may as well do this.
        let is_at_once = lister.len() <= RECORDS_AT_ONCE || self.is_blocking();
        let made = match is_at_once {
            true => lister.finish(),
            false => {
                let made = tokio::task::spawn_blocking(|| lister.finish());
                made.await.ok().flatten()
            }
        };
        if let Some(chain) = made {
            return ListStanding::Made(Arc::new(chain));
        }
        if is_full && !self.inner.above.is_too_large(zone.id) {
            tracing::warn!(
                "zone {}: too many names for a chain of denial while it is looked up: records of denial are made for \
                 each answer (mode = \"resident\" has the chain)",
                zone.apex
            );
        }
        ListStanding::TooLarge
    }
}

/// Reads a type as far as a chain has to know it.
fn listed(rtype: &[u8]) -> NameRecord {
    match read_type(rtype) {
        Ok(rtype) => NameRecord::Of(rtype),
        Err(_) => NameRecord::Unreadable,
    }
}
