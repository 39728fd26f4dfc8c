//! What the statements of a `named.conf` say about zones, over all files that it includes.

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

use super::{
    Found, View, Zone, ZoneType,
    include::{Files, has_wildcards},
    lex::{Place, Wrong, quoted},
    remotes::{self, NamedLists, RemoteList},
    syntax::{self, Item, Statement, Word},
};

/// Files that include each other, at most.
const DEPTH_MAX: usize = 16;
/// Files in all, and their bytes.
const FILES_MAX: usize = 20_000;
const BYTES_MAX: u64 = 256 << 20;
/// Errors after which reading ends.
const WRONGS_MAX: usize = MAX_ERRORS;

/// Statements that may stand outside of all blocks.
const TOP: &[&str] = &[
    "acl",
    "controls",
    "dlz",
    "dnssec-policy",
    "dyndb",
    "http",
    "include",
    "key",
    "key-store",
    "logging",
    "lwres",
    "managed-keys",
    "masters",
    "options",
    "parental-agents",
    "plugin",
    "primaries",
    "remote-servers",
    "server",
    "statistics-channels",
    "template",
    "tls",
    "trust-anchors",
    "trusted-keys",
    "view",
    "zone",
];
/// Names for a list of other servers.
const LISTS: &[&str] = &["primaries", "masters", "remote-servers", "parental-agents"];
/// Statements that have a zone signed.
const SIGNING: &[&str] = &["dnssec-policy", "auto-dnssec", "inline-signing"];

/// What is settled where a zone says nothing: in `options`, or in a view.
#[derive(Default)]
struct Defaults {
    also_notify: Option<RemoteList>,
    is_signed: Option<bool>,
}

/// A zone as it is written.
struct RawZone {
    zone: Zone,
    is_signed: Option<bool>,
    /// Something in it is wrong and told already.
    is_wrong: bool,
    view: usize,
    file: Option<PathBuf>,
    primaries: Option<RemoteList>,
    also_notify: Option<RemoteList>,
    place: (usize, Place),
}

/// Reads one configuration.
pub(super) struct Reader<'f> {
    files: &'f mut dyn Files,
    /// Every file that was read or looked for, in order.
    paths: Vec<PathBuf>,
    /// Those that are being read, by their index.
    open: Vec<usize>,
    bytes: u64,
    /// Where relative paths begin until `directory` says otherwise.
    base: PathBuf,
    directory: Option<PathBuf>,
    lists: NamedLists,
    views: Vec<View>,
    defaults: Vec<Defaults>,
    zones: Vec<RawZone>,
    adds_zones: bool,
    diagnostics: Vec<Diagnostic>,
}

/// Where a statement stands.
#[derive(Clone, Copy)]
enum Level {
    Top,
    Options,
    View(usize),
    Zone(usize),
}

impl<'f> Reader<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self {
            files,
            paths: Vec::new(),
            open: Vec::new(),
            bytes: 0,
            base: PathBuf::new(),
            directory: None,
            lists: HashMap::new(),
            // The zones that stand in no view.
            views: vec![View::default()],
            defaults: vec![Defaults::default()],
            zones: Vec::new(),
            adds_zones: false,
            diagnostics: Vec::new(),
        }
    }

    pub(super) fn read(mut self, path: &Path) -> Found {
        self.base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if let Err(error) = self.file(path, Level::Top) {
            let file = self.paths.len().saturating_sub(1);
            self.report(
                file,
                None,
                format!("cannot be read: {}", super::super::scan::plain(&error)),
            );
        }
        self.finish()
    }

    fn is_full(&self) -> bool {
        self.diagnostics.len() >= WRONGS_MAX
    }

    fn report(&mut self, file: usize, place: Option<Place>, message: String) {
        if self.is_full() {
            return;
        }
        let file = self.paths.get(file).map(|path| path.to_string_lossy());
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: Arc::from(&*file.unwrap_or_default()),
            line: place.map_or(0, |place| place.line),
            column: place.map_or(0, |place| place.column),
            message,
        });
    }

    fn wrong(&mut self, wrong: Wrong) {
        let file = self.open.last().copied().unwrap_or(0);
        self.report(file, Some(wrong.place), wrong.message);
    }

    /// Reads a file whose statements stand at this level.
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

    fn statements(&mut self, statements: &[Statement<'_>], level: Level) {
        for statement in statements {
            if self.is_full() {
                return;
            }
            let Some(keyword) = statement.keyword() else {
                self.wrong(Wrong::new(
                    statement.place(),
                    "expected a statement, found '{'",
                ));
                continue;
            };
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

    fn include(&mut self, statement: &Statement<'_>, level: Level) -> Result<(), Wrong> {
        let word = statement.value("the name of a file")?;
        let path = self.absolute(&word.text);
        let wrong = |message: String| Wrong::new(word.place, message);
        let cannot = |path: &Path, error: &io::Error| {
            let reason = super::super::scan::plain(error);
            wrong(format!("cannot read {}: {reason}", path.display()))
        };
        let paths = match has_wildcards(&word.text) {
            false => vec![path],
            true => self
                .files
                .matching(&path)
                .map_err(|error| cannot(&path, &error))?,
        };
        if paths.is_empty() {
            return Err(wrong(format!(
                "no file has a name like {}",
                quoted(&word.text)
            )));
        }
        for path in paths {
            if self.open.iter().any(|open| self.paths[*open] == path) {
                return Err(wrong(format!("{} includes itself", path.display())));
            }
            if self.open.len() >= DEPTH_MAX {
                return Err(wrong(format!(
                    "more than {DEPTH_MAX} files include each other"
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

    /// A path of the configuration, from where it starts.
    fn absolute(&self, text: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(text));
        self.directory.as_ref().unwrap_or(&self.base).join(path)
    }

    fn top(&mut self, keyword: &Word<'_>, statement: &Statement<'_>) -> Result<(), Wrong> {
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
            let file = self.open.last().copied().unwrap_or(0);
            if let (Some(name), list) = remotes::read(statement, file, true)? {
                self.lists.insert(name, list);
            }
            return Ok(());
        }
        if keyword.is_one_of(TOP) {
            return Ok(());
        }
        let found = quoted(&keyword.text);
        let message = format!("expected zone, view, options or another statement, found {found}");
        Err(Wrong::new(keyword.place, message))
    }

    fn option(&mut self, keyword: &Word<'_>, statement: &Statement<'_>) -> Result<(), Wrong> {
        if keyword.is("directory") {
            let word = statement.value("a directory")?;
            // A relative one starts at the configuration, whatever directory the server was started in.
            self.directory = None;
            self.directory = Some(self.absolute(&word.text));
            return Ok(());
        }
        self.default(keyword, statement, 0)
    }

    /// What `options` and views may say for all their zones.
    fn default(
        &mut self,
        keyword: &Word<'_>,
        statement: &Statement<'_>,
        view: usize,
    ) -> Result<(), Wrong> {
        if keyword.is("also-notify") {
            let file = self.open.last().copied().unwrap_or(0);
            self.defaults[view].also_notify = Some(remotes::read(statement, file, false)?.1);
        } else if keyword.is_one_of(SIGNING) {
            self.defaults[view].is_signed = Some(is_on(statement));
        } else if keyword.is("allow-new-zones") {
            self.adds_zones |= is_on(statement);
        }
        Ok(())
    }

    fn view(&mut self, statement: &Statement<'_>) -> Result<(), Wrong> {
        let (words, block) = statement.words_and_block()?;
        let (name, class) = name_and_class(statement, &words, "view")?;
        let index = self.views.len();
        self.views.push(View {
            name: Some(name.string()),
            is_internet: class,
            is_open: true,
        });
        self.defaults.push(Defaults::default());
        self.statements(block, Level::View(index));
        Ok(())
    }

    fn in_view(
        &mut self,
        keyword: &Word<'_>,
        statement: &Statement<'_>,
        view: usize,
    ) -> Result<(), Wrong> {
        if keyword.is("zone") {
            return self.zone(statement, view);
        }
        if keyword.is_one_of(&["match-clients", "match-destinations"]) {
            let (_, list) = statement.words_and_block()?;
            self.views[view].is_open &= matches_anybody(list);
        } else if keyword.is("match-recursive-only") {
            self.views[view].is_open &= !is_on(statement);
        }
        self.default(keyword, statement, view)
    }

    fn zone(&mut self, statement: &Statement<'_>, view: usize) -> Result<(), Wrong> {
        let (words, block) = statement.words_and_block()?;
        let (word, class) = name_and_class(statement, &words, "zone")?;
        let name = NameBuf::from_text(&word.text, Name::ROOT).map_err(|error| {
            let found = quoted(&word.text);
            Wrong::new(
                word.place,
                format!("expected the name of a zone, found {found}: {error}"),
            )
        })?;
        let index = self.zones.len();
        let file = self.open.last().copied().unwrap_or(0);
        self.zones.push(RawZone {
            zone: Zone::new(name.as_name(), class),
            is_signed: None,
            is_wrong: false,
            view,
            file: None,
            primaries: None,
            also_notify: None,
            place: (file, word.place),
        });
        self.statements(block, Level::Zone(index));
        Ok(())
    }

    fn in_zone(
        &mut self,
        keyword: &Word<'_>,
        statement: &Statement<'_>,
        index: usize,
    ) -> Result<(), Wrong> {
        let file = self.open.last().copied().unwrap_or(0);
        let raw = &mut self.zones[index];
        if keyword.is("type") {
            let word = statement.value("the type of the zone")?;
            raw.zone.kind = Some(ZoneType::parse(&word.text).ok_or_else(|| {
                let found = quoted(&word.text);
                Wrong::new(
                    word.place,
                    format!("expected primary, secondary or another type, found {found}"),
                )
            })?);
        } else if keyword.is("file") {
            let word = statement.value("the name of a file")?;
            use std::os::unix::ffi::OsStrExt;
            raw.file = Some(std::ffi::OsStr::from_bytes(&word.text).into());
        } else if keyword.is_one_of(&["primaries", "masters"]) {
            raw.primaries = Some(remotes::read(statement, file, false)?.1);
        } else if keyword.is("also-notify") {
            raw.also_notify = Some(remotes::read(statement, file, false)?.1);
        } else if keyword.is("in-view") {
            raw.zone.in_view = Some(statement.value("the name of a view")?.string().into());
        } else if keyword.is_one_of(&["database", "dlz"]) {
            raw.zone.is_from_database = true;
        } else if keyword.is_one_of(&["allow-update", "update-policy"]) {
            raw.zone.is_dynamic = allows_somebody(statement);
        } else if keyword.is_one_of(SIGNING) {
            raw.is_signed = Some(is_on(statement));
        }
        Ok(())
    }

    /// Settles what depends on statements that may come later: the directory, lists, defaults.
    fn finish(mut self) -> Found {
        let mut zones = Vec::with_capacity(self.zones.len());
        let mut seen = std::collections::HashSet::with_capacity(self.zones.len());
        for mut raw in std::mem::take(&mut self.zones) {
            let (view, place) = (raw.view, raw.place);
            let name = raw.zone.name().to_string();
            if !seen.insert((view, raw.zone.is_internet, name.to_ascii_lowercase())) {
                self.report(
                    place.0,
                    Some(place.1),
                    format!("the zone {name} is defined twice"),
                );
                continue;
            }
            raw.zone.file = raw.file.take().map(|file| {
                let directory = self.directory.as_ref().unwrap_or(&self.base);
                directory.join(file)
            });
            let signed = raw.is_signed.or(self.defaults[view].is_signed);
            raw.zone.is_signed = signed.or(self.defaults[0].is_signed).unwrap_or(false);
            if let Some(message) = incomplete(&raw.zone).filter(|_| !raw.is_wrong) {
                self.report(place.0, Some(place.1), format!("the zone {name} {message}"));
            }
            let notify = raw.also_notify.as_ref();
            let notify = notify.or(self.defaults[view].also_notify.as_ref());
            let notify = notify.or(self.defaults[0].also_notify.as_ref());
            let resolved = [raw.primaries.as_ref(), notify].map(|list| match list {
                Some(list) => remotes::resolve(list, &self.lists),
                None => Ok(Vec::new()),
            });
            for (at, result) in resolved.into_iter().enumerate() {
                match result {
                    Ok(remotes) if at == 0 => raw.zone.primaries = remotes,
                    Ok(remotes) => raw.zone.also_notify = remotes,
                    Err((file, wrong)) => self.report(file, Some(wrong.place), wrong.message),
                }
            }
            raw.zone.view = view;
            zones.push(raw.zone);
        }
        Found {
            zones,
            views: self.views,
            files: self.paths,
            adds_zones: self.adds_zones,
            diagnostics: self.diagnostics,
        }
    }
}

fn incomplete(zone: &Zone) -> Option<&'static str> {
    match zone.kind {
        _ if zone.in_view.is_some() => None,
        None => Some("has no type"),
        Some(ZoneType::Primary) if zone.file.is_none() && !zone.is_from_database => {
            Some("has no file")
        }
        Some(_) => None,
    }
}

/// `NAME [CLASS]`; whether the class is that of the Internet.
fn name_and_class<'w, 't>(
    statement: &Statement<'_>,
    words: &[&'w Word<'t>],
    what: &str,
) -> Result<(&'w Word<'t>, bool), Wrong> {
    let Some((name, rest)) = words.split_first() else {
        return Err(Wrong::new(
            statement.place(),
            format!("expected the name of the {what}, found '{{'"),
        ));
    };
    let Some((class, rest)) = rest.split_first() else {
        return Ok((name, true));
    };
    if let Some(more) = rest.first() {
        let found = quoted(&more.text);
        return Err(Wrong::new(
            more.place,
            format!("expected '{{', found {found}"),
        ));
    }
    if class.is("in") {
        return Ok((name, true));
    }
    if class.is_one_of(&["ch", "chaos", "hs", "hesiod", "any", "none"]) {
        return Ok((name, false));
    }
    let found = quoted(&class.text);
    Err(Wrong::new(
        class.place,
        format!("expected a class or '{{', found {found}"),
    ))
}

/// Whether a switch is on: `yes`, or anything that is not a no.
fn is_on(statement: &Statement<'_>) -> bool {
    match statement.items().get(1) {
        Some(Item::Word(word)) => !word.is_one_of(&["no", "false", "0", "off", "none"]),
        _ => false,
    }
}

/// Whether a list of those who may do something has anybody in it.
fn allows_somebody(statement: &Statement<'_>) -> bool {
    match statement.items().get(1) {
        Some(Item::Block(_, list)) => list
            .iter()
            .any(|entry| entry.keyword().is_none_or(|word| !word.is("none"))),
        // `update-policy local;`
        _ => true,
    }
}

/// Whether a list of addresses has everybody in it. What stands before with a `!` takes some out, which
/// does not matter for all others.
fn matches_anybody(list: &[Statement<'_>]) -> bool {
    list.iter().any(|statement| match statement.items() {
        [Item::Word(word)] => word.is_one_of(&["any", "0.0.0.0/0", "::/0", "0/0"]),
        _ => false,
    })
}
