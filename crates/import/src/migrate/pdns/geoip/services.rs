//! The services of the geoip backend: names whose records are those of another name, by the client.

use std::fmt::Write;

use nameward_wire::Type;

use super::super::super::geo_scripts::{ScriptText, quoted, write_script};
use super::super::super::yaml::{YamlNode, YamlValue};
use super::super::super::{ConfigLocation, ImportVerdict::Changed, full_name, peers};
use super::super::PdnsReader;
use super::GeoDomain;

impl PdnsReader<'_> {
    /// Writes the scripts of a service: one for each type of its possible answers, and one for the CNAME record.
    pub(super) fn write_service(
        &mut self,
        domain: &GeoDomain,
        out: &mut String,
        (owner, formats): (&str, &YamlNode),
    ) {
        let location = ConfigLocation::new(&domain.file, formats.line);
        let Some(name) = full_name(&owner.to_ascii_lowercase()) else {
            return self.error(&location, format!("invalid name {owner:?}"));
        };
        let Some(networks) = self.service_networks(domain, formats) else {
            return;
        };
        let all = || networks.iter().flat_map(|(_, formats)| formats);
        let candidates = domain
            .names
            .iter()
            .filter(|(name, _)| all().any(|format| format.can_be(name)));
        let candidates: Vec<_> = candidates.collect();
        let mut types: Vec<Type> = candidates
            .iter()
            .flat_map(|(_, sets)| sets.iter().map(|(rtype, _)| *rtype))
            .filter(|rtype| *rtype != Type::CNAME)
            .collect();
        types.sort_unstable();
        types.dedup();
        let own = domain.names.get(name.trim_end_matches('.'));
        if own.is_none() {
            // Beside other records PowerDNS returns no CNAME.
            types.push(Type::CNAME);
        }
        let sets = candidates.iter().flat_map(|(_, sets)| sets.iter());
        let ttls: Vec<u32> = sets.map(|(_, set)| set.ttl).collect();
        let ttl = ttls.iter().copied().min().unwrap_or(domain.ttl);
        if ttls.iter().any(|other| *other != ttl) {
            let text = format!("service {name}: all answers have the lowest TTL, {ttl} seconds");
            self.server.note(Changed, &location, text);
        }
        for rtype in types {
            let code = domain.service_script(rtype, &networks);
            let written = write_script(out, (&name, ttl), rtype, &domain.script(&code));
            self.report_fault(written, &name, &location);
        }
    }

    /// Reads the formats of a service by network, the narrowest first; the default has none.
    fn service_networks(
        &mut self,
        domain: &GeoDomain,
        formats: &YamlNode,
    ) -> Option<Vec<(Option<String>, Vec<ScriptText>)>> {
        let entries: Vec<(Option<&str>, &YamlNode)> = match &formats.value {
            YamlValue::Map(pairs) => {
                let named = |key: &String| (key != "default").then_some(key.len());
                let pairs = pairs
                    .iter()
                    .map(|(key, node)| (named(key).map(|_| key.as_str()), node));
                pairs.collect()
            }
            _ => vec![(None, formats)],
        };
        let mut networks = Vec::new();
        for (network, node) in entries {
            let location = ConfigLocation::new(&domain.file, node.line);
            let length = match network {
                None => None,
                Some(network) => {
                    let Some((_, length)) = peers::network(network) else {
                        let message = format!("expected a network or default, found {network:?}");
                        self.error(&location, message);
                        return None;
                    };
                    Some(length)
                }
            };
            let texts = node.items().iter().filter_map(YamlNode::text);
            let texts: Vec<String> = texts.map(str::to_ascii_lowercase).collect();
            let texts = texts
                .iter()
                .map(|text| self.template(text.trim_end_matches('.'), domain, &location));
            networks.push((
                length,
                network.map(str::to_owned),
                texts.collect::<Vec<_>>(),
            ));
        }
        networks.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
        let networks = networks
            .into_iter()
            .map(|(_, network, texts)| (network, texts));
        Some(networks.collect())
    }
}

impl GeoDomain {
    fn service_script(
        &self,
        rtype: Type,
        networks: &[(Option<String>, Vec<ScriptText>)],
    ) -> String {
        let mut code = String::from("local k ");
        for (network, formats) in networks {
            if let Some(network) = network {
                let _ = write!(code, "if netmask({{{}}}) then ", quoted(network));
            }
            for format in formats {
                let _ = write!(code, "k={} ", format.expression());
                for (name, sets) in self.names.iter().filter(|(name, _)| format.can_be(name)) {
                    let set = sets.iter().find(|(known, _)| *known == rtype);
                    let value = set.map_or("{}".to_owned(), |(_, set)| set.expression(rtype));
                    let _ = write!(code, "if k=={} then return {value} end ", quoted(name));
                }
            }
            let value = if rtype == Type::CNAME && !formats.is_empty() {
                "k"
            } else {
                "{}"
            };
            let _ = match network {
                Some(_) => write!(code, "return {value} end "),
                None => write!(code, "do return {value} end "),
            };
        }
        code + "return {}"
    }
}
