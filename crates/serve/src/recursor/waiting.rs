//! The clients that wait for a resolver, by the question they share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::HandOffFull;
use super::question::UpstreamQuestion;
use crate::pipeline::LateReply;

/// Clients that may wait, for each question that may be under way: enough for a name that all ask for at once.
const CLIENTS_A_QUESTION: usize = 8;

/// The outcome of a client's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is the first of its kind: somebody has to ask it.
    Begun,
    /// It was asked before.
    UnderWay,
}

/// Clients that wait, bounded in all, and the questions they wait for, bounded as well.
pub(crate) struct WaitingClients<C = LateReply> {
    questions: Mutex<Questions<C>>,
    questions_max: usize,
}

struct Questions<C> {
    clients: HashMap<UpstreamQuestion, Vec<C>>,
    count: usize,
}

impl<C> WaitingClients<C> {
    pub(crate) fn new(questions_max: usize) -> Self {
        WaitingClients {
            questions: Mutex::new(Questions {
                clients: HashMap::new(),
                count: 0,
            }),
            questions_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Questions<C>> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a client wait; `client` is called only where there is room.
    pub(crate) fn join(
        &self,
        question: &UpstreamQuestion,
        client: impl FnOnce() -> Option<C>,
    ) -> Result<Joined, HandOffFull> {
        let mut questions = self.lock();
        if questions.count >= self.questions_max.saturating_mul(CLIENTS_A_QUESTION) {
            return Err(HandOffFull);
        }
        let under_way = questions.clients.len();
        let joined = match questions.clients.get_mut(question) {
            Some(clients) => {
                clients.push(client().ok_or(HandOffFull)?);
                Joined::UnderWay
            }
            None if under_way >= self.questions_max => return Err(HandOffFull),
            None => {
                let clients = vec![client().ok_or(HandOffFull)?];
                questions.clients.insert(question.clone(), clients);
                Joined::Begun
            }
        };
        questions.count += 1;
        Ok(joined)
    }

    /// Begins a question for which nobody waits, unless it is under way.
    pub(crate) fn begin(&self, question: &UpstreamQuestion) -> Result<Joined, HandOffFull> {
        let mut questions = self.lock();
        if questions.clients.contains_key(question) {
            return Ok(Joined::UnderWay);
        }
        if questions.clients.len() >= self.questions_max {
            return Err(HandOffFull);
        }
        questions.clients.insert(question.clone(), Vec::new());
        Ok(Joined::Begun)
    }

    /// Takes out all who wait for a question.
    pub(crate) fn take(&self, question: &UpstreamQuestion) -> Vec<C> {
        let mut questions = self.lock();
        let clients = questions.clients.remove(question).unwrap_or_default();
        questions.count -= clients.len();
        clients
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::{Name, Type};

    fn question(number: u16) -> UpstreamQuestion {
        UpstreamQuestion::new(Name::ROOT, Type(number))
    }

    #[test]
    fn equal_questions_are_asked_once_and_all_who_wait_are_taken_together() {
        let waiting = WaitingClients::new(2);
        assert_eq!(waiting.join(&question(1), || Some(1)), Ok(Joined::Begun));
        assert_eq!(waiting.join(&question(1), || Some(2)), Ok(Joined::UnderWay));
        assert_eq!(waiting.join(&question(2), || Some(3)), Ok(Joined::Begun));
        assert_eq!(waiting.join(&question(3), || Some(4)), Err(HandOffFull));
        assert_eq!(waiting.take(&question(1)), [1, 2]);
        assert_eq!(waiting.take(&question(1)), [0; 0]);
        assert_eq!(waiting.join(&question(3), || Some(5)), Ok(Joined::Begun));
    }

    #[test]
    fn clients_are_bounded_although_they_share_a_question() {
        let waiting = WaitingClients::new(2);
        let taken = (0..100).filter(|n| waiting.join(&question(1), || Some(*n)).is_ok());
        assert_eq!(taken.count(), 2 * CLIENTS_A_QUESTION);
        waiting.take(&question(1));
        assert!(waiting.join(&question(1), || Some(0)).is_ok());
    }

    #[test]
    fn a_client_without_a_way_back_takes_no_room() {
        let waiting = WaitingClients::<u8>::new(1);
        assert_eq!(waiting.join(&question(1), || None), Err(HandOffFull));
        assert_eq!(waiting.lock().count, 0);
        assert!(waiting.lock().clients.is_empty());
    }
}
