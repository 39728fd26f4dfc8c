//! A client that has its answer finds it counted, although a worker counts a batch after it has left.

use nameward_stats::{Counter, RingCapacities, Stamp, Stats};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_snapshot_waits_for_the_batch_in_work() {
    let stats = Stats::new(RingCapacities::default());
    let mut recorder = stats.recorder();
    let (sent, left) = mpsc::channel();
    let worker = thread::spawn(move || {
        for _ in 0..200 {
            recorder.begin();
            // The reply leaves here; the client may read the page before the count below.
            if sent.send(()).is_err() {
                return;
            }
            thread::sleep(Duration::from_micros(200));
            recorder.add(Counter::NoerrorPackets, 1);
            recorder.flush(Stamp::now(), None);
        }
    });
    let (mut answers, mut early) = (0, 0);
    while left.recv().is_ok() {
        answers += 1;
        early += u32::from(noerror(&stats) < answers);
    }
    worker.join().unwrap();
    assert_eq!(noerror(&stats), 200);
    // A worker that loses its processor for longer than a reader waits may be skipped.
    assert!(
        early < 20,
        "{early} of 200 answers were not counted when the page was read"
    );
}

#[test]
fn a_worker_that_hangs_does_not_hang_the_page() {
    let stats = Stats::new(RingCapacities::default());
    let mut recorder = stats.recorder();
    recorder.begin();
    let started = Instant::now();
    stats.snapshot();
    assert!(started.elapsed() < Duration::from_secs(5));
}

fn noerror(stats: &Arc<Stats>) -> u64 {
    stats.snapshot().counter(Counter::NoerrorPackets)
}
