//! Two servers that write to two nodes of a Galera cluster at the same time never damage a zone.

use super::*;
use nameward_sql::SqlError;
use nameward_sql::write::{AttributeChange, Committed, KeyEdit, KeyRefusal, StoredKey, WriteError};
use std::collections::BTreeSet;
use std::sync::Barrier;

/// Rounds in which both servers change the same zone at the same moment.
const ROUNDS: usize = 40;

/// The steps of one round for each of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A CNAME by one server, an address by the other, at the same name.
    Alias,
    /// The same record by both.
    Same,
    /// A record of its own by each.
    Own,
    /// The first key of a zone by both.
    FirstKey,
}

const STEPS: [Step; 4] = [Step::Alias, Step::Same, Step::Own, Step::FirstKey];

type Outcomes = Vec<(Step, Result<Committed, WriteError>)>;

fn key() -> AttributeChange {
    AttributeChange::Key(KeyEdit::AddFirst(StoredKey {
        id: 0,
        flags: 257,
        is_active: true,
        is_published: true,
        content: format!("key of {:?}", std::thread::current().id()).into(),
    }))
}

/// Makes all changes of one server.
fn write(backend: &SqlBackend, server: usize, zones: &[i64], together: &Barrier) -> Outcomes {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut outcomes = Vec::new();
    for (round, keyed) in zones[1..].iter().enumerate() {
        for step in STEPS {
            let (owner, rtype, content) = match (step, server) {
                (Step::Alias, 0) => (format!("x{round}"), "CNAME", "ns1.example.org.".to_string()),
                (Step::Alias, _) => (format!("x{round}"), "A", "192.0.2.7".to_string()),
                (Step::Same, _) => ("same".to_string(), "TXT", format!("same{round}")),
                _ => ("own".to_string(), "TXT", format!("own{round}-{server}")),
            };
            let set = rrset(&format!("{owner}.example.org"), rtype, &[&content]);
            together.wait();
            let result = runtime.block_on(async {
                match step {
                    Step::FirstKey => backend.change_attributes(*keyed, &[key()]).await,
                    _ => {
                        backend
                            .commit(zones[0], &change(vec![Edit::Add(set)]))
                            .await
                    }
                }
            });
            outcomes.push((step, result));
        }
    }
    outcomes
}

/// Both servers make their changes, and then what they left is checked on both nodes.
fn check(nodes: &[Database], zones: &[i64]) {
    let backends: Vec<SqlBackend> = nodes.iter().map(backend).collect();
    let together = Barrier::new(backends.len());
    let outcomes: Vec<Outcomes> = std::thread::scope(|scope| {
        let writers: Vec<_> = backends
            .iter()
            .enumerate()
            .map(|(server, backend)| {
                let together = &together;
                scope.spawn(move || write(backend, server, zones, together))
            })
            .collect();
        writers.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (mut serials, mut changes) = (BTreeSet::new(), 0);
    for (number, ((step, one), (_, other))) in outcomes[0].iter().zip(&outcomes[1]).enumerate() {
        let refused = match (one, other) {
            (Ok(_), Ok(_)) => None,
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => Some(error),
            (Err(one), Err(other)) => panic!("{step:?}: {one}; {other}"),
        };
        match (step, refused) {
            (Step::Alias, Some(WriteError::Invalid(_)))
            | (Step::FirstKey, Some(WriteError::Keys(KeyRefusal::HasKeys)))
            | (Step::Same | Step::Own, None) => {}
            (step, refused) => {
                let keyed = zones[1 + number / STEPS.len()];
                let keys = format!("SELECT id, content FROM cryptokeys WHERE domain_id = {keyed}");
                let stored: Vec<_> = nodes.iter().map(|node| node.run(&keys)).collect();
                panic!(
                    "{step:?}: {refused:?}; {one:?}; {other:?}; keys of zone {keyed} on each node: {stored:?}"
                )
            }
        }
        let made = [one, other].into_iter().flatten();
        for made in made.filter(|made| made.is_changed && *step != Step::FirstKey) {
            changes += 1;
            assert!(
                serials.insert(made.serial.0),
                "{step:?}: serial {}",
                made.serial.0
            );
        }
    }
    let soa = format!(
        "SELECT content FROM records WHERE domain_id = {} AND type = 'SOA'",
        zones[0]
    );
    for node in nodes {
        let run = |sql: &str| node.run(sql).unwrap();
        let doubled = "SELECT name, type, content FROM records GROUP BY domain_id, name, type, content \
                       HAVING COUNT(*) > 1";
        assert_eq!(run(doubled), "");
        let beside = "SELECT a.name FROM records a JOIN records b ON a.domain_id = b.domain_id AND a.name = b.name \
                      WHERE a.type = 'CNAME' AND b.type <> 'CNAME'";
        assert_eq!(run(beside), "");
        assert_eq!(
            run("SELECT domain_id FROM cryptokeys GROUP BY domain_id HAVING COUNT(*) > 1"),
            ""
        );
        let last = serials.last().copied().unwrap_or_default();
        assert!(
            run(&soa).contains(&format!(" {last} 10800 ")),
            "{} after {last}",
            run(&soa)
        );
    }
    // Alias: one of two; the same record: one of two; own records: both.
    assert_eq!(changes, ROUNDS * 4);
}

fn backend(node: &Database) -> SqlBackend {
    let address = DatabaseAddress::parse(&node.url()).unwrap();
    SqlBackend::new(SqlOptions::for_tests(address)).unwrap()
}

/// Makes a zone for records and one for each round's keys.
fn make_zones(node: &Database) -> Vec<i64> {
    let backend = backend(node);
    block_on(async {
        let mut zones = Vec::new();
        for round in 0..=ROUNDS {
            let apex = match round {
                0 => "example.org".to_string(),
                round => format!("k{round}.example"),
            };
            zones.push(backend.create_zone(&new_zone(&apex)).await.unwrap().zone);
        }
        zones
    })
}

#[test]
fn two_galera_nodes_that_take_changes_of_one_zone_leave_it_sound() {
    let Some(nodes) = Database::galera(2) else {
        return;
    };
    let mut nodes = nodes.unwrap();
    let address = DatabaseAddress::parse(&nodes[0].url()).unwrap();
    assert_eq!(block_on(db::init(&address)).unwrap(), Vec::<String>::new());
    let zones = make_zones(&nodes[0]);
    nodes[1].await_cluster(2).unwrap();
    check(&nodes, &zones);
    // A schema that PowerDNS made: nothing notes changes.
    let mut bare = String::new();
    for table in ["records", "domains", "domainmetadata", "cryptokeys"] {
        for event in ["insert", "update", "delete"] {
            bare.push_str(&format!("DROP TRIGGER nameward_{table}_{event};\n"));
        }
    }
    bare.push_str(
        "DROP TABLE nameward_changes; DELETE FROM records; DELETE FROM cryptokeys; DELETE FROM domains;",
    );
    nodes[0].run(&bare).unwrap();
    let zones = make_zones(&nodes[0]);
    check(&nodes, &zones);
    assert_eq!(
        nodes[0]
            .run("SELECT COUNT(*) FROM domains WHERE last_check IS NOT NULL")
            .unwrap(),
        "0\n",
        "what serialises changes leaves no trace"
    );
    check_partition(&mut nodes);
}

/// A node that is cut off from its cluster is unavailable: its refusals say nothing about tables or statements.
fn check_partition(nodes: &mut [Database]) {
    let backend = backend(&nodes[1]);
    // A session that is open before.
    block_on(backend.create_zone(&new_zone("before.example"))).unwrap();
    nodes[0].kill();
    nameward_testkit::wait_until("the node is cut off", || {
        nodes[1].run("SELECT id FROM domains LIMIT 1").is_err()
    });
    let read = block_on(backend.zones());
    assert!(matches!(read, Err(SqlError::Unavailable(_))), "{read:?}");
    let written = block_on(backend.create_zone(&new_zone("after.example")));
    assert!(
        matches!(written, Err(WriteError::Sql(SqlError::Unavailable(_)))),
        "{written:?}"
    );
}
