//! Text copies of transferred zones, for people and for other programs.
//!
//! A copy is written to a temporary file and renamed, by a separate thread: a large zone takes seconds. Of several
//! versions waiting for the same file, the last one is written.

use nameward_base::file::DurableFile;
use nameward_base::worker::{self, Mailbox, panic_guard_item};
use nameward_wire::rdata::write_text;
use nameward_zone::{Node, Zone};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Versions that wait to be written, the last one for each file.
type PendingVersions = HashMap<PathBuf, Arc<Zone>>;

/// Passes versions to the thread that writes copies, which starts with the first one and ends when this is dropped.
#[derive(Default)]
pub(super) struct CopyWriter {
    mailbox: Option<Mailbox<PendingVersions>>,
}

impl CopyWriter {
    /// Queues a version to be written to a file.
    pub(super) fn write(&mut self, path: &Path, version: &Arc<Zone>) {
        if self.mailbox.is_none() {
            self.mailbox = start();
        }
        if let Some(mailbox) = &self.mailbox {
            let version = Arc::clone(version);
            mailbox.put(|pending| {
                pending.insert(path.into(), version);
            });
        }
    }
}

impl Drop for CopyWriter {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.finish();
        }
    }
}

fn start() -> Option<Mailbox<PendingVersions>> {
    let mailbox = Mailbox::default();
    let own = mailbox.clone();
    let run = move || {
        while let Some(pending) = own.wait(None) {
            write_copies(pending);
        }
    };
    match worker::start("copy", run) {
        Ok(_) => Some(mailbox),
        Err(error) => {
            tracing::error!("cannot write copies of transferred zones: {error}");
            None
        }
    }
}

fn write_copies(pending: PendingVersions) {
    for (path, version) in pending {
        panic_guard_item("writing the text copy of a zone", || {
            if let Err(error) = write_copy(&path, &version) {
                let zone = version.id();
                tracing::error!(
                    "zone {zone}: cannot write the copy {}: {error}",
                    path.display()
                );
            }
        });
    }
}

/// Writes a zone to a file as text, completely or not at all.
fn write_copy(path: &Path, zone: &Zone) -> io::Result<()> {
    let mut new = DurableFile::create(path, 0o644)?;
    write_zone(new.file(), zone)?;
    new.replace()
}

fn write_zone(file: &mut File, zone: &Zone) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut line = String::new();
    // The SOA comes first, as people and other servers expect it.
    write_node(zone.apex(), &mut line, &mut out, |rtype| {
        rtype == nameward_wire::Type::SOA
    })?;
    for node in zone.nodes_in_order() {
        let is_apex = node.name() == zone.apex_name();
        write_node(node, &mut line, &mut out, |rtype| {
            !(is_apex && rtype == nameward_wire::Type::SOA)
        })?;
    }
    out.flush()
}

fn write_node(
    node: Node<'_>,
    line: &mut String,
    out: &mut impl Write,
    is_wanted: impl Fn(nameward_wire::Type) -> bool,
) -> io::Result<()> {
    let owner = node.name().verbatim();
    for rrset in node.rrsets().filter(|rrset| is_wanted(rrset.rtype())) {
        let (ttl, rtype) = (rrset.ttl(), rrset.rtype());
        for record in rrset.records() {
            line.clear();
            write!(line, "{owner}\t{ttl}\tIN\t{rtype}\t")
                .and_then(|()| write_text(rtype, record.rdata, line))
                .map_err(io::Error::other)?;
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::zonefile::{Options, parse_bytes};
    use nameward_wire::{Name, NameBuf};
    use nameward_zone::ZoneBuilder;
    use std::fs;

    #[test]
    fn a_copy_equals_the_zone_and_replaces_the_previous_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy.zone");
        let origin = NameBuf::from_text(b"example", Name::ROOT).unwrap();
        let text =
            "@ 300 SOA ns hm 7 1 1 1 1\n@ 300 NS ns\nns 60 A 192.0.2.1\n\\* 5 TXT \"a;b\" \"c\"\n";
        let build = |text: &[u8]| {
            let mut builder = ZoneBuilder::new(origin.as_name());
            let report = parse_bytes("zone", text, &Options::new(origin), &mut builder);
            assert!(!report.has_errors(), "{:?}", report.diagnostics);
            Arc::new(builder.finish().0.unwrap())
        };
        fs::write(&path, "an older copy").unwrap();
        let zone = build(text.as_bytes());
        write_copy(&path, &zone).unwrap();
        let copy = fs::read(&path).unwrap();
        assert!(copy.starts_with(b"example.\t300\tIN\tSOA\t"));
        assert!(zone.has_same_records(&build(&copy)));
        assert!(write_copy(&directory.path().join("none/x"), &zone).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
