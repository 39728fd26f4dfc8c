//! Owns the way to some zones of file sources without a load of all: which zones there are, and sources that have no others.

use std::{path::PathBuf, sync::Arc};

use nameward_wire::{Name, NameBuf};

use super::{
    FileSource,
    discovery::{self, Configurations, Scanned},
    list::FileList,
};

fn scanned(source: &FileSource) -> Scanned {
    let sources = std::slice::from_ref(source);
    discovery::scan(sources, &mut Configurations::default(), None, &mut |_| ())
}

/// Hands over the name of each zone that sources have, with its rank. No zone file is read.
pub fn each_zone_name(sources: &[FileSource], each: &mut dyn FnMut(Name<'_>, u16)) {
    for source in sources {
        let candidates = scanned(source).candidates;
        (0..candidates.len()).for_each(|index| each(candidates.name(index), source.rank));
    }
}

/// Returns sources with nothing but the files of some zones. A configuration of BIND that has one of them stays whole: it
/// says what its files are.
pub fn sources_of(sources: &[FileSource], zones: &[NameBuf]) -> Vec<FileSource> {
    let mut some = Vec::new();
    for source in sources {
        let candidates = scanned(source).candidates;
        let is_wanted = |name: Name<'_>| zones.iter().any(|zone| zone.as_name() == name);
        let wanted = (0..candidates.len()).filter(|index| is_wanted(candidates.name(*index)));
        let wanted: Vec<usize> = wanted.collect();
        if wanted.is_empty() {
            continue;
        }
        if source.named_conf.is_some() {
            some.push(source.clone());
            continue;
        }
        let (mut list, mut path) = (FileList::default(), PathBuf::new());
        for index in wanted {
            candidates.path_into(index, &mut path);
            list.push(candidates.name(index), &path);
        }
        some.push(FileSource {
            directory: None,
            zones: Arc::new(list),
            ..source.clone()
        });
    }
    some
}
