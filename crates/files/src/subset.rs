//! Access to some zones of file sources without a full load: the list of zones, and sources reduced to some of them.

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

/// Passes on the name of each zone that sources have, with its rank. No zone file is read.
pub fn each_zone_name(sources: &[FileSource], each: &mut dyn FnMut(Name<'_>, u16)) {
    for source in sources {
        let candidates = scanned(source).candidates;
        (0..candidates.len()).for_each(|index| each(candidates.name(index), source.rank));
    }
}

/// Returns sources reduced to the files of some zones. A BIND configuration that has one of them stays complete,
/// since it defines the roles of its files.
pub fn sources_of(sources: &[FileSource], zones: &[NameBuf]) -> Vec<FileSource> {
    let mut some = Vec::new();
    for source in sources {
        let candidates = scanned(source).candidates;
        let is_wanted = |name: Name<'_>| zones.iter().any(|zone| zone.as_name() == name);
        let selected = (0..candidates.len()).filter(|index| is_wanted(candidates.name(*index)));
        let selected: Vec<usize> = selected.collect();
        if selected.is_empty() {
            continue;
        }
        if source.named_conf.is_some() {
            some.push(source.clone());
            continue;
        }
        let (mut list, mut path) = (FileList::default(), PathBuf::new());
        for index in selected {
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
