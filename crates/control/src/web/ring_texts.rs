//! Requested texts of rings: one ranking serves all requests made before it started.
//!
//! - A text is never older than its request: a request during a ranking gets the next one.
//! - One ranking runs at a time, and it has its room before the next one starts. At most one per ring waits. So a
//!   client waits for a bounded number of rankings, however many others there are.
//! - A ranking is kept as long as it is being sent to a client.

use nameward_base::sync::Mutex;
use std::sync::Arc;

use nameward_stats::Ring;
use tokio::sync::{Semaphore, watch};

use super::outgoing_replies::{NoRoom, OutgoingReplies};
use super::ring_text::{RankedText, RingText};

/// Why there is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoText {
    /// There is no room for it.
    NoRoom(NoRoom),
    /// Its thread ended without a result.
    Failed,
}

type TextResult = Result<Arc<RingText>, NoText>;
/// `None` until the text is ready.
type TextReceiver = watch::Receiver<Option<TextResult>>;

/// Requested texts.
pub struct RingTexts {
    replies: Arc<OutgoingReplies>,
    turn: Semaphore,
    /// By ring: the requested text whose ranking has not started.
    requested: Mutex<[Option<TextReceiver>; Ring::COUNT]>,
}

impl RingTexts {
    /// Creates an empty set; texts reserve their room among these replies.
    pub fn new(replies: Arc<OutgoingReplies>) -> Arc<Self> {
        Arc::new(RingTexts {
            replies,
            turn: Semaphore::new(1),
            requested: Mutex::default(),
        })
    }

    /// Waits for the text of a ring as of now or later. `rank` is called on a blocking thread, once for all clients
    /// that wait for the same text.
    pub async fn text(
        self: &Arc<Self>,
        ring: Ring,
        rank: impl FnOnce() -> RankedText + Send + 'static,
    ) -> TextResult {
        let mut receiver = self.request(ring, rank);
        let result = receiver.wait_for(Option::is_some).await;
        let result = result.map_or(None, |result| result.clone());
        result.unwrap_or(Err(NoText::Failed))
    }

    fn request(
        self: &Arc<Self>,
        ring: Ring,
        rank: impl FnOnce() -> RankedText + Send + 'static,
    ) -> TextReceiver {
        let mut requested = self.requested.lock();
        if let Some(receiver) = &requested[ring as usize] {
            return receiver.clone();
        }
        let (sender, receiver) = watch::channel(None);
        requested[ring as usize] = Some(receiver.clone());
        // A separate task: the waiting clients may disconnect one by one.
        tokio::spawn(Arc::clone(self).make(ring, sender, rank));
        receiver
    }

    async fn make(
        self: Arc<Self>,
        ring: Ring,
        sender: watch::Sender<Option<TextResult>>,
        rank: impl FnOnce() -> RankedText + Send + 'static,
    ) {
        let Ok(_turn) = self.turn.acquire().await else {
            return; // never closed
        };
        // Later requests may expect entries that this ranking does not have.
        self.requested.lock()[ring as usize] = None;
        if sender.is_closed() {
            return; // no client waits any longer
        }
        let result = match tokio::task::spawn_blocking(rank).await {
            Ok(ranked) => match self.replies.hold(ranked.held_bytes()).await {
                Ok(room) => Ok(Arc::new(RingText::new(ranked, room))),
                Err(no_room) => Err(NoText::NoRoom(no_room)),
            },
            Err(_) => Err(NoText::Failed),
        };
        let _ = sender.send(Some(result)); // if any client still waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_stats::{RingCapacities, Stats};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn ranked(stats: &Stats) -> RankedText {
        RankedText::new(stats.snapshot().ring(Ring::Logmessages))
    }

    fn lines(text: &RingText) -> usize {
        let (piece, behind) = text.piece(Default::default());
        assert!(behind.is_at_end);
        assert_eq!(piece.len(), text.len());
        piece.iter().filter(|octet| **octet == b'\n').count()
    }

    #[tokio::test]
    async fn requests_during_a_ranking_share_the_next_one_which_is_newer() {
        let stats = Stats::new(RingCapacities::default());
        let replies = OutgoingReplies::new(1 << 20);
        let texts = RingTexts::new(Arc::clone(&replies));
        let rankings = Arc::new(AtomicUsize::new(0));
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let first = {
            let (stats, texts) = (Arc::clone(&stats), Arc::clone(&texts));
            tokio::spawn(async move {
                let rank = move || {
                    let text = ranked(&stats);
                    begun.send(()).expect("somebody waits for the beginning");
                    released.recv().expect("a release");
                    text
                };
                texts.text(Ring::Logmessages, rank).await
            })
        };
        has_begun.await.expect("a ranking begins");
        stats.log("after the first ranking began");
        let others: Vec<_> = (0..50)
            .map(|_| {
                let (stats, rankings) = (Arc::clone(&stats), Arc::clone(&rankings));
                let mut receiver = texts.request(Ring::Logmessages, move || {
                    rankings.fetch_add(1, Ordering::Relaxed);
                    ranked(&stats)
                });
                async move {
                    let result = receiver.wait_for(Option::is_some).await.expect("a text");
                    result.clone().expect("it is ranked").expect("room")
                }
            })
            .collect();
        release.send(()).expect("a ranking that waits");
        let first = first.await.expect("a task").expect("room");
        assert_eq!(lines(&first), 1);
        let mut shared = Vec::new();
        for other in others {
            shared.push(other.await);
        }
        assert_eq!(rankings.load(Ordering::Relaxed), 1);
        assert!(shared.iter().all(|text| Arc::ptr_eq(text, &shared[0])));
        assert_eq!(lines(&shared[0]), 2);
    }

    #[tokio::test]
    async fn a_text_without_waiting_clients_is_not_ranked_and_the_next_is() {
        let stats = Stats::new(RingCapacities::default());
        let texts = RingTexts::new(OutgoingReplies::new(1 << 20));
        // The ranking task does not run before this one waits.
        drop(texts.request(Ring::Logmessages, || panic!("no client waits")));
        tokio::task::yield_now().await;
        let text = texts.text(Ring::Logmessages, move || ranked(&stats)).await;
        assert_eq!(lines(&text.expect("room")), 1);
    }

    #[tokio::test]
    async fn a_text_without_room_is_refused_to_all_waiting_clients() {
        let stats = Stats::new(RingCapacities::default());
        let texts = RingTexts::new(OutgoingReplies::new(1000));
        let text = texts.text(Ring::Logmessages, move || ranked(&stats)).await;
        assert_eq!(text.err(), Some(NoText::NoRoom(NoRoom::TooLarge)));
    }
}
