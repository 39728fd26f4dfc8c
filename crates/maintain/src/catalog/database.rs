//! Catalogs in databases: their members are rows, and so is their serial.

use crate::follow::databases::FollowedDatabase;
use crate::policy::{RemoteServer, address_text};
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_sql::write::{CatalogMembers, MembersWritten, WriteError, ZoneProgressList};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::SerialRule;
use nameward_zone::change::{
    ChangeOrigin, ChangeRefused, ConditionalChange, Edit, RecordsAt, RrsetData, ZoneChange,
    set_soa_serial, soa_serial,
};
use std::collections::HashMap;
use std::io;
use std::time::SystemTime;
use tokio::runtime::Handle;

/// Maximum number of zones named in the log.
const LINES_MAX: usize = 100;

/// Work that waits for the database. Requests are merged, so its size is bounded by the number of catalogs.
#[derive(Default)]
struct PendingCatalogs {
    /// The members of all followed catalogs; the last state counts.
    members: Option<Vec<CatalogMembers>>,
    /// The serials of catalogs produced here; the last one counts.
    serials: HashMap<NameBuf, Serial>,
}

/// A database with catalogs. Writes wait for one thread; of pending member lists the last one is written.
pub(super) struct StoredCatalogs {
    tables: CatalogTables,
    pending: Mailbox<PendingCatalogs>,
}

impl StoredCatalogs {
    /// Starts the thread that waits for a database; `runtime` is the one that its connections belong to.
    pub(super) fn start(database: &FollowedDatabase, runtime: &Handle) -> io::Result<Self> {
        let pending = Mailbox::default();
        let tables = CatalogTables {
            database: database.clone(),
            runtime: runtime.clone(),
        };
        let (writer, own) = (tables.clone(), Mailbox::clone(&pending));
        let name = format!("catalogs-{}", database.rank);
        worker::start(name, move || writer.write_all(&own))?;
        Ok(StoredCatalogs { tables, pending })
    }

    /// Queues an update of the members of followed catalogs.
    pub(super) fn set_members(&self, catalogs: Vec<CatalogMembers>) {
        self.pending.put(|pending| pending.members = Some(catalogs));
    }

    /// Reads the stored serial of a catalog. May block, but not for long.
    pub(super) fn serial(&self, catalog: &NameBuf) -> Option<Serial> {
        let list = ZoneProgressList::Named(std::slice::from_ref(catalog));
        let CatalogTables { database, runtime } = &self.tables;
        let found = database.zone_progress(runtime, list).ok()?;
        found.first()?.serial()
    }

    /// Stores the serial of a catalog produced here, so that another server on the database can continue it.
    pub(super) fn set_serial(&self, catalog: NameBuf, serial: Serial) {
        self.pending.put(|pending| {
            pending.serials.insert(catalog, serial);
        });
    }
}

impl Drop for StoredCatalogs {
    fn drop(&mut self) {
        self.pending.finish();
    }
}

/// The tables of a database that have catalogs and their members.
#[derive(Clone)]
struct CatalogTables {
    database: FollowedDatabase,
    runtime: Handle,
}

impl CatalogTables {
    /// Writes what is pending, until the mailbox is closed.
    fn write_all(&self, mailbox: &Mailbox<PendingCatalogs>) {
        let mut last: Vec<CatalogMembers> = Vec::new();
        while let Some(pending) = mailbox.wait(None) {
            let members = pending.members.filter(|members| *members != last);
            let mut is_written = true;
            let is_done = panic_guard("writing catalogs to a database", || {
                let written = members.iter().try_for_each(|all| self.write_members(all));
                let serials = pending.serials.iter();
                let noted = serials.map(|(catalog, serial)| self.write_serial(catalog, *serial));
                for error in noted.chain([written]).filter_map(Result::err) {
                    is_written = false;
                    tracing::error!("cannot write catalog members to the database: {error}");
                }
            });
            match members {
                // The next poll of the catalogs hands the members over again.
                _ if !is_done || !is_written => last.clear(),
                Some(members) => last = members,
                None => {}
            }
        }
    }

    fn write_members(&self, catalogs: &[CatalogMembers]) -> Result<(), WriteError> {
        let write = self.database.backend.set_members(catalogs);
        let written = self.runtime.block_on(write)?;
        log_written(&written);
        if !written.is_empty() {
            self.database.request_list();
        }
        Ok(())
    }

    fn write_serial(&self, catalog: &NameBuf, serial: Serial) -> Result<(), WriteError> {
        let backend = &self.database.backend;
        let change = SerialChange {
            apex: *catalog,
            serial,
        };
        let mut results = self
            .runtime
            .block_on(backend.commit_group(&[(*catalog, &change)]));
        results.pop().map_or(Ok(()), |result| result.map(|_| ()))
    }
}

fn log_written(written: &MembersWritten) {
    for zone in written.created.iter().take(LINES_MAX) {
        tracing::info!("zone {zone}: created in the database as a catalog member");
    }
    for zone in written.deleted.iter().take(LINES_MAX) {
        tracing::info!("zone {zone}: deleted from the database: no longer a catalog member");
    }
    for zone in written.foreign.iter().take(LINES_MAX) {
        tracing::warn!(
            "zone {zone}: not changed: it is a catalog member, but its database row does not belong to the catalog"
        );
    }
}

/// A new serial in the SOA of a zone.
struct SerialChange {
    apex: NameBuf,
    serial: Serial,
}

impl ConditionalChange for SerialChange {
    fn origin(&self) -> ChangeOrigin {
        ChangeOrigin::Transfer
    }

    fn names(&self) -> Vec<NameBuf> {
        vec![self.apex]
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        let mut soa = None;
        records.each_record(self.apex.as_name(), &mut |rtype, ttl, rdata| {
            if rtype == Type::SOA {
                soa = Some((ttl, rdata.to_vec()));
            }
        });
        let mut edits = Vec::new();
        if let Some((ttl, mut rdata)) = soa
            && soa_serial(&rdata).is_some_and(|stored| self.serial.is_after(stored))
        {
            set_soa_serial(&mut rdata, self.serial);
            edits.push(Edit::Replace(RrsetData {
                name: self.apex,
                rtype: Type::SOA,
                ttl,
                records: vec![rdata.into()],
            }));
        }
        Ok(ZoneChange {
            edits,
            origin: ChangeOrigin::Transfer,
            now: SystemTime::now(),
            serial: SerialRule::default(),
        })
    }
}

/// Formats addresses as in `domains.master`.
pub(super) fn primaries_text(primaries: &[RemoteServer]) -> String {
    let addresses = primaries.iter().map(|server| address_text(server.address));
    addresses.collect::<Vec<_>>().join(",")
}

/// Converts a name in wire format to an owned one.
pub(super) fn name_of(wire: &[u8]) -> NameBuf {
    Name::from_valid_wire(wire).into()
}
