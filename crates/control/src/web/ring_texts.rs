//! Texts of rings that clients wait for: one ranking serves all requests made before it started.
//!
//! - A text is never older than its request: a request during a ranking gets the next one.
//! - One ranking is made at a time, and it has its room before the next one starts. At most one per ring waits. A
//!   client therefore waits for a bounded number of rankings, however many others there are.
//! - A ranking is kept for as long as a client is sent its text.

use nameward_base::sync::{Mutex, MutexGuard};
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
    /// Its thread ended before it was made.
    Failed,
}

type MadeText = Result<Arc<RingText>, NoText>;
/// `None` until the text is made.
type TextReceiver = watch::Receiver<Option<MadeText>>;

/// Requested texts.
pub struct RingTexts {
    replies: Arc<OutgoingReplies>,
    turn: Semaphore,
    /// By ring: the requested text whose ranking has not started.
    asked: Mutex<[Option<TextReceiver>; Ring::COUNT]>,
}

impl RingTexts {
    /// Creates an empty set; texts take their room among these replies.
    pub fn new(replies: Arc<OutgoingReplies>) -> Arc<Self> {
        Arc::new(RingTexts {
            replies,
            turn: Semaphore::new(1),
            asked: Mutex::default(),
        })
    }

    /// Waits for the text of a ring as of now or later. `rank` is called on a blocking thread, for the first of all
    /// clients that wait for the same text.
    pub async fn text(
        self: &Arc<Self>,
        ring: Ring,
        rank: impl FnOnce() -> RankedText + Send + 'static,
    ) -> MadeText {
        let mut receiver = self.ask(ring, rank);
        let made = receiver.wait_for(Option::is_some).await;
        let made = made.map_or(None, |made| made.clone());
        made.unwrap_or(Err(NoText::Failed))
    }

    fn ask(
        self: &Arc<Self>,
        ring: Ring,
        rank: impl FnOnce() -> RankedText + Send + 'static,
    ) -> TextReceiver {
        let mut asked = self.asked();
        if let Some(receiver) = &asked[ring as usize] {
            return receiver.clone();
        }
        let (sender, receiver) = watch::channel(None);
        asked[ring as usize] = Some(receiver.clone());
        // A separate task: the waiting clients may disconnect one by one.
        tokio::spawn(Arc::clone(self).make(ring, sender, rank));
        receiver
    }

    async fn make(
        self: Arc<Self>,
        ring: Ring,
        sender: watch::Sender<Option<MadeText>>,
        rank: impl FnOnce() -> RankedText + Send + 'static,
    ) {
        let Ok(_turn) = self.turn.acquire().await else {
            return; // never closed
        };
        // Later requests may expect entries that this ranking does not have.
        self.asked()[ring as usize] = None;
        if sender.is_closed() {
            return; // no client waits any longer
        }
        let made = match tokio::task::spawn_blocking(rank).await {
            Ok(ranked) => match self.replies.hold(ranked.held_bytes()).await {
                Ok(room) => Ok(Arc::new(RingText::new(ranked, room))),
                Err(no_room) => Err(NoText::NoRoom(no_room)),
            },
            Err(_) => Err(NoText::Failed),
        };
        let _ = sender.send(Some(made)); // if any client still waits
    }

    fn asked(&self) -> MutexGuard<'_, [Option<TextReceiver>; Ring::COUNT]> {
        self.asked.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_stats::{RingCapacities, Stats, common_mnemonic};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn ranked(stats: &Stats) -> RankedText {
        RankedText::new(stats.snapshot().ring(Ring::Logmessages), common_mnemonic)
    }

    fn lines(text: &RingText) -> usize {
        let (piece, behind) = text.piece(Default::default());
        assert!(behind.is_at_end);
        assert_eq!(piece.len(), text.len());
        piece.iter().filter(|octet| **octet == b'\n').count()
    }

    #[tokio::test]
    async fn all_who_ask_while_a_ring_is_ranked_share_the_next_ranking_and_it_is_newer() {
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
                let mut receiver = texts.ask(Ring::Logmessages, move || {
                    rankings.fetch_add(1, Ordering::Relaxed);
                    ranked(&stats)
                });
                async move {
                    let made = receiver.wait_for(Option::is_some).await.expect("a text");
                    made.clone().expect("it is made").expect("room")
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
    async fn a_text_for_which_nobody_waits_is_not_ranked_and_the_next_is() {
        let stats = Stats::new(RingCapacities::default());
        let texts = RingTexts::new(OutgoingReplies::new(1 << 20));
        // The ranking task does not run before this one waits.
        drop(texts.ask(Ring::Logmessages, || panic!("nobody waits")));
        tokio::task::yield_now().await;
        let text = texts.text(Ring::Logmessages, move || ranked(&stats)).await;
        assert_eq!(lines(&text.expect("room")), 1);
    }

    #[tokio::test]
    async fn a_text_without_room_is_refused_to_all_who_wait_for_it() {
        let stats = Stats::new(RingCapacities::default());
        let texts = RingTexts::new(OutgoingReplies::new(1000));
        let text = texts.text(Ring::Logmessages, move || ranked(&stats)).await;
        assert_eq!(text.err(), Some(NoText::NoRoom(NoRoom::TooLarge)));
    }
}
