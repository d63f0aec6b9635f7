//! Weights in the order in which kernels read them, and tables that go with them: made once for all plans of a deployment.
//!
//! Several threads bind operators at once, and whoever asks for a packing first makes it, outside of the lock. Numbers are given as
//! they come; where packings lie on the device goes by their keys ([`Packs::behind`]), which no thread's pace changes.

use super::BindError;
use crate::ids::SectionId;
use crate::plan::format::{Digest, Plan, Space, View};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Packed weights or a table: an index into [`Packs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackId(pub usize);

/// A weight file and a place in it, none for a table, and the name of the packing.
type Key = (Digest, u64, String);

/// All packed weights of a deployment: each section once per packing, whichever plans and operators use it.
#[derive(Default)]
pub struct Packs {
    known: BTreeMap<Key, PackId>,
    bytes: Vec<Vec<u8>>,
}

impl Packs {
    /// The packed bytes, by [`PackId`].
    pub fn bytes(&self) -> &[Vec<u8>] {
        &self.bytes
    }

    /// The packings behind the first `count`, in the order of their keys.
    pub fn behind(&self, count: usize) -> impl Iterator<Item = (PackId, &[u8])> {
        let more = self.known.values().filter(move |id| id.0 >= count);
        more.map(|&id| (id, self.bytes[id.0].as_slice()))
    }
}

/// Packs sections of one plan.
pub struct Packer<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Contents of its sections.
    pub sections: &'a [&'a [u8]],
    /// Where the packed weights are kept.
    pub packs: &'a Mutex<Packs>,
}

impl Packer<'_> {
    /// The section that a view of constants lies in; `None` for other views.
    pub fn section(&self, view: &View) -> Option<SectionId> {
        match self.plan.buffers.get(view.buffer.index())?.space {
            Space::Weights(section) => Some(section),
            _ => None,
        }
    }

    /// Contents of a section.
    pub fn contents(&self, section: SectionId) -> Result<&[u8], BindError> {
        self.sections.get(section.index()).copied().ok_or(BindError::Reference)
    }

    /// The packing of a section under `name`, which says everything the packed bytes depend on besides the section.
    pub fn pack(&self, section: SectionId, name: String, make: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<PackId, BindError> {
        let at = self.plan.sections.get(section.index()).ok_or(BindError::Reference)?;
        let file = self.plan.weight_files.get(at.file as usize).ok_or(BindError::Reference)?;
        let contents = self.contents(section)?;
        Ok(self.keep((file.digest, at.offset, name), || make(contents)))
    }

    /// A table that is no packing of weights: `name` says everything that it depends on.
    pub fn table(&self, name: String, make: impl FnOnce() -> Vec<u8>) -> PackId {
        self.keep((Digest([0; 32]), 0, name), make)
    }

    fn keep(&self, key: Key, make: impl FnOnce() -> Vec<u8>) -> PackId {
        let mut packs = self.lock();
        let next = PackId(packs.bytes.len());
        match packs.known.entry(key) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => place.insert(next),
        };
        packs.bytes.push(Vec::new());
        drop(packs);
        let bytes = make();
        self.lock().bytes[next.0] = bytes;
        next
    }

    /// The packings; nothing panics while it holds them.
    fn lock(&self) -> MutexGuard<'_, Packs> {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::bind::tests::bench::Bench;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Threads that ask for the same packings in different orders: each is made once, and lies in the order of names.
    #[test]
    fn threads_make_each_packing_once_and_their_pace_moves_none() {
        const NAMES: usize = 40;
        let mut bench = Bench::new(1);
        bench.plan.sections.push(crate::plan::format::Section {
            file: 0,
            offset: 0,
            bytes: 64,
        });
        let sections: [&[u8]; 1] = [&[7; 64]];
        let packs = Mutex::new(Packs::default());
        let made = AtomicUsize::new(0);
        let ask = |first: usize| {
            let packer = Packer {
                plan: &bench.plan,
                sections: &sections,
                packs: &packs,
            };
            let asked = (0..NAMES).map(|n| (first + n * 7) % NAMES).map(|n| {
                let make = |contents: &[u8]| {
                    made.fetch_add(1, Ordering::Relaxed);
                    vec![n as u8 + contents[0]; n + 1]
                };
                (n, packer.pack(SectionId(0), format!("{n:02}"), make).unwrap())
            });
            asked.collect::<BTreeMap<usize, PackId>>()
        };
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || ask(t * 11))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|of| of == &ids[0]));
        let packs = packs.into_inner().unwrap();
        assert_eq!((made.into_inner(), packs.bytes().len()), (NAMES, NAMES));
        let lie: Vec<(PackId, &[u8])> = packs.behind(0).collect();
        for (n, (id, bytes)) in lie.into_iter().enumerate() {
            assert_eq!((id, bytes), (ids[0][&n], vec![n as u8 + 7; n + 1].as_slice()));
        }
        assert_eq!(packs.behind(NAMES - 1).map(|(id, _)| id).collect::<Vec<_>>(), [PackId(NAMES - 1)]);
    }
}
