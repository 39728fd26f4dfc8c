//! Requests that run in the task of their connection as long as they do not wait.
//!
//! Most queries are answered from memory. A task for each would cost more than the answer, and the connection's own
//! task would run, and write to the socket, between two of them: one packet for each answer instead of one for all
//! queries that arrived together.

use std::pin::Pin;
use std::task::{Context, Waker};

/// Runs a future up to the first point where it waits. Returns it if it is not complete: then it must be polled again
/// by a task that it can wake.
pub(crate) fn run_now<F: Future<Output = ()> + ?Sized>(
    mut future: Pin<Box<F>>,
) -> Option<Pin<Box<F>>> {
    let mut context = Context::from_waker(Waker::noop());
    let polled = future.as_mut().poll(&mut context);
    polled.is_pending().then_some(future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    #[test]
    fn a_future_that_does_not_wait_is_complete_and_one_that_waits_continues_later() {
        let steps = Arc::new(AtomicUsize::new(0));
        let step = || {
            let steps = Arc::clone(&steps);
            move || steps.fetch_add(1, Ordering::Relaxed)
        };
        let first = step();
        assert!(run_now(Box::pin(async move { _ = first() })).is_none());
        assert_eq!(steps.load(Ordering::Relaxed), 1);
        let (notify, before, after) = (Arc::new(Notify::new()), step(), step());
        let notified = Arc::clone(&notify);
        let waiting = run_now(Box::pin(async move {
            before();
            notified.notified().await;
            after();
        }));
        assert_eq!(steps.load(Ordering::Relaxed), 2);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let waiting = tokio::spawn(waiting.expect("it waits"));
            notify.notify_one();
            waiting.await.unwrap();
        });
        assert_eq!(steps.load(Ordering::Relaxed), 3);
    }
}
