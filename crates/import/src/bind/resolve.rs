//! Resolution of settings that depend on later statements: the directory, named lists, inherited settings.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use nameward_zone::{AccessList, AccessWord};

use super::{
    BindZone, NamedConf, Spot, UnservableReason, ViewRequests, ZoneType,
    acl::{AclResolver, KeyMatching, MatchList, Resolved, Unusable},
    inherited::{INLINE_SIGNING, Inherited, SIGNING},
    read::{NamedConfReader, RawZone, ViewMatch},
    remotes, settings,
};

impl NamedConfReader<'_> {
    /// Returns the complete configuration.
    pub(super) fn finish(mut self) -> NamedConf {
        let interfaces = self.interfaces();
        let acls = std::mem::take(&mut self.acls);
        let mut lists = Lists {
            resolver: AclResolver::new(&acls, &interfaces, KeyMatching::Never),
            keyed: AclResolver::new(&acls, &interfaces, KeyMatching::Signed),
            inherited: HashMap::new(),
            keys: Vec::new(),
        };
        let blackhole = self.blackhole.take();
        let blackhole = blackhole.and_then(|list| self.settle_blackhole(&list, &mut lists));
        let named = self.views.iter().skip(1).filter(|view| view.is_internet);
        // Each of several views has its own rule.
        let is_one_of_several = named.count() > 1;
        for (view, matches) in std::mem::take(&mut self.matches).iter().enumerate() {
            if is_one_of_several {
                let requests = lists.view_requests(matches).map(Some);
                if let Some(requests) = self.usable(requests).transpose() {
                    self.views[view].requests = requests;
                }
            } else if let Some(clients) = self.usable(lists.view_clients(matches)).transpose() {
                self.views[view].clients = clients;
            }
        }
        let raw_zones = std::mem::take(&mut self.zones);
        let mut zones = Vec::with_capacity(raw_zones.len());
        let mut seen = HashSet::with_capacity(raw_zones.len());
        for raw in raw_zones {
            let name = raw.zone.name().to_string();
            let (file, location) = raw.zone.spot;
            if !seen.insert((raw.view, raw.zone.is_internet, name.to_ascii_lowercase())) {
                self.report(
                    file,
                    Some(location),
                    format!("zone {name} is defined twice"),
                );
                continue;
            }
            zones.push(self.settle_zone(raw, &name, &mut lists));
        }
        if let Some(moved) = &mut self.moved {
            moved.directory = self.directory.clone().unwrap_or_else(|| self.base.clone());
        }
        let mut notes = self.take_notes();
        notes.extend(lists.keys.into_iter().map(|spot| {
            let text =
                "a key in a client list matches no queries: TSIG is not checked for query access";
            (spot, text.to_string())
        }));
        NamedConf {
            zones,
            views: self.views,
            files: self.paths,
            blackhole,
            notes,
            diagnostics: self.diagnostics,
            moved: self.moved,
        }
    }

    /// Returns the addresses of this host; without them, a list that needs them cannot be evaluated correctly.
    fn interfaces(&mut self) -> Vec<(IpAddr, u8)> {
        self.files.interfaces().unwrap_or_else(|error| {
            self.report(
                0,
                None,
                format!("cannot list the addresses of this host: {error}"),
            );
            Vec::new()
        })
    }

    fn settle_zone(&mut self, mut raw: RawZone, name: &str, lists: &mut Lists<'_>) -> BindZone {
        let (file, location) = raw.zone.spot;
        raw.zone.view = raw.view;
        raw.zone.file = raw.file.take().map(|file| {
            let directory = self.directory.as_ref().unwrap_or(&self.base);
            directory.join(file)
        });
        let (view, options) = (&self.defaults[raw.view], &self.defaults[0]);
        let levels = [&raw.own, view, options];
        let is_signed = |at: usize| levels.iter().find_map(|level| level.signing[at]);
        let signed_by = (0..SIGNING.len()).find(|at| is_signed(*at) == Some(true));
        raw.zone.signed_by = signed_by.map(|at| SIGNING[at]);
        // A zone that accepts updates is signed in its own file, unless the configuration requests a copy.
        let has_copy = is_signed(INLINE_SIGNING).unwrap_or(!raw.zone.is_dynamic);
        raw.zone.is_signed_in_place = !has_copy;
        let allow_query = lists.allow_query(levels, raw.view);
        if self.moved.is_some() {
            let terms: Vec<_> = levels
                .iter()
                .filter_map(|level| level.terms.as_deref())
                .collect();
            raw.zone.terms = Some(Box::new(settings::resolve_settings(
                &terms,
                &mut lists.keyed,
            )));
        }
        let notify = levels.iter().find_map(|level| level.also_notify.as_ref());
        let resolved = [raw.primaries.as_ref(), notify].map(|list| match list {
            Some(list) => remotes::resolve(list, &self.remotes),
            None => Ok(Vec::new()),
        });
        raw.zone.allow_query = self.usable(allow_query);
        for (at, result) in resolved.into_iter().enumerate() {
            match result {
                Ok(remotes) if at == 0 => raw.zone.primaries = remotes,
                Ok(remotes) => raw.zone.also_notify = remotes,
                Err((file, wrong)) => self.report(file, Some(wrong.location), wrong.message),
            }
        }
        if let Some(message) = incomplete(&raw.zone).filter(|_| !raw.is_wrong) {
            self.report(file, Some(location), format!("zone {name} {message}"));
        }
        raw.zone
    }

    fn settle_blackhole(
        &mut self,
        list: &MatchList,
        lists: &mut Lists<'_>,
    ) -> Option<Arc<AccessList>> {
        match lists.resolve(list) {
            Ok(resolved) => (!resolved.list.is_none()).then_some(resolved.list),
            // Nothing can replace it, so nothing is imported.
            Err(Unusable::Wrong(file, wrong) | Unusable::Undecided(file, wrong)) => {
                self.report(file, Some(wrong.location), wrong.message);
                None
            }
        }
    }

    /// Returns what lists allow, or why that is unknown; `None` for all clients, also if a list has an error, which is
    /// reported.
    fn usable<T>(
        &mut self,
        found: Result<Option<T>, Unusable>,
    ) -> Result<Option<T>, UnservableReason> {
        match found {
            Ok(found) => Ok(found),
            Err(Unusable::Undecided(file, wrong)) => Err(UnservableReason::new(file, wrong)),
            Err(Unusable::Wrong(file, wrong)) => {
                self.report(file, Some(wrong.location), wrong.message);
                Ok(None)
            }
        }
    }
}

/// The lists of a configuration while zones are resolved.
pub(super) struct Lists<'n> {
    resolver: AclResolver<'n>,
    /// For lists in which keys are evaluated.
    pub(super) keyed: AclResolver<'n>,
    /// The clients that may query zones which inherit everything from this view.
    inherited: HashMap<usize, Option<Arc<AccessList>>>,
    /// Locations of keys in lists that are in use.
    keys: Vec<Spot>,
}

impl Lists<'_> {
    fn resolve(&mut self, list: &MatchList) -> Result<Resolved, Unusable> {
        let resolved = self.resolver.resolve(list)?;
        if let Some(spot) = resolved.key
            && !self.keys.contains(&spot)
        {
            self.keys.push(spot);
        }
        Ok(resolved)
    }

    /// Returns the clients a view answers; `None` for all.
    fn view_clients(&mut self, matches: &ViewMatch) -> Result<Option<Arc<AccessList>>, Unusable> {
        matches.check_recursive_only()?;
        if let Some(list) = &matches.destinations
            && !self.resolve(list)?.list.is_any()
        {
            return Err(list.undecided("match-destinations is not \"any\""));
        }
        let clients = matches.clients.as_ref();
        let clients = clients.map(|list| self.resolve(list)).transpose()?;
        Ok(clients.map(|clients| clients.list))
    }

    /// Returns the requests that are in a view.
    fn view_requests(&mut self, matches: &ViewMatch) -> Result<ViewRequests, Unusable> {
        matches.check_recursive_only()?;
        let clients = match &matches.clients {
            Some(list) => self.keyed.resolve(list)?.list,
            None => Arc::new(AccessList::any()),
        };
        let mut destinations = Vec::new();
        if let Some(list) = &matches.destinations {
            let reason = "match-destinations has more than single addresses";
            let hosts = hosts_of(&self.keyed.resolve(list)?.list);
            destinations = hosts.ok_or_else(|| list.undecided(reason))?;
        }
        Ok(ViewRequests {
            clients,
            destinations,
        })
    }

    /// Returns the clients that may query a zone; the first level with a setting wins.
    fn allow_query(
        &mut self,
        levels: [&Inherited; 3],
        view: usize,
    ) -> Result<Option<Arc<AccessList>>, Unusable> {
        let is_own = levels[0].allow_query.is_some() || levels[0].allow_query_on.is_some();
        if let (false, Some(known)) = (is_own, self.inherited.get(&view)) {
            return Ok(known.clone());
        }
        let on = levels
            .iter()
            .find_map(|level| level.allow_query_on.as_ref());
        if let Some(on) = on
            && !self.resolve(on)?.list.is_any()
        {
            let reason = "allow-query-on does not include all addresses of this server, which is not supported";
            return Err(on.undecided(reason));
        }
        let from = levels.iter().find_map(|level| level.allow_query.as_ref());
        let list = match from {
            Some(list) => Some(self.resolve(list)?.list).filter(|list| !list.is_any()),
            None => None,
        };
        if !is_own {
            self.inherited.insert(view, list.clone());
        }
        Ok(list)
    }
}

/// Returns the addresses of a list of single hosts; none if it has all addresses, `None` for other lists.
fn hosts_of(list: &AccessList) -> Option<Vec<IpAddr>> {
    if list.is_any() {
        return Some(Vec::new());
    }
    let entries = list.entries().into_iter();
    let hosts = entries.map(|entry| match entry.term {
        AccessWord::Network(address @ IpAddr::V4(_), 32)
        | AccessWord::Network(address @ IpAddr::V6(_), 128)
            if !entry.is_negated =>
        {
            Some(address)
        }
        _ => None,
    });
    hosts
        .collect::<Option<Vec<_>>>()
        .filter(|hosts| !hosts.is_empty())
}

fn incomplete(zone: &BindZone) -> Option<&'static str> {
    match zone.kind {
        _ if zone.in_view.is_some() => None,
        None => Some("has no type"),
        Some(ZoneType::Primary) if zone.file.is_none() && !zone.is_from_database => {
            Some("has no file")
        }
        Some(_) => None,
    }
}
