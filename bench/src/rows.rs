//! The zones of the scenarios as rows of a database: the same records as in the zone files.

use std::fmt::Write;

use crate::scenario::{Scenario, label};
use crate::zones::Address;

/// Rows of one INSERT statement.
const ROWS: usize = 1000;

/// Collects rows of one table into statements that every engine takes.
struct Table {
    head: &'static str,
    sql: String,
    rows: usize,
}

impl Table {
    fn new(head: &'static str) -> Self {
        Table {
            head,
            sql: String::new(),
            rows: 0,
        }
    }

    fn row(&mut self, values: std::fmt::Arguments<'_>) {
        match self.rows % ROWS {
            0 if self.rows == 0 => self.sql.push_str(self.head),
            0 => {
                self.sql.push_str(";\n");
                self.sql.push_str(self.head);
            }
            _ => self.sql.push(','),
        }
        let _ = write!(self.sql, "({values})");
        self.rows += 1;
    }
}

/// The statements that fill an empty database, and let its planner know what is there.
pub fn sql(scenario: Scenario) -> String {
    let mut domains = Table::new("INSERT INTO domains (id, name, type) VALUES ");
    let mut records =
        Table::new("INSERT INTO records (domain_id, name, type, content, ttl, prio) VALUES ");
    for (index, zone) in scenario.zone_names().iter().enumerate() {
        let id = index + 1;
        domains.row(format_args!("{id},'{zone}','NATIVE'"));
        let mut add = |name: &str, rtype: &str, prio: u16, content: &str| {
            records.row(format_args!(
                "{id},'{name}','{rtype}','{content}',3600,{prio}"
            ));
        };
        match scenario {
            Scenario::Hosting | Scenario::Listed => hosted(zone, index, &mut add),
            _ => flat(zone, scenario.size(), &mut add),
        }
    }
    let (domains, records) = (domains.sql, records.sql);
    format!("BEGIN;\n{domains};\n{records};\nCOMMIT;\n")
}

fn flat(zone: &str, names: usize, add: &mut impl FnMut(&str, &str, u16, &str)) {
    let soa = format!("ns1.{zone} hostmaster.{zone} 2026010101 7200 3600 1209600 300");
    add(zone, "SOA", 0, &soa);
    for (server, address) in [("ns1", "192.0.2.1"), ("ns2", "192.0.2.2")] {
        let host = format!("{server}.{zone}");
        add(zone, "NS", 0, &host);
        add(&host, "A", 0, address);
    }
    for index in 0..names {
        let name = format!("{}.{zone}", label(index));
        add(&name, "A", 0, &Address(index).to_string());
    }
}

fn hosted(zone: &str, index: usize, add: &mut impl FnMut(&str, &str, u16, &str)) {
    let address = Address(index).to_string();
    let soa = "ns1.hoster.test hostmaster.hoster.test 2026010101 7200 3600 1209600 300";
    let (www, mail) = (format!("www.{zone}"), format!("mail.{zone}"));
    add(zone, "SOA", 0, soa);
    add(zone, "NS", 0, "ns1.hoster.test");
    add(zone, "NS", 0, "ns2.hoster.test");
    add(zone, "MX", 10, &mail);
    add(zone, "A", 0, &address);
    add(zone, "TXT", 0, "\"v=spf1 mx -all\"");
    add(&www, "A", 0, &address);
    add(&mail, "A", 0, &address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_of_the_zone_file_is_a_row() {
        let sql = sql(Scenario::Small);
        assert_eq!(sql.matches(",'A','").count(), 1_000 + 2);
        assert_eq!(sql.matches("'NATIVE'").count(), 1);
        assert_eq!(sql.matches("INSERT INTO records").count(), 2);
    }
}
