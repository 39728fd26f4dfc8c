//! ALIAS records in a transferred zone, replaced by the addresses of their targets (`expand_alias`).
//!
//! ```text
//! each ALIAS -> target in one of our zones: its addresses, after a look-up if need be
//!            -> outside them: the target cache, or the resolvers, many in parallel
//! all known  -> the version with addresses          one is not: no transfer
//! ```
//! A version without a name's addresses would take the name offline, while a secondary that gets no version keeps its
//! current one. A name whose target has no address at all keeps its ALIAS, so that it exists there as it does here.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_answer::{AliasAddresses, TargetLocation, Zones, alias_of, find_target};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{ChangeError, Difference};
use nameward_zone::{
    AccessClient, Find, LookupError, LookupRequest, NameKey, Node, Rrset, SigningState, WireRecord,
    Zone, ZoneTable,
};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::client_disconnect::ClientDisconnect;
use nameward_serve::access::ClientZones;
use nameward_serve::alias::AliasResolver;
use nameward_serve::live::{FetchedFragment, LiveView, Parts};
use nameward_serve::pipeline::ServingState;
use nameward_serve::recursor::UpstreamMessage;
use nameward_serve::request::ViewId;

/// Maximum number of targets resolved in parallel for one transfer.
const PARALLEL_MAX: usize = 32;
/// Time limit for all targets together: slightly less than the client of a transfer has to wait at most.
const TIMEOUT: Duration = Duration::from_secs(45);

const ADDRESS_TYPES: [Type; 2] = [Type::A, Type::AAAA];

/// Answers of resolvers.
type ResolvedTargets = HashMap<UpstreamMessage, Arc<AliasAddresses>>;

/// Why ALIAS records could not be expanded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExpandFault {
    #[error("expand_alias: {0} has no cached {1} records and cannot be resolved now")]
    Unresolved(Box<NameBuf>, Type),
    #[error("expand_alias: {0}: {1}")]
    Backend(Box<NameBuf>, LookupError),
    #[error("expand_alias: resolving its targets timed out")]
    TimedOut,
    #[error("expand_alias: internal error while resolving targets")]
    Ended,
    #[error("expand_alias: the client disconnected")]
    ClientLeft,
    #[error("expand_alias: {0}")]
    Unusable(#[from] ChangeError),
}

/// A name with an ALIAS, and the addresses that replace it.
struct AliasOwner<'z> {
    node: Node<'z>,
    target: Name<'z>,
    ttl: u32,
    sets: Vec<(Type, FoundAddresses)>,
}

enum FoundAddresses {
    /// Their data and TTL.
    Here(Vec<Vec<u8>>, u32),
    /// A resolver must be queried for them.
    Outside(UpstreamMessage),
}

/// The expansion of one version of a zone for one client.
pub(super) struct AliasExpansion<'e> {
    pub(super) zone: &'e Arc<Zone>,
    pub(super) shared: &'e ServingState,
    pub(super) client: IpAddr,
    pub(super) view: ViewId,
    pub(super) runtime: &'e Handle,
    pub(super) disconnect: &'e ClientDisconnect,
}

/// Checks whether a zone has an ALIAS record.
pub(super) fn has_alias(zone: &Zone) -> bool {
    zone.nodes_in_any_order()
        .any(|node| alias_of(node).is_some())
}

/// Lists the served names with an ALIAS: those below a delegation are not served.
fn alias_owners(zone: &Zone) -> Vec<AliasOwner<'_>> {
    let found = zone.nodes_in_any_order().filter_map(|node| {
        let (target, ttl) = alias_of(node)?;
        let sets = Vec::new();
        Some(AliasOwner {
            node,
            target,
            ttl,
            sets,
        })
    });
    let is_served = |owner: &AliasOwner<'_>| {
        let key = NameKey::new(owner.node.name());
        matches!(zone.find(&key), Find::Exact(_))
    };
    found.filter(is_served).collect()
}

impl AliasExpansion<'_> {
    /// Builds the version with addresses; may block. A zone with stored signatures stays as it is: the addresses
    /// could not be signed here.
    pub(super) fn run(&self) -> Result<Arc<Zone>, ExpandFault> {
        let mut owners = match self.zone.signing() {
            SigningState::Stored(_) => Vec::new(),
            SigningState::Online(_)
            | SigningState::Chained(_)
            | SigningState::Listed(_)
            | SigningState::Unsigned => alias_owners(self.zone),
        };
        if owners.is_empty() {
            return Ok(Arc::clone(self.zone));
        }
        let deadline = Instant::now() + TIMEOUT;
        self.find_all(&mut owners, deadline)?;
        let resolved = self.resolve(&owners, deadline)?;
        let mut difference = Difference::default();
        for owner in &owners {
            owner.expand(&resolved, &mut difference);
        }
        Ok(Arc::new(self.zone.apply(&difference)?))
    }

    /// Finds the addresses in our zones, and the queries for the rest.
    fn find_all(
        &self,
        owners: &mut [AliasOwner<'_>],
        deadline: Instant,
    ) -> Result<(), ExpandFault> {
        let table = self.shared.zones.load_full();
        for owner in owners {
            for rtype in ADDRESS_TYPES {
                if Instant::now() >= deadline {
                    return Err(ExpandFault::TimedOut);
                }
                // A record of the type at the same name takes precedence over the ALIAS, as in answers.
                if owner.node.rrset(rtype).is_none() {
                    let found = self.find((owner.target, rtype), &table)?;
                    owner.sets.push((rtype, found));
                }
            }
        }
        Ok(())
    }

    fn find(
        &self,
        (target, rtype): (Name<'_>, Type),
        table: &ZoneTable,
    ) -> Result<FoundAddresses, ExpandFault> {
        let zones = ClientZones {
            table,
            client: AccessClient::in_plain_text(self.client, None),
            view: self.view,
            pools: None,
        };
        let unresolved = || ExpandFault::Unresolved(Box::new(target.into()), rtype);
        let (mut fragments, mut key) = (Parts::new(), NameKey::default());
        loop {
            let view = ExpansionView {
                transferred: self.zone,
                zones,
                live: LiveView::new(zones, &fragments),
            };
            match find_target(&view, (target, rtype), &mut key) {
                TargetLocation::Here(rrset) => return Ok(copied(Some(rrset))),
                // Script results differ for each query: the target's stored records are copied.
                TargetLocation::Computed(_, node, _) => return Ok(copied(node.rrset(rtype))),
                TargetLocation::Nowhere => return Ok(copied(None)),
                TargetLocation::Outside(name) => {
                    let query = UpstreamMessage::new(name, rtype);
                    return Ok(FoundAddresses::Outside(query));
                }
                TargetLocation::Failed => return Err(unresolved()),
                TargetLocation::Pending => {}
            }
            let fragment = self.look_up(&zones, &key, rtype)?.ok_or_else(unresolved)?;
            fragments.try_push(fragment).map_err(|_| unresolved())?;
        }
    }

    /// Looks up a name in a zone whose data is not in memory; `None` if the zone was removed in the meantime.
    fn look_up(
        &self,
        zones: &ClientZones<'_>,
        key: &NameKey,
        rtype: Type,
    ) -> Result<Option<FetchedFragment>, ExpandFault> {
        let Some((zone, live)) = zones
            .find(key, rtype)
            .and_then(|zone| Some((zone, zone.live()?)))
        else {
            return Ok(None);
        };
        let Some(source) = self.shared.live.source(live.backend()) else {
            return Ok(None);
        };
        let generation = live.generation();
        let request = LookupRequest {
            zone: live.id(),
            apex: zone.apex_name(),
            name: key.suffix(key.labels()),
        };
        let looked_up = self.disconnect.or(source.lookup(request));
        let looked_up = self.runtime.block_on(looked_up);
        match looked_up.ok_or(ExpandFault::ClientLeft)? {
            Ok(fragment) => Ok(Some(FetchedFragment::new(
                live,
                key,
                generation,
                fragment.zone,
            ))),
            Err(error) => Err(ExpandFault::Backend(Box::new(request.name.into()), error)),
        }
    }

    /// Resolves the targets outside our zones, each once.
    fn resolve(
        &self,
        owners: &[AliasOwner<'_>],
        deadline: Instant,
    ) -> Result<ResolvedTargets, ExpandFault> {
        let sets = owners.iter().flat_map(|owner| &owner.sets);
        let unresolved_targets: HashSet<UpstreamMessage> = sets
            .filter_map(|(_, found)| match found {
                FoundAddresses::Outside(query) => Some(query.clone()),
                FoundAddresses::Here(..) => None,
            })
            .collect();
        let Some(first) = unresolved_targets.iter().next() else {
            return Ok(HashMap::new());
        };
        let resolver = self.shared.aliases().ok_or_else(|| unresolved(first))?;
        let all = resolve_all(resolver, unresolved_targets.into_iter());
        let in_time = async {
            let all = self.disconnect.or(all);
            let in_time = tokio::time::timeout_at(deadline.into(), all).await;
            in_time.unwrap_or(Some(Err(ExpandFault::TimedOut)))
        };
        let resolved = self.runtime.block_on(in_time);
        resolved.ok_or(ExpandFault::ClientLeft)?
    }
}

fn copied(rrset: Option<Rrset<'_>>) -> FoundAddresses {
    let records = rrset.into_iter().flat_map(|rrset| rrset.records());
    let data = records.map(|record| record.rdata.to_vec()).collect();
    FoundAddresses::Here(data, rrset.map_or(0, |rrset| rrset.ttl()))
}

fn unresolved(query: &UpstreamMessage) -> ExpandFault {
    ExpandFault::Unresolved(Box::new(query.name().into()), query.qtype())
}

/// Resolves many targets in parallel; stops at the first that cannot be resolved.
async fn resolve_all(
    resolver: &Arc<AliasResolver>,
    mut unresolved_targets: impl Iterator<Item = UpstreamMessage>,
) -> Result<ResolvedTargets, ExpandFault> {
    let mut resolved = HashMap::new();
    let mut running = JoinSet::new();
    loop {
        while running.len() < PARALLEL_MAX
            && let Some(query) = unresolved_targets.next()
        {
            let resolver = Arc::clone(resolver);
            running.spawn(async move {
                let addresses = resolver.resolve_now(&query).await;
                (query, addresses)
            });
        }
        match running.join_next().await {
            None => return Ok(resolved),
            Some(Ok((query, Some(addresses)))) => resolved.insert(query, addresses),
            Some(Ok((query, None))) => return Err(unresolved(&query)),
            Some(Err(_)) => return Err(ExpandFault::Ended),
        };
    }
}

impl AliasOwner<'_> {
    /// Replaces the ALIAS by the addresses, if there are any.
    fn expand(&self, resolved: &ResolvedTargets, difference: &mut Difference) {
        let owner = self.node.name();
        let before = difference.added.len();
        for (rtype, found) in &self.sets {
            let (data, ttl) = match found {
                FoundAddresses::Here(data, ttl) => (&data[..], *ttl),
                FoundAddresses::Outside(query) => match resolved.get(query) {
                    Some(addresses) => (&addresses.records[..], addresses.ttl),
                    None => (&[][..], 0),
                },
            };
            let ttl = self.ttl.min(ttl);
            let record = |rdata| WireRecord {
                owner,
                rtype: *rtype,
                ttl,
                rdata,
            };
            data.iter()
                .for_each(|rdata| difference.added.push(record(rdata)));
        }
        let has_address_records = self.sets.len() < ADDRESS_TYPES.len();
        let alias = self.node.rrset(Type::ALIAS);
        if let Some(alias) =
            alias.filter(|_| has_address_records || difference.added.len() > before)
        {
            for record in alias.records() {
                difference.removed.push(WireRecord {
                    owner,
                    rtype: Type::ALIAS,
                    ttl: alias.ttl(),
                    rdata: record.rdata,
                });
            }
        }
    }
}

/// The zones that one client is allowed to query, with the transferred version in place of its own zone.
struct ExpansionView<'a> {
    transferred: &'a Zone,
    zones: ClientZones<'a>,
    live: LiveView<'a>,
}

impl Zones for ExpansionView<'_> {
    type View = Zone;

    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Zone> {
        match self.zones.find(key, qtype) {
            Some(zone) if zone.id() == self.transferred.id() => Some(self.transferred),
            _ => self.live.zone_for(key, qtype),
        }
    }
}
