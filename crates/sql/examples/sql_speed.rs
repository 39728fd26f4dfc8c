//! Measures a database of one large zone: look-ups a second on one thread, and the time to load it.
//!
//! `sql_speed URL make RECORDS` fills an empty SQLite file, `sql_speed URL lookup|batch|missing|load|zones` measures. Look-ups
//! run `IN_FLIGHT` at a time where the database can take more than one; `batch` has as many share a statement.

use nameward_sql::{DatabaseAddress, Found, LiveZone, SqlBackend, SqlOptions, db};
use nameward_wire::NameBuf;
use nameward_zone::ZoneBuilder;
use std::error::Error;
use std::time::{Duration, Instant};

const IN_FLIGHT: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = DatabaseAddress::parse(&arguments.next().ok_or("expected a URL")?)?;
    let what = arguments.next().ok_or("expected what to measure")?;
    let count = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        if what == "make" {
            return make(&address, count).await;
        }
        let mut options = SqlOptions::for_tests(address);
        options.timeout = Duration::from_secs(30);
        measure(SqlBackend::new(options)?, &what, count).await
    })
}

/// One zone with `count` names of one address each, and one small zone for each ten of them.
async fn make(address: &DatabaseAddress, count: u32) -> Result<(), Box<dyn Error>> {
    db::init(address).await?;
    let DatabaseAddress::Sqlite(path) = address else {
        return Err("only SQLite can be filled here".into());
    };
    let mut connection = rusqlite::Connection::open(path)?;
    let transaction = connection.transaction()?;
    {
        let mut zone =
            transaction.prepare("INSERT INTO domains (name, type) VALUES (?1, 'NATIVE')")?;
        zone.execute(["example.org"])?;
        for i in 0..count / 10 {
            zone.execute([format!("zone{i}.test")])?;
        }
        let mut record = transaction.prepare(
            "INSERT INTO records (domain_id, name, type, content, ttl, prio) VALUES (1, ?1, ?2, ?3, 300, 0)",
        )?;
        record.execute([
            "example.org",
            "SOA",
            "ns1.example.org host.example.org 1 2 3 4 5",
        ])?;
        record.execute(["example.org", "NS", "ns1.example.org"])?;
        record.execute(["ns1.example.org", "A", "192.0.2.1"])?;
        for i in 0..count {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + i).to_string();
            record.execute([&format!("host{i}.example.org"), "A", &address])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

async fn measure(backend: SqlBackend, what: &str, count: u32) -> Result<(), Box<dyn Error>> {
    let zone = LiveZone {
        id: 1,
        apex: "example.org".parse()?,
    };
    let started = Instant::now();
    match what {
        "load" => {
            let mut builder = ZoneBuilder::new(zone.apex.as_name());
            let report = backend.load_zone(&zone, &mut builder).await?;
            let loaded = started.elapsed();
            let zone = builder.finish().0.ok_or("no zone")?;
            println!(
                "{} records read in {loaded:?}, built in {:?}, {} bytes",
                report.records,
                started.elapsed(),
                zone.heap_bytes()
            );
        }
        "zones" => {
            let zones = backend.zones().await?;
            println!("{} zones in {:?}", zones.len(), started.elapsed());
        }
        _ => {
            let prefix = if what == "missing" { "none" } else { "host" };
            // Names that are not there need the set of names with something below.
            backend
                .lookup(&zone, "none.example.org".parse::<NameBuf>()?.as_name())
                .await?;
            println!("first look-up: {:?}", started.elapsed());
            if what == "batch" {
                return look_up_together(backend, zone, count).await;
            }
            look_up(backend, zone, prefix, count).await?;
        }
    }
    Ok(())
}

/// Look-ups in batches, one batch after the other.
async fn look_up_together(
    backend: SqlBackend,
    zone: LiveZone,
    count: u32,
) -> Result<(), Box<dyn Error>> {
    const BATCHES: usize = 1000;
    let started = Instant::now();
    let mut random = 1_u64;
    for _ in 0..BATCHES {
        let mut batch = backend.batch(IN_FLIGHT);
        for _ in 0..IN_FLIGHT {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let name = format!("host{}.example.org", (random >> 33) % u64::from(count));
            batch.add(zone.request(name.parse::<NameBuf>()?.as_name()));
        }
        while !batch.is_done() {
            for (_, found) in batch.round().await.found {
                if !matches!(found, Found::Ended(Ok(_))) {
                    return Err("a failed look-up".into());
                }
            }
        }
    }
    let (lookups, took) = (BATCHES * IN_FLIGHT, started.elapsed());
    println!("{lookups} look-ups in {took:?}");
    Ok(())
}

async fn look_up(
    backend: SqlBackend,
    zone: LiveZone,
    prefix: &'static str,
    count: u32,
) -> Result<(), Box<dyn Error>> {
    const LOOKUPS: usize = 100_000;
    let workers = if backend.is_blocking() { 1 } else { IN_FLIGHT };
    let started = Instant::now();
    let mut tasks = Vec::new();
    for worker in 0..workers {
        let backend = backend.clone();
        tasks.push(tokio::spawn(async move {
            let mut random = worker as u64 + 1;
            for _ in 0..LOOKUPS / workers {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let name = format!("{prefix}{}.example.org", (random >> 33) % u64::from(count));
                let name: NameBuf = name.parse().map_err(|_| "a bad name")?;
                backend
                    .lookup(&zone, name.as_name())
                    .await
                    .map_err(|_| "a failed look-up")?;
            }
            Ok::<(), &'static str>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let took = started.elapsed();
    println!(
        "{LOOKUPS} look-ups in {took:?}: {:.0}/s",
        LOOKUPS as f64 / took.as_secs_f64()
    );
    Ok(())
}
