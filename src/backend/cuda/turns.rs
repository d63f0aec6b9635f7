//! Work shared out among threads: each takes the next item that is left, until none is.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What `work` makes of each item, in the order of the items, with up to `threads` threads. Items are begun in their order, so those
/// that take longest stand first. A panic of one is passed on when all threads have ended.
pub fn in_turns<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let take = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            Some((index, items.get(index)?))
        };
        std::iter::from_fn(take)
            .map(|(index, item)| (index, work(item)))
            .collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.clamp(1, items.len().max(1))).map(|_| scope.spawn(share)).collect();
        let ended = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.flatten().collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_items() {
        for threads in [0, 1, 3, 200] {
            let items: Vec<usize> = (0..100).collect();
            assert_eq!(
                in_turns(&items, threads, |n| n * n),
                items.iter().map(|n| n * n).collect::<Vec<_>>()
            );
        }
        assert_eq!(in_turns(&[] as &[u8], 4, |n| *n), [] as [u8; 0]);
    }
}
