//! Reads a `named.conf` and all files it includes: options, views and zones as written.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_wire::{
    Name, NameBuf,
    zonefile::{Diagnostic, MAX_ERRORS, Severity},
};

use crate::files::{Files, has_wildcards, reason_of};

use super::{
    BindZone, NamedConf, Spot, View, ZoneType,
    acl::{self, MatchList, Unusable},
    inherited::Inherited,
    keywords::{LISTS, TOP, allows_some_client, is_on, name_and_class},
    lex::{ConfMistake, TextLocation, quoted},
    remotes::{self, NamedLists, RemoteList},
    server_statements::ServerStatements,
    settings,
    syntax::{self, ConfStatement, Word},
};

/// Maximum nesting depth of included files.
const DEPTH_MAX: usize = 16;
/// Maximum number of files, and of their bytes.
const FILES_MAX: usize = 20_000;
const BYTES_MAX: u64 = 256 << 20;
/// Number of errors after which reading stops.
const DIAGNOSTICS_MAX: usize = MAX_ERRORS;

/// Statements that are not imported are listed by keyword, up to this many.
const SKIPPED_MAX: usize = 500;
/// Maximum number of statements outside zones with their own line in the migration report.
const SEEN_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct ViewMatch {
    pub clients: Option<MatchList>,
    pub destinations: Option<MatchList>,
    pub recursive_only: Option<Spot>,
}

impl ViewMatch {
    pub fn check_recursive_only(&self) -> Result<(), Unusable> {
        match self.recursive_only {
            Some((file, location)) => {
                let wrong = location.wrong("match-recursive-only");
                Err(Unusable::Undecided(file, wrong))
            }
            None => Ok(()),
        }
    }
}

pub(super) struct RawZone {
    pub zone: BindZone,
    /// It has an error that has already been reported.
    pub is_wrong: bool,
    pub view: usize,
    pub file: Option<PathBuf>,
    pub primaries: Option<RemoteList>,
    pub own: Inherited,
}

/// A statement that is not imported, by keyword and kind of block.
struct SkippedStatement {
    text: String,
    spot: Spot,
    count: usize,
}

pub(super) struct NamedConfReader<'f> {
    pub(super) files: &'f mut dyn Files,
    /// Every file that was read or looked for, in order.
    pub(super) paths: Vec<PathBuf>,
    /// Indexes of the files being read.
    open: Vec<usize>,
    bytes: u64,
    /// Base of relative paths until `directory` is set.
    pub(super) base: PathBuf,
    pub(super) directory: Option<PathBuf>,
    pub(super) remotes: NamedLists,
    pub(super) acls: HashMap<String, MatchList>,
    pub(super) blackhole: Option<MatchList>,
    pub(super) views: Vec<View>,
    /// For each view; the first entry is that of `options`.
    pub(super) defaults: Vec<Inherited>,
    /// For each view.
    pub(super) matches: Vec<ViewMatch>,
    pub(super) zones: Vec<RawZone>,
    skipped: Vec<SkippedStatement>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Statements about the server, if everything is migrated and not only its zones served.
    pub(super) moved: Option<Box<ServerStatements>>,
}

#[derive(Clone, Copy)]
enum Level {
    Top,
    Options,
    View(usize),
    Zone(usize),
}

/// Returns the name of a statement and the block that contains it.
fn named_in(word: &str, level: Level) -> String {
    let block = match level {
        Level::Top => "",
        Level::Options => " in options",
        Level::View(_) => " in a view",
        Level::Zone(_) => " in a zone",
    };
    format!("{}{block}", quoted(word.as_bytes()).trim_matches('\''))
}

impl<'f> NamedConfReader<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self {
            files,
            paths: Vec::new(),
            open: Vec::new(),
            bytes: 0,
            base: PathBuf::new(),
            directory: None,
            remotes: HashMap::new(),
            acls: HashMap::new(),
            blackhole: None,
            // The zones outside all views.
            views: vec![View::new(None, true, (0, TextLocation::START))],
            defaults: vec![Inherited::default()],
            matches: vec![ViewMatch::default()],
            zones: Vec::new(),
            skipped: Vec::new(),
            diagnostics: Vec::new(),
            moved: None,
        }
    }

    /// Reads everything, for a migration.
    pub(super) fn whole(mut self) -> Self {
        self.moved = Some(Box::default());
        self
    }

    pub(super) fn read(mut self, path: &Path) -> NamedConf {
        self.base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if let Err(error) = self.file(path, Level::Top) {
            let file = self.paths.len().saturating_sub(1);
            self.report(file, None, format!("cannot be read: {}", reason_of(&error)));
        }
        self.finish()
    }

    fn is_full(&self) -> bool {
        self.diagnostics.len() >= DIAGNOSTICS_MAX
    }

    pub(super) fn report(&mut self, file: usize, location: Option<TextLocation>, message: String) {
        if self.is_full() {
            return;
        }
        let file = self.paths.get(file).map(|path| path.to_string_lossy());
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: Arc::from(&*file.unwrap_or_default()),
            line: location.map_or(0, |location| location.line),
            column: location.map_or(0, |location| location.column),
            message,
        });
    }

    /// Returns the index of the file being read.
    fn file_now(&self) -> usize {
        self.open.last().copied().unwrap_or(0)
    }

    /// Records a statement that is not imported.
    fn skip(&mut self, keyword: &Word<'_>, level: Level) {
        let word = keyword.string().to_ascii_lowercase();
        if self.moved.is_some() && settings::is_term(&word) {
            return;
        }
        let text = named_in(&word, level);
        let mut known = self.skipped.iter_mut();
        if let Some(known) = known.find(|known| known.text == text) {
            known.count += 1;
        } else if self.skipped.len() < SKIPPED_MAX {
            let spot = (self.file_now(), keyword.location);
            let count = 1;
            self.skipped.push(SkippedStatement { text, spot, count });
        }
    }

    /// Returns a warning for each statement that is not imported.
    pub(super) fn take_notes(&mut self) -> Vec<(Spot, String)> {
        let skipped = std::mem::take(&mut self.skipped).into_iter();
        let line = |SkippedStatement { text, spot, count }| match count {
            _ if text.starts_with("allow-new-zones") => {
                let elsewhere = "zones added with rndc addzone are stored elsewhere";
                (spot, format!("{text} ignored: {elsewhere}"))
            }
            1 => (spot, format!("{text} ignored")),
            2 => (spot, format!("{text} ignored, here and once more")),
            _ => (
                spot,
                format!("{text} ignored, here and {} more times", count - 1),
            ),
        };
        skipped.map(line).collect()
    }

    fn wrong(&mut self, wrong: ConfMistake) {
        let file = self.file_now();
        self.report(file, Some(wrong.location), wrong.message);
    }

    /// Reads a file whose statements are at this level.
    fn file(&mut self, path: &Path, level: Level) -> io::Result<()> {
        let index = self.paths.len();
        self.paths.push(path.to_path_buf());
        let text = self.files.read(path, BYTES_MAX - self.bytes)?;
        self.bytes += text.len() as u64;
        self.open.push(index);
        match syntax::parse(&text) {
            Ok(statements) => self.statements(&statements, level),
            Err(wrong) => self.wrong(wrong),
        }
        self.open.pop();
        Ok(())
    }

    fn statements(&mut self, statements: &[ConfStatement<'_>], level: Level) {
        for statement in statements {
            if self.is_full() {
                return;
            }
            let Some(keyword) = statement.keyword() else {
                self.wrong(
                    statement
                        .location()
                        .wrong("expected a statement, found '{'"),
                );
                continue;
            };
            self.see(keyword, level);
            let result = match level {
                _ if keyword.is("include") => self.include(statement, level),
                Level::Top => self.top(keyword, statement),
                Level::Options => self.option(keyword, statement),
                Level::View(view) => self.in_view(keyword, statement, view),
                Level::Zone(zone) => self.in_zone(keyword, statement, zone),
            };
            if let Err(wrong) = result {
                if let Level::Zone(zone) = level {
                    self.zones[zone].is_wrong = true;
                }
                self.wrong(wrong);
            }
        }
    }

    /// Records the location of a statement outside zones, so that the migration report has a line for it.
    fn see(&mut self, keyword: &Word<'_>, level: Level) {
        let spot = (self.file_now(), keyword.location);
        let is_block = keyword.is_one_of(&["zone", "view", "options"]);
        if is_block || matches!(level, Level::Zone(_)) {
            return;
        }
        if let Some(moved) = &mut self.moved
            && moved.seen.len() < SEEN_MAX
        {
            let word = keyword.string().to_ascii_lowercase();
            moved.seen.push((spot, named_in(&word, level)));
        }
    }

    fn include(&mut self, statement: &ConfStatement<'_>, level: Level) -> Result<(), ConfMistake> {
        let word = statement.value("a file name")?;
        let path = self.absolute(&word.text);
        let wrong = |message: String| word.location.wrong(message);
        let cannot = |path: &Path, error: &io::Error| {
            let reason = reason_of(error);
            wrong(format!("cannot read {}: {reason}", path.display()))
        };
        let paths = if !has_wildcards(&word.text) {
            vec![path]
        } else {
            self.files
                .matching(&path)
                .map_err(|error| cannot(&path, &error))?
        };
        if paths.is_empty() {
            return Err(wrong(format!("no file matches {}", quoted(&word.text))));
        }
        for path in paths {
            if self.open.iter().any(|open| self.paths[*open] == path) {
                return Err(wrong(format!("{} includes itself", path.display())));
            }
            if self.open.len() >= DEPTH_MAX {
                return Err(wrong(format!(
                    "includes nested more than {DEPTH_MAX} levels deep"
                )));
            }
            if self.paths.len() >= FILES_MAX {
                return Err(wrong(format!("more than {FILES_MAX} files")));
            }
            self.file(&path, level)
                .map_err(|error| cannot(&path, &error))?;
        }
        Ok(())
    }

    /// Resolves a path in the configuration against its base directory.
    fn absolute(&self, text: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(text));
        self.directory.as_ref().unwrap_or(&self.base).join(path)
    }

    fn top(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
    ) -> Result<(), ConfMistake> {
        if keyword.is("zone") {
            return self.zone(statement, 0);
        }
        if keyword.is("view") {
            return self.view(statement);
        }
        if keyword.is("options") {
            let (_, block) = statement.words_and_block()?;
            self.statements(block, Level::Options);
            return Ok(());
        }
        if keyword.is_one_of(LISTS) {
            let file = self.file_now();
            if let (Some(name), list) = remotes::read(statement, file, true)? {
                self.remotes.insert(name, list);
            }
            return Ok(());
        }
        if keyword.is("acl") {
            let (name, list) = acl::read_named(statement, self.file_now())?;
            if self.acls.insert(name, list).is_some() {
                return Err(keyword.location.wrong("duplicate list name"));
            }
            return Ok(());
        }
        let file = self.file_now();
        if let Some(moved) = &mut self.moved
            && moved.see_top(keyword, statement, file)
        {
            return Ok(());
        }
        if keyword.is_one_of(TOP) {
            self.skip(keyword, Level::Top);
            return Ok(());
        }
        Err(keyword.instead_of("zone, view, options or another statement"))
    }

    fn option(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
    ) -> Result<(), ConfMistake> {
        if keyword.is("directory") {
            let word = statement.value("a directory")?;
            // A relative path starts at the configuration, whatever directory the server was started in.
            self.directory = None;
            self.directory = Some(self.absolute(&word.text));
            return Ok(());
        }
        if keyword.is("blackhole") {
            self.blackhole = Some(acl::read(statement, self.file_now())?);
            return Ok(());
        }
        let file = self.file_now();
        let is_moved = self
            .moved
            .as_mut()
            .is_some_and(|moved| moved.see_option(keyword, statement, file));
        if !self.defaults[0].read(keyword, statement, file)? && !is_moved {
            self.skip(keyword, Level::Options);
        }
        Ok(())
    }

    fn view(&mut self, statement: &ConfStatement<'_>) -> Result<(), ConfMistake> {
        let (words, block) = statement.words_and_block()?;
        let (name, class) = name_and_class(statement, &words, "view")?;
        let (index, spot) = (self.views.len(), (self.file_now(), name.location));
        self.views.push(View::new(Some(name.string()), class, spot));
        self.defaults.push(Inherited::default());
        self.matches.push(ViewMatch::default());
        self.statements(block, Level::View(index));
        Ok(())
    }

    fn in_view(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        view: usize,
    ) -> Result<(), ConfMistake> {
        if keyword.is("zone") {
            return self.zone(statement, view);
        }
        let file = self.file_now();
        let matches = &mut self.matches[view];
        if keyword.is("match-clients") {
            matches.clients = Some(acl::read(statement, file)?);
        } else if keyword.is("match-destinations") {
            matches.destinations = Some(acl::read(statement, file)?);
        } else if keyword.is("match-recursive-only") {
            matches.recursive_only = is_on(statement).then_some((file, keyword.location));
        } else if !self.defaults[view].read(keyword, statement, file)? {
            self.skip(keyword, Level::View(view));
        }
        Ok(())
    }

    fn zone(&mut self, statement: &ConfStatement<'_>, view: usize) -> Result<(), ConfMistake> {
        let (words, block) = statement.words_and_block()?;
        let (word, class) = name_and_class(statement, &words, "zone")?;
        let name = NameBuf::from_text(&word.text, Name::ROOT).map_err(|error| {
            let found = quoted(&word.text);
            word.location
                .wrong(format!("invalid zone name {found}: {error}"))
        })?;
        let (index, spot) = (self.zones.len(), (self.file_now(), word.location));
        self.zones.push(RawZone {
            zone: BindZone::new(name.as_name(), class, spot),
            is_wrong: false,
            view,
            file: None,
            primaries: None,
            own: Inherited::default(),
        });
        self.statements(block, Level::Zone(index));
        Ok(())
    }

    fn in_zone(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        index: usize,
    ) -> Result<(), ConfMistake> {
        let file = self.file_now();
        let raw = &mut self.zones[index];
        if keyword.is("type") {
            let word = statement.value("the zone type")?;
            let kind = ZoneType::parse(&word.text);
            raw.zone.kind =
                Some(kind.ok_or_else(|| word.instead_of("primary, secondary or another type"))?);
        } else if keyword.is("file") {
            let word = statement.value("a file name")?;
            use std::os::unix::ffi::OsStrExt;
            raw.file = Some(std::ffi::OsStr::from_bytes(&word.text).into());
        } else if keyword.is("in-view") {
            raw.zone.in_view = Some(statement.value("a view name")?.string().into());
        } else if keyword.is_one_of(&["database", "dlz"]) {
            raw.zone.is_from_database = true;
        } else if keyword.is("masterfile-format") {
            // The first octets of a file show whether it is text or raw.
        } else if !raw.own.read(keyword, statement, file)? {
            if keyword.is_one_of(&["primaries", "masters"]) {
                raw.primaries = Some(remotes::read(statement, file, false)?.1);
            } else if keyword.is_one_of(&["allow-update", "update-policy"]) {
                raw.zone.is_dynamic = allows_some_client(statement);
            }
            self.skip(keyword, Level::Zone(index));
        }
        Ok(())
    }
}
